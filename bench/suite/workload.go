package suite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"agentd/bench/render"
	"agentd/bench/workload"
	"agentd/llama/synth"
)

// Workload is one load of the comparison: a trace, a model, and how long answers are.
type Workload struct {
	Name  string `json:"name"`  // of files: household
	Title string `json:"title"` // of the table
	// Shape of random weights, or "" for the model inside agentd.
	Shape string           `json:"shape"`
	Trace workload.Options `json:"trace"`
	// FixedTokens of every answer; 0: answers end by themselves, constrained to a tool
	// call, at MaxTokens at the latest.
	FixedTokens int `json:"fixed_tokens"`
	MaxTokens   int `json:"max_tokens"`
	// TuneTurns of each agent are what llama-server's settings are tried with, two where
	// there are two: only from the second turn on does it show which settings keep the
	// prefixes.
	TuneTurns int `json:"tune_turns"`
	// Goal of agentd's decisions/s to llama-server's.
	Goal float64 `json:"goal"`

	long    bool   // takes longer than all others together
	file    string // GGUF
	trace   *workload.Trace
	counts  render.Counts // of a server that is warm
	longest int           // tokens of a prompt and its answer

	paths struct{ whole, tune, warm string }
}

// Goals of decisions/s to llama-server's.
const (
	goalFixed       = 1.7
	goalConstrained = 2.5
)

// tuneTurns are enough to see what a setting keeps of the turn before.
const tuneTurns = 2

// workloads of the comparison. For two cores to be done in a quarter of an
// hour, all but the first have fewer turns; the model of the 0.6B shape computes so
// slowly that it also gets fewer agents, turns and tokens, and is measured only where asked for.
func workloads(quick bool) []*Workload {
	house := workload.Defaults(workload.Household)
	words := workload.Defaults(workload.Synthetic)
	large := words
	words.Turns = 3
	calls := house
	calls.Turns = 3
	large.Agents, large.Groups, large.Turns = 4, 1, 2 // one of the groups of the others
	list := []*Workload{
		{Name: "household", Title: "household, default model", Trace: house, FixedTokens: 32, Goal: goalFixed},
		{Name: "tiny", Title: "synthetic, tiny random weights", Shape: "tiny", Trace: words, FixedTokens: 16, Goal: goalFixed},
		{Name: "0.6b", Title: "synthetic, random weights of the 0.6B shape", Shape: "0.6b", Trace: large, FixedTokens: 16, Goal: goalFixed, long: true},
		{Name: "calls", Title: "household, default model, constrained tool calls", Trace: calls, MaxTokens: 128, Goal: goalConstrained},
	}
	for _, w := range list {
		if quick {
			w.Trace.Turns = min((w.Trace.Turns+1)/2, 2)
		}
		w.TuneTurns = min(tuneTurns, w.Trace.Turns)
	}
	return list
}

// model gives the model's file, which is made first where it is missing.
func (w *Workload) model() (string, error) {
	if w.Shape == "" {
		file, _, err := render.Model("")
		return file, err
	}
	spec, err := synth.Preset(w.Shape, synth.Qwen3)
	if err != nil {
		return "", err
	}
	return synth.Cached("", spec)
}

// prepare makes the model and the traces, in dir: the whole one, the one for trying
// settings, and one request that warms a server up and shares no prompt with them.
func (w *Workload) prepare(ctx context.Context, dir string) (err error) {
	if w.file, err = w.model(); err != nil {
		return fmt.Errorf("%s: the model: %w", w.Name, err)
	}
	if w.trace, err = w.rendered(ctx, w.Trace); err != nil {
		return err
	}
	for i := range w.trace.Turns {
		w.longest = max(w.longest, len(w.trace.Turns[i].Tokens)+w.outputTokens())
	}
	o := w.Trace
	o.Turns = w.TuneTurns // which begin as more of them do
	tune, err := w.rendered(ctx, o)
	if err != nil {
		return err
	}
	o = workload.Defaults(workload.Synthetic)
	o.Seed, o.Agents, o.Groups, o.Turns, o.Candidates, o.Tools, o.SystemWords = warmSeed, 1, 1, 1, 1, 0, 0
	warm, err := w.rendered(ctx, o)
	if err != nil {
		return err
	}
	// Even the shortest prompt shares what the format says before all of its prompts.
	// A server that is warm has computed that.
	both := workload.Trace{Header: w.trace.Header, Turns: slices.Concat(warm.Turns, w.trace.Turns)}
	if w.counts, err = render.Ideal(&both, func(t *workload.Turn) bool { return t != &both.Turns[0] }); err != nil {
		return fmt.Errorf("%s: %w", w.Name, err)
	}
	for _, t := range []struct {
		path  *string
		name  string
		trace *workload.Trace
	}{{&w.paths.whole, "", w.trace}, {&w.paths.tune, "-tune", tune}, {&w.paths.warm, "-warm", warm}} {
		*t.path = filepath.Join(dir, w.Name+t.name+".trace.jsonl")
		if err := write(*t.path, t.trace.Write); err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	return nil
}

// warmSeed is of no other trace.
const warmSeed = 1 << 20

// rendered generates a trace and its prompts.
func (w *Workload) rendered(ctx context.Context, o workload.Options) (*workload.Trace, error) {
	trace, err := workload.Generate(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	if err := render.Render(ctx, trace, w.file, render.Options{}); err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	return trace, nil
}

// write writes a new file.
func write(path string, body func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // figures are no secret
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(body(w), w.Flush(), f.Close())
}
