package generation

// Served describes a model to clients that prompt it themselves.
type Served struct {
	Name     string
	Window   int     // tokens of a prompt with its answer
	Longest  int     // tokens of an answer where a request names no limit
	Ends     []Token // tokens that end an answer
	Size     int     // of the vocabulary
	Sampling Sampling
	Created  int64  // Unix time
	Places   int    // completions that are admitted at once, at most
	Effort   string // how long the model reasons: none, on, the effort of GPT-OSS, or "" if it can't
	Adapts   bool   // adapters can be loaded; the name of a lost one is not the model's
}
