package agent

import (
	"bytes"
	"slices"

	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// WorkBytes estimates the memory that Prepare and Run take for a request beside itself
// and its candidates. Members of memory that the agent does not interpret cost nothing.
func WorkBytes(req *protocol.AgentRequest) (n int64) {
	for i := range req.Inputs {
		in := &req.Inputs[i]
		n += textCopies * int64(len(in.Instruction.Content)+len(in.Attributes)+len(in.ExtraKeys))
		known := i > 0 && slices.EqualFunc(in.Tools, req.Inputs[i-1].Tools, func(a, b protocol.Raw) bool { return bytes.Equal(a, b) })
		for _, tool := range in.Tools {
			if len(in.Tools) > tools.MaxTools || len(tool) > tools.MaxToolBytes {
				continue // an error that is found at once
			}
			n += textCopies * int64(len(tool))
			if !known { // else its catalog is shared
				n += toolBytes + valueBytes*int64(bytes.Count(tool, comma))
			}
		}
		for name, v := range protocol.Members(in.Memory) {
			switch name {
			case "history":
				n += textCopies*int64(len(v)) + entryBytes*int64(bytes.Count(v, openBrace))
			case "memory_list":
				n += textCopies*int64(len(v)) + ruleBytes*int64(bytes.Count(v, comma))
			case "summary", memory.QwenKey, memory.GPTOSSKey, memory.TokensKey:
				n += textCopies * int64(len(v))
			}
		}
	}
	return n
}

var openBrace, comma = []byte("{"), []byte(",")

// candidateBytes estimates the memory of all candidates of one request. Equal ones share theirs.
func candidateBytes(requestID string, runs []*inputRun) (n int64) {
	for _, in := range runs {
		made := min(len(in.out), 1)
		if in.prompt != nil {
			made = in.request.N
		}
		each := int64(in.returned(requestID))
		n += int64(made) * (each + each/growthPart + outputBytes + answerBytes*int64(in.request.MaxTokens))
	}
	return n
}
