package core

const (
	// MaxSequences is LLAMA_MAX_SEQ: the highest number of sequence ids of a
	// llama.cpp context.
	MaxSequences = 256

	// MinWait is the default of Config.MinWait. Waiting costs at least one step,
	// and a step computes this many more rows for nearly nothing.
	MinWait = 32

	// prefillFloor is the share (1/prefillFloor) of a step's rows kept for
	// prompts when the decode rows alone would fill the step.
	prefillFloor = 8

	// firstTokens is how many generated tokens a candidate has room for at first.
	firstTokens = 64
)
