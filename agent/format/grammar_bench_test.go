package format_test

import (
	"fmt"
	"testing"

	"agentd/agent/tools"
	"agentd/protocol"
)

// BenchmarkGrammar makes the grammar of the largest number of tools that an input may have.
func BenchmarkGrammar(b *testing.B) {
	var raw []protocol.Raw
	for i := range tools.MaxTools {
		raw = append(raw, protocol.Raw(fmt.Sprintf(`{"name":"tool_%d","description":"D","parameters":{"type":"object","properties":{
			"room":{"type":"string","enum":["kitchen","hall","bath_%d"]},"speed":{"type":"integer","minimum":1,"maximum":%d},"note":{"type":"string"},
			"pose":{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["x","y"]},
			"path":{"type":"array","items":{"type":"array","items":{"type":"number"},"minItems":2,"maxItems":2}}},"required":["room","speed"]}}`, i, i, i+5)))
	}
	for _, name := range []string{"hermes", "tagged", "gpt-oss", "blocks"} {
		f, k := setupOf(name).open(b)
		for i := range raw {
			if err := raw[i].Compact(); err != nil {
				b.Fatal(err)
			}
		}
		set, err := tools.Normalise(raw, []string{"a", "b", "c"}, "robot")
		if err != nil {
			b.Fatal(err)
		}
		var grammar string
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if grammar, err = f.Catalog(set).Grammar(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(grammar)), "bytes/grammar")
		})
		b.Run(name+", parsed", func(b *testing.B) {
			for b.Loop() {
				if err := checkGrammar(k.model, grammar); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("the check", func(b *testing.B) {
		for b.Loop() {
			if _, err := tools.Normalise(raw, []string{"a", "b", "c"}, "robot"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
