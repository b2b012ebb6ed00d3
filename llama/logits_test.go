package llama

import (
	"math"
	"testing"

	"agentd/llama/synth"
)

func TestInfiniteLogitIsChosen(t *testing.T) {
	m := shared(t, synth.Qwen3)
	row := randomRow(m, 5)
	row[777] = float32(math.Inf(1))
	for _, cfg := range []SamplerConfig{
		{},
		{Temperature: 1},
		{Temperature: 1, TopK: 40},
		{Temperature: 1, TopP: 0.9},
		{Temperature: 1, MinP: 0.1},
		{Temperature: 1, TopK: 40, TopP: 0.9, MinP: 0.1},
		{Temperature: 1, TopK: 40, Grammar: `root ::= [^\x00]*`},
	} {
		if tok := mustSample(t, newSampler(t, m, cfg), row); tok != 777 {
			t.Errorf("%+v: token %d", cfg, tok)
		}
	}
}
