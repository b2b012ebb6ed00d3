package inference

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"agentd/llama"
	"agentd/protocol"
	"agentd/scheduler"
)

// told is what extra_keys.return adds to a step.
type told struct {
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

func toldBy(t *testing.T, out protocol.AgentOutput) told {
	t.Helper()
	if len(out.InternalSteps) == 0 {
		t.Fatalf("no step: %+v", out.Error)
	}
	var step struct {
		Elements struct {
			Generation told `json:"generation"`
		} `json:"input_elements"`
	}
	if err := json.Unmarshal(out.InternalSteps[0], &step); err != nil {
		t.Fatal(err)
	}
	return step.Elements.Generation
}

// asks is an input that asks for everything, with two candidates.
func asks(in protocol.AgentInput) protocol.AgentInput {
	in.ExtraKeys, in.NumOutputs = protocol.Raw(`{"return":["token_ids","forced_logprobs"]}`), 2
	return in
}

// plain returns the logarithms of the probabilities of tokens behind a prompt, from one forward
// pass in a context of its own.
func plain(t *testing.T, m *llama.Model, prompt, tokens []llama.Token) (list []float64) {
	t.Helper()
	all := slices.Concat(prompt, tokens)
	c, err := m.NewContext(llama.SetContext(len(all)), llama.SetBatch(len(all)), llama.SetMaxOutputs(len(all)), llama.SetThreads(1, 1), llama.SetKVType("f32"), llama.SetFlashAttention(false))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := llama.NewBatch(len(all))
	defer b.Free()
	for i, token := range all {
		if err := b.Add(token, llama.Pos(i), 0, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Decode(b); err != nil {
		t.Fatal(err)
	}
	for i, token := range tokens {
		row, err := c.Logits(len(prompt) + i - 1)
		if err != nil {
			t.Fatal(err)
		}
		most, sum := float64(slices.Max(row)), 0.0
		for _, x := range row {
			sum += math.Exp(float64(x) - most)
		}
		list = append(list, float64(row[token])-most-math.Log(sum))
	}
	return list
}

// compareLogprobs is the number of tokens to compare in each case; AGENTD_SCORED_TOKENS asks for
// more.
func compareLogprobs() int {
	if n, err := strconv.Atoi(os.Getenv("AGENTD_SCORED_TOKENS")); err == nil {
		return n
	}
	return 100
}

// Kernels round f16 activations otherwise in other batches, so that two plain passes of the
// default model differ, too. In f32 the scheduler's tests allow 0.001.
const (
	mostOff = 0.02
	meanOff = 0.001
)

// Through the whole service, with the default model: the numbers of a step are those of a plain
// forward pass over its tokens.
func TestStepsTellTheLogprobsOfAForwardPass(t *testing.T) {
	for name, cfg := range map[string]scheduler.Config{
		"forced tokens and drafts": {Policy: scheduler.Policy{DraftRows: 24, MaxRunning: width}},
		"forced tokens":            {Policy: scheduler.Policy{MaxRunning: width}},
		"drafts":                   {Policy: scheduler.Policy{DraftRows: 24, MaxRunning: width}, NoForcedTokens: true},
		"neither":                  {Policy: scheduler.Policy{MaxRunning: width}, NoForcedTokens: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := openDefault(t, Config{Scheduler: cfg, KVType: "f32"})
			inputs := conversations(t, s)
			worst, all, compared, forced, drafted := 0.0, 0.0, 0, 0, 0
			for turn := 0; compared < compareLogprobs(); turn++ {
				outs, err := s.Decide(t.Context(), &protocol.AgentRequest{RequestID: strconv.Itoa(turn), Inputs: []protocol.AgentInput{asks(inputs[turn%len(inputs)])}})
				if err != nil {
					t.Fatal(err)
				}
				for _, out := range outs {
					got := toldBy(t, out)
					want, sum := plain(t, s.model, got.Prompt, got.Tokens), 0.0
					if len(got.Logprobs) != len(want) || len(got.Masked) != len(want) {
						t.Fatalf("%d logprobs and %d under the mask for %d tokens", len(got.Logprobs), len(got.Masked), len(want))
					}
					for i := range want {
						off := math.Abs(got.Logprobs[i] - want[i])
						if worst, all, sum = max(worst, off), all+off, sum+got.Logprobs[i]; !(off <= mostOff) {
							t.Fatalf("token %d of %d: %g, a forward pass gives %g", i, len(want), got.Logprobs[i], want[i])
						}
					}
					if math.Abs(sum-got.SumLogprob) > 1e-4 || len(got.Version) != len("sha256:")+32 {
						t.Errorf("sum %g, want %g; version %q", got.SumLogprob, sum, got.Version)
					}
					compared, forced, drafted = compared+len(want), forced+len(got.Forced), drafted+len(got.Drafted)
				}
			}
			mean := all / float64(compared)
			t.Logf("%d tokens, at most %.2g off, %.2g on average; %d forced, %d drafted", compared, worst, mean, forced, drafted)
			if mean > meanOff {
				t.Errorf("the logprobs are %g off on average", mean)
			}
			if (forced > 0) == cfg.NoForcedTokens || (drafted > 0) != (cfg.DraftRows > 0) {
				t.Errorf("%d forced and %d drafted tokens", forced, drafted)
			}
		})
	}
}

// The prompt of the next turn begins with the tokens of this one, up to where its step says.
func TestNextTurnBeginsWithTheTokensOfTheLast(t *testing.T) {
	s := openDefault(t, Config{})
	turns := 0
	for _, in := range conversations(t, s)[:20] {
		first := decide(t, s, asks(in))
		if first.Error != nil {
			continue
		}
		before := toldBy(t, first)
		next := asks(in)
		next.Memory = first.Memory
		next.Instruction = protocol.AgentInstruction{Type: protocol.InstructionEnv, Content: "rover: success"}
		if len(first.Output.ToolCalls) == 0 {
			next.Instruction = protocol.AgentInstruction{Type: protocol.InstructionUser, Content: "go on"}
		}
		after := toldBy(t, decide(t, s, next))
		all := slices.Concat(before.Prompt, before.Tokens)
		n := 0
		for n < len(all) && n < len(after.Prompt) && all[n] == after.Prompt[n] {
			n++
		}
		want := len(all)
		if before.Differs != nil {
			want = *before.Differs
		}
		if turns++; n != want {
			t.Errorf("the next prompt begins with %d of %d tokens, the step says %d", n, len(all), want)
		}
	}
	if turns == 0 {
		t.Error("no decision was made")
	}
}
