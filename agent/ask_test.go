package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

func question() agent.Question {
	return agent.Question{
		Chat:      format.Chat{System: "You coach.", Messages: []format.ChatMessage{{Text: "What now?"}}, Schema: protocol.Raw(`{"type":"object"}`)},
		MaxTokens: 99,
	}
}

func TestAskGeneratesOneDeterministicConstrainedAnswer(t *testing.T) {
	dir := t.TempDir()
	s := &script{answers: []string{"<think>\nhm\n</think>\n\n {\"a\": 1}\n"}}
	a := newAgent(t, agent.Config{PromptLogDir: dir, Prompt: format.Options{EnableThinking: true}}, nil)
	got, err := a.Ask(t.Context(), question(), s)
	got.Latency = nil
	if err != nil || got != (agent.Answer{Text: `{"a": 1}`, PromptTokens: 100, Tokens: 7}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if len(s.asked) != 1 {
		t.Fatalf("%d generations", len(s.asked))
	}
	g := s.asked[0]
	if g.N != 1 || g.Temperature != 0 || len(g.Seeds) != 1 || g.MaxTokens != 99 || !g.SuppressControl || !strings.HasPrefix(g.Grammar, "root ::= think ") {
		t.Errorf("asked for %+v", g)
	}
	prompt := textOf(g.Prompt)
	if !strings.Contains(prompt, "<|im_start|>system\nYou coach.<|im_end|>\n<|im_start|>user\nWhat now?<|im_end|>\n<|im_start|>assistant\n") {
		t.Errorf("the prompt is %q", prompt)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("%d prompt logs, %v", len(logs), err)
	}
	if text, err := os.ReadFile(logs[0]); err != nil || !strings.Contains(string(text), "What now?") || !strings.Contains(string(text), "VALID") {
		t.Errorf("the prompt log is %s, %v", text, err)
	}
}

func TestAskConstrainsOnlyWithSchema(t *testing.T) {
	for name, change := range map[string]func(*agent.Config, *agent.Question){
		"constrain is off": func(c *agent.Config, _ *agent.Question) { c.Constrain = agent.ConstrainOff },
		"no schema":        func(_ *agent.Config, q *agent.Question) { q.Schema = nil },
	} {
		s, q := &script{answers: []string{"Sure."}}, question()
		var cfg agent.Config
		change(&cfg, &q)
		got, err := newAgent(t, cfg, nil).Ask(t.Context(), q, s)
		if err != nil || got.Text != "Sure." || s.asked[0].Grammar != "" {
			t.Errorf("%s: got %+v, %v with the grammar %q", name, got, err, s.asked[0].Grammar)
		}
	}
}

func TestAskReturnsErrors(t *testing.T) {
	failed := errors.New("failed")
	adjusted := func(f func(*generation.Completion)) *script {
		return &script{answers: []string{"{"}, adjust: func(r *generation.Result) { f(&r.Completions[0]) }}
	}
	for name, test := range map[string]struct {
		cfg    agent.Config
		kit    *fakeKit
		script *script
		is     func(error) bool
	}{
		"the generator": {script: &script{err: failed}, is: func(err error) bool { return errors.Is(err, failed) }},
		"closed":        {script: &script{err: generation.ErrClosed}, is: func(err error) bool { return errors.Is(err, generation.ErrClosed) }},
		"the completion": {script: adjusted(func(c *generation.Completion) { c.Err = failed }), is: func(err error) bool {
			return errors.Is(err, failed)
		}},
		"truncated": {script: adjusted(func(c *generation.Completion) { c.Finish = generation.FinishLength }), is: isError[*agent.TruncatedError]},
		"repeated": {
			script: adjusted(func(c *generation.Completion) { c.Finish, c.Repeated = generation.FinishRepeat, "x came again" }),
			is: func(err error) bool {
				return isError[*agent.TruncatedError](err) && strings.HasSuffix(err.Error(), "x came again")
			},
		},
		"too few completions": {
			script: &script{answers: []string{"{"}, adjust: func(r *generation.Result) { r.Completions = nil }}, is: says("0 completions came back"),
		},
		"no answer": {
			cfg: agent.Config{Prompt: format.Options{EnableThinking: true}}, script: &script{answers: []string{"<think>"}},
			is: func(err error) bool { return err != nil && strings.Contains(err.Error(), "not closed") },
		},
		"a template that fails": {
			cfg: agent.Config{Prompt: format.Options{ChatTemplate: "x"}}, kit: &fakeKit{templateErr: failed}, script: &script{answers: []string{"{"}}, is: func(err error) bool { return errors.Is(err, failed) },
		},
		"a defect": {
			cfg: agent.Config{Prompt: format.Options{ChatTemplate: "x"}}, kit: &fakeKit{panicOn: "What now?"}, script: &script{answers: []string{"{"}}, is: says("the agent failed"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newAgent(t, test.cfg, test.kit).Ask(t.Context(), question(), test.script)
			if !test.is(err) || got.Text != "" {
				t.Errorf("got %+v, %v", got, err)
			}
			if err != nil && err.Error() == "" {
				t.Error("the error says nothing")
			}
		})
	}
}

func says(text string) func(error) bool {
	return func(err error) bool { return err != nil && strings.Contains(err.Error(), text) }
}

func isError[T error](err error) bool {
	var e T
	return errors.As(err, &e)
}

func TestAskOfAnUnusableSchemaTakesAnyObject(t *testing.T) {
	s, q := &script{answers: []string{"{}"}}, question()
	q.Schema = protocol.Raw(`{"$ref":"#/nowhere"}`)
	got, err := newAgent(t, agent.Config{}, nil).Ask(t.Context(), q, s)
	if err != nil || got.Text != "{}" || !strings.Contains(s.asked[0].Grammar, "object") {
		t.Errorf("got %+v, %v with the grammar %q", got, err, s.asked[0].Grammar)
	}
}
