package llama

import (
	"errors"
	"testing"

	"agentd/llama/synth"
)

// TestSampleBatchEqualsSample for each sampler, errors included.
func TestSampleBatchEqualsSample(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for _, threads := range []int{1, 3} {
		c := newContext(t, m, SetThreads(1, threads))
		if c.threads != threads && c.threads != 0 {
			t.Fatalf("a team of %d threads, want %d, or 0 with a GPU", c.threads, threads)
		}
		const n = 20
		var samplers [n]*Sampler
		var rows [n][]float32
		var want [n]Token
		for i := range n {
			cfg := SamplerConfig{Temperature: 1, Seed: uint32(i)}
			if i%2 == 0 {
				cfg.Grammar = `root ::= [a-z]*`
			}
			samplers[i] = newSampler(t, m, cfg)
			rows[i] = randomRow(m, uint64(i))
			want[i] = mustSample(t, newSampler(t, m, cfg), rows[i])
		}
		rows[3] = rows[3][1:]
		dead := newSampler(t, m, SamplerConfig{Grammar: `root ::= "a"`, Suppress: tokenize(t, m, "a")})
		samplers[4] = dead
		if err := samplers[5].Close(); err != nil {
			t.Fatal(err)
		}
		out := make([]Sampled, n)
		c.SampleBatch(samplers[:], rows[:], out)
		for i, s := range out {
			switch i {
			case 3:
				if s.Err == nil {
					t.Error("a short row is taken")
				}
			case 4:
				if !errors.Is(s.Err, ErrGrammarDead) {
					t.Errorf("a dead grammar: %v", s.Err)
				}
			case 5:
				if !errors.Is(s.Err, ErrClosed) {
					t.Errorf("a closed sampler: %v", s.Err)
				}
			default:
				if s.Err != nil || s.Token != want[i] {
					t.Errorf("%d threads, sampler %d: %+v, want %d", threads, i, s, want[i])
				}
			}
		}
		samplers[5] = newSampler(t, m, SamplerConfig{}) // newSampler's cleanup closes the others
	}
}
