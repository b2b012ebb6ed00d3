package format

const (
	maxCalls    = 16 // of one constrained answer, which must end before the token limit
	maxAnalyses = 4  // analysis messages of one constrained gpt-oss answer
	maxEnds     = 64 // possible ends of calls that are tried in a truncated answer
	maxQuoted   = 80 // bytes of a model's answer in a message
)
