package agent

import (
	"bytes"
	"slices"

	"agentd/agent/format"
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

// estimate is how many bytes the candidates of a request return and how many they hold, where equal ones share
// theirs, and the number of its generated completions.
func estimate(requestID string, runs []*inputRun) (returned int, held int64, completions int) {
	for _, in := range runs {
		made := min(len(in.out), 1)
		if in.prompt != nil {
			made = in.request.N
			completions += made
		}
		if in.shortening != nil {
			completions += in.shortening.request.N
		}
		each := in.returned(requestID)
		returned += len(in.out) * each
		held += int64(made) * (int64(each+each/growthPart) + outputBytes + answerBytes*int64(in.request.MaxTokens))
	}
	return returned, held, completions
}

// returned estimates the bytes of a candidate.
func (in *inputRun) returned(requestID string) int {
	input := in.input
	again := len(input.Attributes) + len(in.memory.Summary)
	for _, rule := range in.memory.Rules {
		again += len(rule)
	}
	size := func(p *format.Prompt) int { return len(p.Text) + len(p.Messages) + len(p.Tools) + again }
	each := len(requestID) + len(input.Memory) + len(input.Instruction.Content)
	switch {
	case in.prompt != nil:
		each += size(in.prompt) + in.returns.bytes(len(in.prompt.Text), in.request.MaxTokens)
	case len(in.out) > 0:
		for _, step := range in.out[0].InternalSteps {
			each += len(step)
		}
	}
	if s := in.shortening; s != nil {
		each += size(s.prompt) + in.returns.bytes(len(s.prompt.Text), s.request.MaxTokens)
	}
	return each
}
