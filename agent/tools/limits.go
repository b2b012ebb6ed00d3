package tools

// MaxTools bounds the tools of one input, MaxParameters the parameters of one
// tool: each becomes grammar rules that every sampled token is checked against.
const (
	MaxTools      = 512
	MaxParameters = 256
)
