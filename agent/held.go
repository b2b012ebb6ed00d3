package agent

import (
	"bytes"
	"slices"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// WorkBytes estimates the bytes that Prepare and Run allocate for a request, besides the request
// and its candidates. Members of memory that the agent does not read cost nothing.
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

// estimate returns the bytes that a request's candidates return, the bytes that they hold in memory, where equal
// candidates share them, and the number of completions.
func estimate(requestID string, runs []*inputRun) (returned int, held int64, completions int) {
	for _, in := range runs {
		input := in.input
		again := len(input.Attributes) + len(in.memory.Summary)
		for _, rule := range in.memory.Rules {
			again += len(rule)
		}
		each := len(requestID) + len(input.Memory) + len(input.Instruction.Content) // bytes of a candidate
		generated := func(p *format.Prompt, r *generation.Request) {
			each += len(p.Text) + len(p.Messages) + len(p.Tools) + again + in.returns.bytes(len(p.Text), r.MaxTokens, len(in.input.Attributes))
			completions += r.N
		}
		made := min(len(in.out), 1)
		switch {
		case in.prompt != nil:
			made = in.request.N
			generated(in.prompt, &in.request)
		case len(in.out) > 0:
			for _, step := range in.out[0].InternalSteps {
				each += len(step)
			}
		}
		if s := in.shortening; s != nil {
			generated(s.prompt, &s.request)
		}
		returned += len(in.out) * each
		held += int64(made) * (int64(each+each/growthPart) + outputBytes + answerBytes*int64(in.request.MaxTokens))
	}
	return returned, held, completions
}
