package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"agentd/llama/synth"
)

// generated is what a model step reports.
type generated struct {
	Prompt   []int      `json:"prompt_token_ids"`
	Tokens   []int      `json:"token_ids"`
	Logprobs []*float64 `json:"logprobs"`
	Masked   []float64  `json:"masked"`
	Forced   []int      `json:"forced"`
	Mask     [][]int    `json:"sampling_mask"`
}

// scored asks for the logprobs of the last tokens of prompts, from a token on.
func (r *running) scored(from int, prompts ...[]int) (rows [][]float64) {
	r.t.Helper()
	text, err := json.Marshal(map[string]any{
		"prompt": prompts, "echo": true, "max_tokens": 0, "logprobs": 0, "prompt_logprob_start": from - 1,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	status, body, err := exchange("POST", r.url+"/v1/completions", string(text))
	var answer struct {
		Choices []struct {
			Logprobs struct {
				TokenLogprobs []*float64 `json:"token_logprobs"`
			}
		}
	}
	if err != nil || status != 200 || json.Unmarshal([]byte(body), &answer) != nil || len(answer.Choices) != len(prompts) {
		r.t.Fatalf("%d %.500s, %v", status, body, err)
	}
	for _, c := range answer.Choices {
		var row []float64
		for i, p := range c.Logprobs.TokenLogprobs {
			if (p == nil) != (i < from) {
				r.t.Fatalf("token %d of %d: %v, from %d", i, len(c.Logprobs.TokenLogprobs), p, from)
			}
			if p != nil {
				row = append(row, *p)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// A trainer that normalises over the sampling mask has the server's probabilities, with top-p and a grammar. And given
// text has the logprobs that its generation reported.
func TestTrainerOverTheMaskHasTheServersProbabilities(t *testing.T) {
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--temperature", "1", "--top-p", "0.9", "--top-k", "0", "--min-p", "0.03", "--max-new-tokens", "40")
	ask := user(1, "rover or scout, bring something from somewhere.").extra(`{"return": ["token_ids", "logprobs", "sampling_mask"]}`).outputs(4)
	ask.Tools = json.RawMessage(`[{"name": "go_to", "description": "Drive.", "parameters": {"room": {"type": "string"}, "steps": {"type": "integer"}}}]`)
	ask.Attributes = json.RawMessage(`{"known_robots": ["rover", "scout"]}`)
	compared, most := 0, 0
	for _, o := range r.ask("r", ask) {
		var step struct {
			Elements struct{ Generation generated } `json:"input_elements"`
		}
		if err := json.Unmarshal(o.InternalSteps[0], &step); err != nil {
			t.Fatal(err)
		}
		g := step.Elements.Generation
		all := slices.Concat(g.Prompt, g.Tokens)
		whole := r.scored(len(g.Prompt), all)[0]
		for k, mask := range g.Mask {
			switch p := g.Logprobs[k]; {
			case slices.Contains(g.Forced, k):
				if p != nil || !slices.Equal(mask, g.Tokens[k:k+1]) {
					t.Errorf("forced token %d: %v, %v", k, p, mask)
				}
				continue
			case float32(*p) != float32(whole[k]):
				t.Errorf("token %d: %v, scored %v", k, *p, whole[k])
			}
			if len(mask) == 1 && g.Masked[k] == 0 || mask == nil {
				continue
			}
			at := slices.Index(mask, g.Tokens[k])
			before := all[:len(g.Prompt)+k]
			var prompts [][]int
			for _, id := range mask {
				prompts = append(prompts, append(slices.Clone(before), id))
			}
			sum, own := 0.0, 0.0
			for some := range slices.Chunk(prompts, 256) {
				for _, row := range r.scored(len(before), some...) {
					if sum += math.Exp(row[0]); at == 0 {
						own = math.Exp(row[0])
					}
					at--
				}
			}
			if ratio := own / sum / math.Exp(g.Masked[k]); math.Abs(ratio-1) > 1e-6 {
				t.Errorf("token %d: the ratio is %.9f over %d tokens", k, ratio, len(mask))
			}
			compared, most = compared+1, max(most, len(mask))
		}
		if len(g.Mask) != len(g.Tokens) {
			t.Error(fmt.Sprint(len(g.Mask), " masks for ", len(g.Tokens), " tokens"))
		}
	}
	if compared < 10 || most < 3 {
		t.Errorf("only %d tokens were compared, of at most %d", compared, most)
	}
	t.Logf("%d tokens, the largest mask has %d", compared, most)
}
