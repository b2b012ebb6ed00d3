package live

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"agentd/inference/defaultmodel"
	"agentd/inference/load"
	"agentd/llama"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/scheduler"
)

// reported is what extra_keys.return adds to a step.
type reported struct {
	Version    string        `json:"model_version"`
	Prompt     []llama.Token `json:"prompt_token_ids"`
	Tokens     []llama.Token `json:"token_ids"`
	Differs    *int          `json:"next_prompt_differs_at"`
	Logprobs   []float64     `json:"logprobs"`
	Masked     []float64     `json:"masked"`
	Forced     []int         `json:"forced"`
	Drafted    []int         `json:"drafted"`
	SumLogprob float64       `json:"sum_logprob"`
}

func reportedBy(t *testing.T, out protocol.AgentOutput) reported {
	t.Helper()
	if len(out.InternalSteps) == 0 {
		t.Fatalf("no step: %+v", out.Error)
	}
	var step struct {
		Elements struct {
			Generation reported `json:"generation"`
		} `json:"input_elements"`
	}
	if err := json.Unmarshal(out.InternalSteps[0], &step); err != nil {
		t.Fatal(err)
	}
	return step.Elements.Generation
}

// asks is an input that asks for everything, with two candidates.
func asks(in protocol.AgentInput) protocol.AgentInput {
	in.ExtraKeys, in.NumOutputs = protocol.Raw(`{"return":["token_ids","logprobs"]}`), 2
	return in
}

// plain returns the logarithms of the probabilities of tokens after a prompt, from a forward
// pass in its own context. A batch has the given number of rows at most, and 0 means all.
// With steps, the tokens after the prompt are computed one at a time.
func plain(t *testing.T, m *llama.Model, prompt, tokens []llama.Token, rows int, steps bool, opts ...llama.ContextOption) (list []float64) {
	t.Helper()
	all := slices.Concat(prompt, tokens)
	c, err := m.NewContext(append(opts, llama.SetContext(len(all)), llama.SetBatch(len(all)), llama.SetMaxOutputs(len(all)), llama.SetThreads(1, 1), llama.SetKVType("f32"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b []llama.Row
	for at := 0; at < len(all)-1; {
		b = b[:0]
		end := len(all) - 1
		if rows > 0 {
			end = min(end, at+rows)
		}
		if steps {
			end = min(end, max(at+1, len(prompt)))
		}
		for i := at; i < end; i++ {
			b = append(b, llama.Row{Token: all[i], Pos: llama.Pos(i), Output: i >= len(prompt)-1})
		}
		if err := c.Decode(b); err != nil {
			t.Fatal(err)
		}
		for i := max(at, len(prompt)-1); i < end; i++ {
			row, err := c.Logits(i - at)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, softmaxLog(row, all[i+1]))
		}
		at = end
	}
	return list
}

// softmaxLog is the logarithm of a token's probability, in doubles.
func softmaxLog(row []float32, token llama.Token) float64 {
	most, sum := float64(slices.Max(row)), 0.0
	for _, x := range row {
		sum += math.Exp(float64(x) - most)
	}
	return float64(row[token]) - most - math.Log(sum)
}

// compareLogprobs is the number of tokens to compare in each case; AGENTD_SCORED_TOKENS asks for
// more.
func compareLogprobs() int {
	if n, err := strconv.Atoi(os.Getenv("AGENTD_SCORED_TOKENS")); err == nil {
		return n
	}
	return 150
}

// Bounds of the differences to a forward pass.
const (
	// In F32 only the order of sums differs.
	mostOff = 1e-4
	// With F16 weights ggml's kernels round activations to F16, and with an F16 cache keys and
	// values.
	mostOffF16 = 0.02
	meanOffF16 = 0.001
	// The same batches give the same logits. What is left is the rounding of a logprob to F32.
	mostOffReplayed = 2e-6
)

// widened is the default model in F32.
func widened(t *testing.T) string {
	t.Helper()
	source, err := defaultmodel.Path("")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "f32.gguf")
	if err := synth.Widen(source, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Through the whole service, with the default model: the numbers of a step equal a plain
// forward pass's over its tokens, without flash attention.
func TestStepsTellTheLogprobsOfAForwardPass(t *testing.T) {
	path := widened(t)
	drafts := scheduler.Config{Policy: scheduler.Policy{DraftRows: 24, MaxRunning: width}}
	for name, c := range map[string]struct {
		cfg   scheduler.Config
		f16   bool // weights
		cache string
	}{
		"forced tokens and drafts": {cfg: drafts, cache: "f32"},
		"forced tokens":            {cfg: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}, cache: "f32"},
		"drafts":                   {cfg: scheduler.Config{Policy: drafts.Policy, NoForcedTokens: true}, cache: "f32"},
		"neither":                  {cfg: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}, NoForcedTokens: true}, cache: "f32"},
		"weights in F16":           {cfg: drafts, f16: true, cache: "f32"},
		"weights and cache in F16": {cfg: drafts, f16: true, cache: "f16"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := load.Config{Scheduler: c.cfg, KVType: c.cache, Path: path}
			if c.f16 {
				cfg.Path = ""
			}
			s := openDefault(t, cfg)
			inexact := c.f16 || !llama.SharedAttention() // else llama.cpp's flash attention casts the cache to F16
			inputs := conversations(t, s)
			var steps deviation
			forced, drafted := 0, 0
			seen := map[string][]float64{} // many candidates have the same tokens
			for turn := 0; steps.n < compareLogprobs(); turn++ {
				in := asks(inputs[turn%len(inputs)])
				in.NumOutputs = 8
				outs, err := s.Decide(t.Context(), &protocol.AgentRequest{RequestID: strconv.Itoa(turn), Inputs: []protocol.AgentInput{in}})
				if err != nil {
					t.Fatal(err)
				}
				for _, out := range outs {
					got := reportedBy(t, out)
					key := fmt.Sprint(got.Prompt, got.Tokens)
					want, known := seen[key]
					if !known {
						want = plain(t, s.Llama, got.Prompt, got.Tokens, 0, false, llama.SetFlashAttention(false))
						seen[key] = want
					}
					if len(got.Logprobs) != len(want) || len(got.Masked) != len(want) {
						t.Fatalf("%d logprobs and %d under the mask for %d tokens", len(got.Logprobs), len(got.Masked), len(want))
					}
					sum := 0.0
					for i, x := range want {
						if !slices.Contains(got.Forced, i) {
							steps.add(got.Logprobs[i], x)
							sum += got.Logprobs[i]
						}
					}
					if math.Abs(sum-got.SumLogprob) > 1e-4 || len(got.Version) != len("sha256:")+32 {
						t.Errorf("sum %g, want %g; version %q", got.SumLogprob, sum, got.Version)
					}
					forced, drafted = forced+len(got.Forced), drafted+len(got.Drafted)
				}
			}
			t.Logf("steps are %v off; %d different answers, %d tokens forced, %d drafted", steps, len(seen), forced, drafted)
			most := mostOff
			if inexact {
				most = mostOffF16
			}
			if !(steps.most <= most) || inexact && !(steps.mean() <= meanOffF16) {
				t.Errorf("the logprobs are %v off", steps)
			}
			if (forced > 0) == c.cfg.NoForcedTokens || (drafted > 0) != (c.cfg.DraftRows > 0) {
				t.Errorf("%d forced and %d drafted tokens", forced, drafted)
			}
		})
	}
}

// With F16 weights, the number of rows in a batch selects ggml's kernels, and their order of sums
// decides how the next activations are rounded to F16. In the same batches nothing differs.
func TestIsolatedStepsEqualAPassInTheSameBatches(t *testing.T) {
	s := openDefault(t, load.Config{Scheduler: scheduler.Config{Isolate: true, NoForcedTokens: true}, KVType: "f32"})
	var same deviation
	batch := s.Info.BatchSize
	other := map[int]*deviation{1: {}, batch: {}}
	for _, in := range conversations(t, s)[:2] {
		in = asks(in)
		in.NumOutputs = 1
		got := reportedBy(t, decide(t, s, in))
		for i, x := range plain(t, s.Llama, got.Prompt, got.Tokens, batch, true) {
			same.add(got.Logprobs[i], x)
		}
		for rows, d := range other {
			for i, x := range plain(t, s.Llama, got.Prompt, got.Tokens, rows, false) {
				d.add(got.Logprobs[i], x)
			}
		}
	}
	t.Logf("in the same batches %v off", same)
	for rows, d := range other {
		t.Logf("in batches of %d rows %v off", rows, *d)
	}
	if !(same.most <= mostOffReplayed) {
		t.Errorf("the logprobs are %v off a pass in the same batches", same)
	}
}

// deviation sums up differences of logprobs.
type deviation struct {
	n         int
	most, sum float64
}

func (d *deviation) add(a, b float64) {
	off := math.Abs(a - b)
	if math.IsNaN(off) {
		off = math.Inf(1)
	}
	d.n, d.most, d.sum = d.n+1, max(d.most, off), d.sum+off
}

func (d deviation) mean() float64 { return d.sum / float64(d.n) }

func (d deviation) String() string {
	return fmt.Sprintf("at most %.2g and on average %.2g of %d tokens", d.most, d.mean(), d.n)
}

// The prompt of each turn begins with the tokens of the turn before, up to where its step says.
func TestNextTurnBeginsWithTheTokensOfTheLast(t *testing.T) {
	s := openDefault(t, load.Config{})
	const conversation = 4 // turns
	compared, whole := 0, 0
	for _, in := range conversations(t, s)[:8] {
		var before reported
		for turn := range conversation {
			out := decide(t, s, asks(in))
			if out.Error != nil {
				break
			}
			got := reportedBy(t, out)
			if turn > 0 {
				all := slices.Concat(before.Prompt, before.Tokens)
				n := 0
				for n < len(all) && n < len(got.Prompt) && all[n] == got.Prompt[n] {
					n++
				}
				want := len(all)
				if before.Differs != nil {
					want = *before.Differs
				} else {
					whole++
				}
				if compared++; n != want {
					t.Errorf("turn %d: the prompt begins with %d of %d tokens, the step before says %d", turn, n, len(all), want)
				}
			}
			before, in.Memory = got, out.Memory
			in.Instruction = protocol.AgentInstruction{Type: protocol.InstructionEnv, Content: "rover: success"}
			if len(out.Output.ToolCalls) == 0 {
				in.Instruction = protocol.AgentInstruction{Type: protocol.InstructionUser, Content: "go on"}
			}
		}
	}
	t.Logf("%d of %d prompts begin with all tokens of the turn before", whole, compared)
	if compared == 0 {
		t.Error("no decision was made")
	}
}
