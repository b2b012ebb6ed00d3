package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"agentd/bench/render"
	"agentd/bench/workload"
)

// Headings of the options of a trace.
const (
	groupTrace     = "Trace (a file, or generated)"
	groupSynthetic = "Synthetic traces"
	groupPrompt    = "Prompts (the same options as agentd's, with its values)"
)

// source is where a trace comes from, and the model with which it is rendered.
type source struct {
	File     string // "": generated
	Generate workload.Options
	Think    time.Duration

	Model  string // "": as the trace is; builtin: the model inside agentd
	Prompt render.Options
}

// builtin is the word for the model inside agentd.
const builtin = "default"

func newSource() source {
	return source{
		Generate: workload.Defaults(workload.Synthetic),
		Prompt:   render.Options{Format: "auto", OutputStyle: "qwen_format", Constrain: "on", ReasoningEffort: "low"},
	}
}

// generator are the options of a generated trace. Their bounds are the
// generator's, which knows them together.
func (s *source) generator() []option {
	g := &s.Generate
	number := func(p *int) value { return integer{p, 0, math.MaxInt32} }
	return []option{
		{"kind", groupTrace, "KIND", "synthetic: random words, as long as one likes. household: conversations of the simulated household that the default model knows.", choice{&g.Kind, []string{workload.Synthetic, workload.Household}}},
		{"trace-seed", groupTrace, "N", "Which trace: the same number gives the same one.", seed{&g.Seed}},
		{"agents", groupTrace, "N", "Agents that ask at the same time.", number(&g.Agents)},
		{"turns", groupTrace, "N", "Turns of each agent; its history grows with every one.", number(&g.Turns)},
		{"candidates", groupTrace, "N", "Candidates of each turn, its num_outputs.", number(&g.Candidates)},
		{"groups", groupTrace, "N", "Groups of agents; those of a group have the same rules and tools, so that their prompts begin alike.", number(&g.Groups)},
		{"think", groupTrace, "TIME", "Mean pause between an agent's turns in a closed loop.", duration{&s.Think}},

		{"tools", groupSynthetic, "N", fmt.Sprintf("Tools of an agent, at most %d.", workload.MaxTools), number(&g.Tools)},
		{"system-words", groupSynthetic, "N", "Words of the rules, which a group shares.", number(&g.SystemWords)},
		{"observation-words", groupSynthetic, "N", "Words of each instruction and observation.", number(&g.ObservationWords)},
		{"output-words", groupSynthetic, "N", "Words of each decision in the history.", number(&g.OutputWords)},
	}
}

// prompts are the options of rendering.
func (s *source) prompts() []option {
	p := &s.Prompt
	return []option{
		{"model-format", groupPrompt, "NAME", "How the model is prompted: auto, qwen, gpt-oss, llama, template.", choice{&p.Format, []string{"auto", "qwen", "gpt-oss", "llama", "template"}}},
		{"chat-template", groupPrompt, "FILE", "Jinja template to use instead of the model's own.", text{&p.ChatTemplate}},
		{"output-style", groupPrompt, "STYLE", "What the template format expects the model to write: qwen_format or json.", choice{&p.OutputStyle, []string{"qwen_format", "json"}}},
		{"constrain", groupPrompt, "on|off", "on gives every turn the grammar of its decision; off none.", choice{&p.Constrain, []string{"on", "off"}}},
		{"enable-thinking", groupPrompt, "", "Let Qwen models think before they answer.", toggle{&p.EnableThinking}},
		{"reasoning-effort", groupPrompt, "LEVEL", "How long GPT-OSS models reason: low, medium, high.", choice{&p.ReasoningEffort, []string{"low", "medium", "high"}}},
		{"history-max-messages", groupPrompt, "N", "Newest messages of the history in the prompt. 0: all.", integer{&p.HistoryMaxMessages, 0, maxLength}},
	}
}

// options are all of them.
func (s *source) options() []option {
	file := []option{
		{"trace", groupTrace, "FILE", "Trace that agentbench wrote or recorded, instead of generating one.", text{&s.File}},
		{"model", groupTrace, "FILE", "GGUF file with which the prompts are rendered and their ideal tokens counted; the word default is the model inside agentd. Needed for llama-server, unless the trace is rendered already.", text{&s.Model}},
	}
	return append(append(file, s.generator()...), s.prompts()...)
}

// check checks the options against each other and fills in what depends on the kind.
func (s *source) check(given map[string]bool) error {
	if name := firstGiven(s.generator(), given); s.File != "" && name != "" {
		return fmt.Errorf("--%s: is for a generated trace, and --trace names one that is there; remove one of the two", name)
	}
	if name := firstGiven(s.prompts(), given); s.Model == "" && name != "" {
		return fmt.Errorf("--%s: is for rendering prompts; name the model file with --model", name)
	}
	if s.File != "" {
		return nil
	}
	s.Generate.Think = workload.Millis(s.Think)
	if s.Generate.Kind == workload.Household {
		d := workload.Defaults(workload.Household)
		for _, x := range []struct {
			name string
			p    *int
			is   int
		}{
			{"tools", &s.Generate.Tools, d.Tools}, {"system-words", &s.Generate.SystemWords, d.SystemWords},
			{"observation-words", &s.Generate.ObservationWords, d.ObservationWords}, {"output-words", &s.Generate.OutputWords, d.OutputWords},
		} {
			if given[x.name] {
				return fmt.Errorf("--%s: is for --kind %s; a household has its own, remove one of the two", x.name, workload.Synthetic)
			}
			*x.p = x.is
		}
	}
	return flagged(s.Generate.Validate())
}

// flagged writes errors of the generator, which begin with the name of a field,
// with the names of flags.
func flagged(err error) error {
	var all interface{ Unwrap() []error }
	if err == nil || !errors.As(err, &all) {
		return err
	}
	var list []error
	for _, e := range all.Unwrap() {
		name, rest, _ := strings.Cut(e.Error(), " ")
		name = strings.TrimSuffix(strings.ReplaceAll(name, "_", "-"), "-ms")
		list = append(list, fmt.Errorf("--%s: %s", name, rest))
	}
	return errors.Join(list...)
}

// load reads or generates the trace and renders it where a model is named.
// Progress goes to a bar.
func (s *source) load(ctx context.Context, p *program) (*workload.Trace, error) {
	trace, err := s.open()
	if err != nil || s.Model == "" {
		return trace, err
	}
	o := s.Prompt
	if o.ChatTemplate != "" {
		body, err := readLimited(o.ChatTemplate, templateFileLimit)
		if err != nil {
			return nil, fmt.Errorf("--chat-template: %w", err)
		}
		o.ChatTemplate = string(body)
	}
	path := s.Model
	if path == builtin {
		path = ""
	}
	bar := p.bar(len(trace.Turns), "rendering prompts")
	defer bar.finish()
	o.Progress = bar.set
	if err := render.Render(ctx, trace, path, o); err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	return trace, nil
}

func (s *source) open() (*workload.Trace, error) {
	if s.File == "" {
		return workload.Generate(s.Generate)
	}
	f, err := os.Open(s.File)
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	defer f.Close()
	trace, err := workload.Read(f)
	if err != nil {
		return nil, fmt.Errorf("--trace: %s: %w", s.File, err)
	}
	if len(trace.Turns) == 0 {
		return nil, fmt.Errorf("--trace: %s has no turns", s.File)
	}
	return trace, nil
}

// rendered tells whether all turns have tokens.
func rendered(trace *workload.Trace) bool {
	for i := range trace.Turns {
		if len(trace.Turns[i].Tokens) == 0 {
			return false
		}
	}
	return true
}

// readLimited reads a small file whole.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return body, err
}
