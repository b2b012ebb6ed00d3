package protocol

import (
	"fmt"
	"strings"
	"testing"
)

// historyBody is a request whose inputs carry a history of about size bytes
// each, as a Python client writes it, with a space after colons and commas.
func historyBody(inputs, size int) []byte {
	const turn = `{"author": "MODEL", "content": "{\"say\": \"\", \"action\": {\"robot_1\": {\"name\": \"pick\", \"arguments\": {\"object\": \"red cube\"}}}}"}`
	var b strings.Builder
	b.WriteString(`{"request_id": "bench", "inputs": [`)
	for i := range inputs {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `{"id": %d, "instruction": {"type": "user", "content": "Put the red cube into the box."}, `, i)
		b.WriteString(`"tools": [{"name": "pick", "description": "Pick up an object", "parameters": {"object": {"type": "string", "description": "which"}}}], `)
		b.WriteString(`"attributes": {"known_robots": ["robot_1"]}, "num_outputs": 4, "memory": {"memory_list": ["Be brief."], "history": [`)
		for n := 0; n < size; n += len(turn) + 2 {
			if n > 0 {
				b.WriteString(", ")
			}
			b.WriteString(turn)
		}
		b.WriteString(`]}}`)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func BenchmarkDecodeAgentRequest(b *testing.B) {
	for _, c := range []struct {
		name         string
		inputs, size int
	}{
		{"small", 1, 0},
		{"history=1MB", 1, 1 << 20},
		{"inputs=64", 64, 16 << 10},
		{"inputs=1024", 1024, 1 << 10},
	} {
		for _, spaced := range []bool{true, false} {
			body := historyBody(c.inputs, c.size)
			form := "spaced"
			if !spaced {
				form = "compact"
				body, _ = compact(body, MaxDepth)
			}
			b.Run(c.name+"/"+form, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := DecodeAgentRequest(body); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkResponse(b *testing.B) {
	req, err := DecodeAgentRequest(historyBody(64, 16<<10))
	if err != nil {
		b.Fatal(err)
	}
	var outs []AgentOutput
	for _, in := range req.Inputs {
		for c := range in.NumOutputs {
			outs = append(outs, AgentOutput{
				RequestID: req.RequestID, SourceID: in.ID, CandidateIndex: c, Status: StatusCompleted,
				Memory: in.Memory, Output: &AgentDecision{Say: "Done."},
			})
		}
	}
	b.Run("validate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := ValidateResponse(req, outs); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRaw(b *testing.B) {
	req, err := DecodeAgentRequest(historyBody(1, 1<<20))
	if err != nil {
		b.Fatal(err)
	}
	memory := req.Inputs[0].Memory
	turn := Raw(`{"author":"USER","content":"more"}`)
	b.Run("append-turn", func(b *testing.B) {
		b.SetBytes(int64(len(memory)))
		b.ReportAllocs()
		for b.Loop() {
			history, _ := Get(memory, "history")
			_ = SetMember(memory, "history", AppendElements(history, turn, turn))
		}
	})
}
