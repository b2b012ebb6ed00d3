package checkpoint

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/llama"
	"agentd/llama/checkpoint/checkpointtest"
)

// computedWithin bounds the difference to transformers in nats: both compute in F32, in another order.
const computedWithin = 1e-4

// TestCheckpointsComputeWhatTransformersComputes, for configurations that change numbers: testdata/computed.py writes
// models with random weights, and the log-probabilities of the library.
func TestCheckpointsComputeWhatTransformersComputes(t *testing.T) {
	if os.Getenv(converter) == "" {
		t.Skipf("no %s; make test-vllm sets it", converter)
	}
	parent := t.TempDir()
	script(t, "computed.py", parent)
	answers, err := filepath.Glob(filepath.Join(parent, "*.json"))
	if err != nil || len(answers) < 15 {
		t.Fatal(answers, err)
	}
	tokenizer := checkpointtest.All()[0].Write(t, t.TempDir())
	for _, path := range answers {
		dir := strings.TrimSuffix(path, ".json")
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var want struct {
				Prompt []llama.Token
				Scores [][]float64
			}
			text, err := os.ReadFile(path)
			if err != nil || json.Unmarshal(text, &want) != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
				if err := os.Link(filepath.Join(tokenizer, name), filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			file, err := Open(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if worst := furthest(logitsOf(t, file.Name(), want.Prompt, len(want.Scores)), want.Scores); !(worst < computedWithin) {
				t.Errorf("%.2g nats from transformers, at most %.2g", worst, computedWithin)
			} else {
				t.Logf("%.2g nats", worst)
			}
		})
	}
}

// furthest is the largest difference of log-probabilities between logits and scores.
func furthest(logits []float32, scores [][]float64) (worst float64) {
	for i, want := range scores {
		row, sum := logits[i*len(want):(i+1)*len(want)], 0.0
		for _, v := range row {
			sum += math.Exp(float64(v))
		}
		for k, v := range row {
			worst = max(worst, math.Abs(float64(v)-math.Log(sum)-want[k]))
		}
	}
	return worst
}
