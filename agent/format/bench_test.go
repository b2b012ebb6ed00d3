package format_test

import (
	"fmt"
	"strings"
	"testing"

	"agentd/llama"
	"agentd/protocol"
)

// BenchmarkDecision is the sampling of a whole decision, a call for each robot, whose
// every token is the model's favourite, followed by what the grammar forces.
func BenchmarkDecision(b *testing.B) {
	f, k := setups[0].open(b)
	var raw []protocol.Raw
	for i := range 12 {
		raw = append(raw, protocol.Raw(fmt.Sprintf(`{"name":"tool_%c","description":"D","parameters":{"type":"object","properties":{"room":{"type":"string"},"fast":{"type":"boolean"}},"required":["room","fast"]}}`, 'a'+i)))
	}
	for _, n := range []int{1, 4, 12} {
		b.Run(fmt.Sprintf("robots=%d", n), func(b *testing.B) {
			var robots, calls []string
			for i := range n {
				robots = append(robots, fmt.Sprintf("robot_%d", i))
				calls = append(calls, fmt.Sprintf("<tool_call>\n{\"name\": \"tool_%c\", \"arguments\": {\"room\": \"kitchen\", \"fast\": true, \"target_robot\": \"robot_%d\"}}\n</tool_call>", 'a'+i, n-1-i))
			}
			grammar, err := catalogOf(b, f, raw, robots...).Grammar()
			if err != nil {
				b.Fatal(err)
			}
			tokens, err := k.model.Vocab().Tokenize(strings.Join(calls, "\n"), false, true)
			if err != nil {
				b.Fatal(err)
			}
			first, err := k.model.NewSampler(llama.SamplerConfig{Grammar: grammar, Temperature: 0.6, TopP: 0.95, TopK: 20, SuppressControl: true})
			if err != nil {
				b.Fatal(err)
			}
			defer first.Close()
			row := make([]float32, k.model.Vocab().Size())
			buffer := make([]llama.Token, 0, llama.MaxForced)
			b.ReportAllocs()
			for b.Loop() {
				s, err := first.CloneSeed(1)
				if err != nil {
					b.Fatal(err)
				}
				for at := 0; at < len(tokens); at++ {
					row[tokens[at]] = 50
					got, err := s.Sample(row)
					row[tokens[at]] = 0
					if err != nil || got != tokens[at] {
						b.Fatalf("token %d of %d: %d, want %d, %v", at, len(tokens), got, tokens[at], err)
					}
					list, _, err := s.Force(buffer)
					if err != nil {
						b.Fatal(err)
					}
					at += len(list)
				}
				s.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(tokens)), "ns/token")
		})
	}
}
