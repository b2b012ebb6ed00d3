package protocol

// Weights is the body of GET /v1/weights: the model and the adapters that answer requests.
type Weights struct {
	Model    WeightsFile   `json:"model"`
	Adapters []WeightsFile `json:"adapters"`
	Paused   string        `json:"paused,omitzero"` // mode of the pause, "" when not paused
}

// WeightsFile is a file of weights. Version identifies its content.
type WeightsFile struct {
	Name    string `json:"name,omitzero"` // of an adapter; "" for the model
	Path    string `json:"path"`
	Version string `json:"version,omitzero"`
}
