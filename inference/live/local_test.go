package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/coaching/backend"
	"agentd/inference/load"
	"agentd/llama"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/scheduler"
	"agentd/scheduler/generation"
)

// openTiny opens a generated model with a small vocabulary that does not think
// for long and closes its strings.
func openTiny(t *testing.T, arch string, opts load.Config) *modelVersion {
	t.Helper()
	spec, err := synth.Preset("tiny", arch)
	if err != nil {
		t.Fatal(err)
	}
	spec.Small = arch != synth.GPTOSS
	spec.Bias = maps.Clone(spec.Bias)
	for text, bias := range map[string]float32{"</think>": 16, "<|end|>": 22, `"`: 20} {
		spec.Bias[text] = bias
	}
	if opts.Path, err = synth.Cached("", spec); err != nil {
		t.Fatal(err)
	}
	opts.Device, opts.Threads, opts.Agent.MaxNewTokens, opts.Log = "cpu", 1, 16, zerolog.Nop()
	if opts.ContextLength == 0 {
		opts.ContextLength = 2048
	}
	if opts.Scheduler.QueueLimit == 0 {
		opts.Scheduler.QueueLimit = 4
	}
	s, err := openVersion(t.Context(), new(Service), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Decide is Service.Decide with this version.
func (v *modelVersion) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return v.serving().Decide(ctx, req)
}

// serving is the service, with this version as the current one.
func (v *modelVersion) serving() *Service {
	v.service.mu.Lock()
	defer v.service.mu.Unlock()
	v.service.current = v
	return v.service
}

// coachSchema is like a coach's answer; digits have no grammar here.
const coachSchema = `{"type":"object","properties":{"outcome":{"enum":["corrected","abandoned"]},"why":{"type":"string","maxLength":12},
"decision":{"anyOf":[{"type":"object","properties":{"name":{"const":"move"},"arguments":{"type":"object",
"properties":{"to":{"type":"string","maxLength":8},"bay":{"type":"string","pattern":"^\\d+$","maxLength":8}},"required":["to","bay"],"additionalProperties":false}},
"required":["name","arguments"],"additionalProperties":false},{"type":"null"}]}},"required":["outcome","why","decision"],"additionalProperties":false}`

func ask(text string) backend.Question {
	return backend.Question{
		System: "You coach robots.", Messages: []backend.Message{{Role: backend.RoleUser, Text: text}},
		Schema: protocol.Raw(`{"type":"string"}`), Exact: protocol.Raw(coachSchema), MaxTokens: 400,
	}
}

// TestModelCoachesInEveryFormat: answers of random models fit the exact schema, and are equal for
// the same question.
func TestModelCoachesInEveryFormat(t *testing.T) {
	for name, test := range map[string]struct {
		arch string
		opts load.Config
	}{
		"qwen":               {synth.Qwen3, load.Config{}},
		"qwen, thinking":     {synth.Qwen3, load.Config{Agent: agent.Config{Prompt: format.Options{EnableThinking: true}}}},
		"qwen 3.5, hybrid":   {synth.Qwen35, load.Config{}},
		"gpt-oss":            {synth.GPTOSS, load.Config{}},
		"llama":              {synth.Llama, load.Config{}},
		"template":           {synth.Qwen3, load.Config{Agent: agent.Config{Format: "template"}}},
		"template, thinking": {synth.Qwen3, load.Config{Agent: agent.Config{Format: "template", Prompt: format.Options{EnableThinking: true}}}},
		"template, json":     {synth.Qwen3, load.Config{Agent: agent.Config{Format: "template", Prompt: format.Options{OutputStyle: "json"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTiny(t, test.arch, test.opts)
			answered := 0
			for i := range 6 {
				q := ask(fmt.Sprintf("Case %d: what should it do?", i))
				if i%2 == 1 {
					q.Messages = append(q.Messages, backend.Message{Role: backend.RoleAssistant, Text: "{}"}, backend.Message{Role: backend.RoleUser, Text: "No."})
				}
				got, err := s.Ask(t.Context(), q)
				if e := (*backend.Error)(nil); errors.As(err, &e) && e.Kind == backend.KindTruncated {
					continue // a random model may think for ever
				}
				if err != nil {
					t.Fatal(err)
				}
				answered++
				var answer struct {
					Outcome, Why string
					Decision     *struct {
						Name      string
						Arguments struct{ To, Bay string }
					}
				}
				d := json.NewDecoder(strings.NewReader(got.Text))
				d.DisallowUnknownFields()
				if err := d.Decode(&answer); err != nil || answer.Outcome != "corrected" && answer.Outcome != "abandoned" {
					t.Errorf("%q is no answer: %v", got.Text, err)
				}
				if got.Mode != backend.ModeSchema || got.PromptTokens < 10 || got.CompletionTokens < 5 {
					t.Errorf("got %+v", got)
				}
				again, err := s.Ask(t.Context(), q)
				if err != nil || again.Text != got.Text {
					t.Errorf("asked again: %q, %v; before: %q", again.Text, err, got.Text)
				}
			}
			if answered < 3 {
				t.Errorf("only %d of 6 questions were answered: the test shows little", answered)
			}
		})
	}
}

func TestModelAsCoachReportsItsErrors(t *testing.T) {
	s := openTiny(t, synth.Qwen3, load.Config{ContextLength: 512, Scheduler: scheduler.Config{QueueLimit: 1}})
	if s.Window() != 512 {
		t.Errorf("the window is %d", s.Window())
	}
	fails := func(name string, ctx context.Context, q backend.Question, kind backend.Kind, parts ...string) *backend.Error {
		t.Helper()
		_, err := s.Ask(ctx, q)
		var e *backend.Error
		if !errors.As(err, &e) || e.Kind != kind {
			t.Fatalf("%s: %v, want the kind %s", name, err, kind)
		}
		for _, part := range parts {
			if !strings.Contains(e.Detail, part) {
				t.Errorf("%s: %q lacks %q", name, e.Detail, part)
			}
		}
		return e
	}
	fails("overflow", t.Context(), ask(strings.Repeat("word ", 600)), backend.KindRefused, "512", "context_length")
	if q := ask("What now?"); q.MaxTokens > 512-40 {
		t.Fatal("the next case shows nothing")
	} else {
		q.MaxTokens = 500 // beside the prompt there is less room
		if _, err := s.Ask(t.Context(), q); err != nil {
			t.Errorf("an answer that may be shorter: %v", err)
		}
	}
	q := ask("What now?")
	q.MaxTokens = 2
	fails("truncated", t.Context(), q, backend.KindTruncated, "2 new tokens")

	_, release, err := s.admit(1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := fails("a full queue", t.Context(), ask("What now?"), backend.KindBusy, "this server: the queue is full (queue_limit)"); e.RetryAfter <= 0 {
		t.Error("no RetryAfter")
	}
	release()

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Ask(cancelled, ask("What now?")); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	if _, err := s.Ask(t.Context(), ask("What now?")); err != nil {
		t.Errorf("the queue keeps what others left: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	fails("closed", t.Context(), ask("What now?"), backend.KindClosed)
}

// TestAskFallsBackToPortableSchema and to the default token limit.
func TestAskFallsBackToPortableSchema(t *testing.T) {
	s := openTiny(t, synth.Qwen3, load.Config{})
	q := ask("What now?")
	q.Schema, q.Exact, q.MaxTokens = protocol.Raw(`{"enum":["yes"]}`), nil, 0
	got, err := s.Ask(t.Context(), q)
	if err != nil || strings.TrimSpace(got.Text) != `"yes"` {
		t.Errorf("got %q, %v", got.Text, err)
	}
}

func TestModelErrorsBecomeBackendErrors(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("around: %w", err) }
	for name, test := range map[string]struct {
		err  error
		kind backend.Kind
	}{
		"busy":          {wrapped(&generation.QueueFullError{RetryAfter: 1}), backend.KindBusy},
		"engine closed": {wrapped(generation.ErrClosed), backend.KindClosed},
		"model closed":  {wrapped(llama.ErrClosed), backend.KindClosed},
		"overflow":      {wrapped(&generation.OverflowError{Prompt: 9, Limit: 8}), backend.KindRefused},
		"truncated":     {wrapped(&agent.TruncatedError{Limit: 3}), backend.KindTruncated},
		"grammar":       {wrapped(generation.ErrGrammar), backend.KindRefused},
		"model":         {wrapped(scheduler.ErrModel), backend.KindFailed},
		"no answer":     {errors.New("the thinking block is not closed"), backend.KindFailed},
	} {
		var e *backend.Error
		if got := asBackendError(test.err); !errors.As(got, &e) || e.Kind != test.kind || e.Detail == "" || !errors.Is(got, test.err) {
			t.Errorf("%s: %#v, want the kind %s", name, got, test.kind)
		}
	}
	if err := asBackendError(nil); err != nil {
		t.Error(err)
	}
}
