package format

// maxCalls bounds the tool calls of one constrained answer, so that it ends before the token limit.
const maxCalls = 16

// maxAnalyses bounds the analysis messages of one constrained gpt-oss answer.
const maxAnalyses = 4

// maxQuoted bounds what messages quote of a model's answer, in bytes.
const maxQuoted = 80
