package format

const (
	maxCalls    = 16 // of one constrained answer, so that it ends before the token limit
	maxAnalyses = 4  // analysis messages of one constrained gpt-oss answer
	maxEnds     = 64 // of calls that are tried in an answer that was cut off
	maxQuoted   = 80 // bytes of a model's answer in a message
)
