package protocol

// Weights are the weights that serve: the body of GET /v1/weights.
type Weights struct {
	Model    WeightsFile   `json:"model"`
	Adapters []WeightsFile `json:"adapters"`
	Paused   string        `json:"paused,omitzero"` // mode of the pause
}

// WeightsFile is a file of weights. Version names its bytes.
type WeightsFile struct {
	Name    string `json:"name,omitzero"` // of an adapter
	Path    string `json:"path"`
	Version string `json:"version,omitzero"`
}
