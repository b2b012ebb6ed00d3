package suite

import (
	"cmp"
	"context"
	"fmt"

	"agentd/bench/workload"
	"agentd/llama/synth"
)

// Load is one load of the comparison: a trace, a model, and the length of answers.
type Load struct {
	Name  string `json:"name"`  // of files: household
	Title string `json:"title"` // of the table
	// Shape of random weights and type of their matrices; "" for the model inside agentd.
	Shape string           `json:"shape"`
	Arch  string           `json:"arch,omitempty"` // "" is qwen3
	Type  string           `json:"type"`
	Trace workload.Options `json:"trace"`
	// FixedTokens of every answer. 0: answers are constrained and end by themselves, at
	// MaxTokens at the latest.
	FixedTokens int `json:"fixed_tokens"`
	MaxTokens   int `json:"max_tokens"`
	// TuneTurns of each agent tune llama-server. Only a second turn shows which settings
	// keep prefixes.
	TuneTurns int `json:"tune_turns"`
	// Goal of agentd's decisions/s to llama-server's.
	Goal float64 `json:"goal"`

	long    bool   // takes longer than all others together
	vllm    bool   // vLLM has its shape, and answers have a fixed length
	file    string // GGUF
	counts  workload.Counts
	longest int // tokens of a prompt and its answer

	trace, short, warm *workload.Trace // whole, for tuning, for the warm-up
}

// Goals of decisions/s to llama-server's.
const (
	goalFixed       = 1.7
	goalMiddle      = 4.5
	goalExperts     = 5
	goalMXFP4       = 4
	goalConstrained = 2.5
)

const tuneTurns = 2

// loads of the comparison. To be done in 15 minutes on two cores, all but the first have
// fewer turns. The larger shapes are not measured by default; the slow 0.6B shape also gets
// fewer agents.
func loads(quick bool) []*Load {
	house := workload.Defaults()
	short, middle, large := house, house, house
	short.Turns, middle.Turns = 3, 4
	large.Agents, large.Groups, large.Turns = 8, 2, 2
	list := []*Load{
		{Name: "household", Title: "household, default model", Trace: house, FixedTokens: 32, Goal: goalFixed, vllm: true},
		{Name: "tiny", Title: "household, tiny random weights", Shape: "tiny", Type: "q8_0", Trace: short, FixedTokens: 16, Goal: goalFixed},
		{Name: "0.1b", Title: "household, random BF16 weights, 103 M parameters", Shape: "0.1b", Type: "bf16", Trace: middle, FixedTokens: 32, Goal: goalMiddle, long: true, vllm: true},
		{Name: "0.6b", Title: "household, random BF16 weights, 0.6B shape", Shape: "0.6b", Type: "bf16", Trace: large, FixedTokens: 32, Goal: goalFixed, long: true, vllm: true},
		{Name: "moe", Title: "household, random BF16 weights, 32 experts", Arch: synth.Qwen3MoE, Shape: "moe", Type: "bf16", Trace: large, FixedTokens: 32, Goal: goalExperts, long: true, vllm: true},
		{Name: "moe-mxfp4", Title: "household, random MXFP4 weights, 32 experts", Arch: synth.GPTOSS, Shape: "moe", Type: "mxfp4", Trace: large, FixedTokens: 32, Goal: goalMXFP4, long: true},
		{Name: "calls", Title: "household, default model, constrained tool calls", Trace: short, MaxTokens: 128, Goal: goalConstrained},
	}
	for _, w := range list {
		if quick {
			w.Trace.Turns = min((w.Trace.Turns+1)/2, 2)
		}
		w.TuneTurns = min(tuneTurns, w.Trace.Turns)
	}
	return list
}

// model is the model's file, which is made if it is missing.
func (w *Load) model() (string, error) {
	if w.Shape == "" {
		file, _, err := workload.Model("")
		return file, err
	}
	spec, err := synth.Preset(w.Shape, cmp.Or(w.Arch, synth.Qwen3))
	if err != nil {
		return "", err
	}
	spec.Type = w.Type
	return synth.Cached("", spec)
}

// prepare makes the model and the traces. The warm-up is one request in another house.
func (w *Load) prepare(ctx context.Context) (err error) {
	if w.file, err = w.model(); err != nil {
		return fmt.Errorf("the model: %w", err)
	}
	if w.trace, err = w.rendered(ctx, w.Trace); err != nil {
		return err
	}
	for i := range w.trace.Turns {
		w.longest = max(w.longest, len(w.trace.Turns[i].Tokens)+w.outputTokens())
	}
	o := w.Trace
	o.Turns = w.TuneTurns
	if w.short, err = w.rendered(ctx, o); err != nil {
		return err
	}
	if w.warm, err = w.rendered(ctx, workload.Options{Seed: warmSeed, Agents: 1, Turns: 1, Candidates: 1, Groups: 1}); err != nil {
		return err
	}
	// All prompts share the format's prefix. The warm-up computes it.
	w.counts = workload.Count(w.trace.Turns, w.warm.Turns)
	return nil
}

// warmSeed is the seed of the warm-up only.
const warmSeed = 1 << 20

// rendered generates a trace and renders it.
func (w *Load) rendered(ctx context.Context, o workload.Options) (*workload.Trace, error) {
	trace, err := workload.Generate(o)
	if err != nil {
		return nil, err
	}
	return trace, workload.Render(ctx, trace, w.file)
}
