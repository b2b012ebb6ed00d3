package llama

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"agentd/llama/synth"
)

// TestEveryInstructionSetFindsTheSameInLogits: the largest exactly, weights and their sum
// to what floats allow.
func TestEveryInstructionSetFindsTheSameInLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, logit := range map[string]func(i int) float32{
		"any":                     func(i int) float32 { return float32(rand.New(rand.NewPCG(1, uint64(i))).NormFloat64() * 4) },
		"most of no weight":       func(i int) float32 { return float32(-200 * rand.New(rand.NewPCG(2, uint64(i))).Float64()) },
		"some impossible":         func(i int) float32 { return []float32{-inf, 3, float32(-i)}[i%3] },
		"some no numbers":         func(i int) float32 { return []float32{nan, float32(i % 7), -1}[i%3] },
		"none possible":           func(int) float32 { return -inf },
		"none a number":           func(int) float32 { return nan },
		"the last one is largest": func(i int) float32 { return float32(i) / 16 },
		"the first one":           func(i int) float32 { return float32(-i) / 16 },
	} {
		for _, n := range []int{1, 5, 8, 15, 16, 17, 63, 64, 65, 255, 256, 1000} {
			logits := make([]float32, n)
			want := -inf
			for i := range logits {
				if logits[i] = logit(i); logits[i] > want {
					want = logits[i]
				}
			}
			for _, factor := range []float32{1.442695, 0.1, 30} {
				t.Run(fmt.Sprintf("%s/%d/%v", name, n, factor), func(t *testing.T) { checkWeights(t, logits, want, factor) })
			}
		}
	}
}

func checkWeights(t *testing.T, logits []float32, want, factor float32) {
	for version := 0; ; version++ {
		best, sum, weights, ok := weigh(version, logits, factor, true)
		if !ok {
			if version == 0 {
				t.Fatal("no version at all")
			}
			return
		}
		if best != want {
			t.Fatalf("version %d: the largest is %v, want %v", version, best, want)
		}
		if _, alone, _, _ := weigh(version, logits, factor, false); math.Float32bits(alone) != math.Float32bits(sum) {
			t.Fatalf("version %d: the sum is %v, without weights %v", version, sum, alone)
		}
		if math.IsInf(float64(want), -1) {
			continue // nothing is weighed beside what is impossible
		}
		var all float64
		for i, x := range logits {
			exponent := float64((x - best) * factor)
			w := math.Exp2(exponent)
			if !(exponent >= -126) {
				w = 0
			}
			all += w
			if d := math.Abs(float64(weights[i]) - w); !(d <= 4e-7*w) {
				t.Fatalf("version %d: logit %d, %v, weighs %v, want %v", version, i, x, weights[i], w)
			}
		}
		if d := math.Abs(float64(sum) - all); !(d <= 1e-5*all) {
			t.Fatalf("version %d: the sum is %v, want %v", version, sum, all)
		}
	}
}

func TestWhatIsInfinitelyLikelyIsChosen(t *testing.T) {
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
