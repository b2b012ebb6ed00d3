package tools

// MaxTools bounds the tools of one input, MaxParameters the parameters of one
// tool: each becomes grammar rules that every sampled token is checked against.
const (
	MaxTools      = 512
	MaxParameters = 256
)

// MaxDepth bounds the nesting of a call's arguments. The answer nests them six
// levels deep, and its readers take 64 levels.
const MaxDepth = 56

// maxExponent bounds the exponents of numbers; float64 ends at 308.
const maxExponent = 400
