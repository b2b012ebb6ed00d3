package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// instant answers at once.
type instant struct{ answer string }

func (g instant) GenerateAll(_ context.Context, gs []generation.Request, done func(int, *generation.Result, error)) {
	for i, asked := range gs {
		r := &generation.Result{Completions: make([]generation.Completion, asked.N)}
		for k := range r.Completions {
			r.Completions[k] = generation.Completion{Text: g.answer, Stop: "<|im_end|>", Tokens: make([]generation.Token, 20), Finish: generation.FinishStop}
		}
		done(i, r, nil)
	}
}

func (instant) Keep(int) {}

// BenchmarkCandidate measures the cost of a candidate apart from the model, with N = 8
// and histories of 1 to 1,000 entries. bytes/op is the memory that the
// candidate returns and the step that records it.
func BenchmarkCandidate(b *testing.B) {
	const n = 8
	for _, entries := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("history=%d", entries), func(b *testing.B) {
			history := []string{}
			for i := range entries {
				switch i % 3 {
				case 0:
					history = append(history, `{"author":"USER","content":"Please bring the red cup from the kitchen to the table."}`)
				case 1:
					history = append(history, `{"author":"MODEL","content":"{\"say\": \"\", \"action\": {\"a\": {\"name\": \"move\", \"arguments\": {\"to\": \"kitchen\"}}}}"}`)
				default:
					history = append(history, `{"author":"SYSTEM","content":"{\"status\": \"ok\", \"at\": [1.5, 2.5]}"}`)
				}
			}
			req := request(b, fmt.Sprintf(`{"num_outputs":%d,"memory":{"memory_list":["Be kind."],"history":[%s]},%s}`, n, strings.Join(history, ","), tools))
			a := newAgent(b, agent.Config{}, nil)
			g := instant{moveTo("table", "b")}
			var outs []protocol.AgentOutput
			b.ReportAllocs()
			for b.Loop() {
				plan, err := a.Prepare(req, nil)
				if err != nil {
					b.Fatal(err)
				}
				if outs, err = a.Run(context.Background(), plan, g); err != nil {
					b.Fatal(err)
				}
			}
			perCandidate := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / n
			b.ReportMetric(perCandidate/1000, "µs/candidate")
			b.ReportMetric(float64(len(outs[0].Memory)+len(outs[0].InternalSteps[0])), "bytes/candidate")
		})
	}
}
