package backend

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

// own is a model of the server that writes down what it is asked.
type own struct {
	window int
	asked  Question
	answer Answer
	err    error
}

func (o *own) Window() int { return o.window }
func (o *own) Ask(_ context.Context, q Question) (Answer, error) {
	o.asked = q
	return o.answer, o.err
}

func newOwn(t *testing.T, o *own) Backend {
	t.Helper()
	def := define(protocol.BackendLocal, "")
	b, err := New(def, Options{Local: o})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLocalModelGetsExactSchema(t *testing.T) {
	model := &own{window: 32768, answer: Answer{Text: answer, PromptTokens: 5, CompletionTokens: 3}}
	b := newOwn(t, model)
	got, err := b.Ask(t.Context(), question())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(question(), model.asked); diff != "" {
		t.Errorf("the model was asked something else (-want +got):\n%s", diff)
	}
	want := Answer{Text: answer, Model: "asked-model", PromptTokens: 5, CompletionTokens: 3, Mode: ModeSchema}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the answer differs (-want +got):\n%s", diff)
	}
	if b.Name() != "primary" || b.Type() != protocol.BackendLocal || b.Describe() != "primary (local, this server's own model)" {
		t.Errorf("it is %s %s, %s", b.Name(), b.Type(), b.Describe())
	}
	q := question()
	q.Adapter = "careful"
	if got, err = b.Ask(t.Context(), q); err != nil || got.Model != "asked-model with the adapter careful" || model.asked.Adapter != "careful" {
		t.Errorf("with an adapter it was asked %+v and answered as %q, %v", model.asked, got.Model, err)
	}
	q = question()
	q.Exact = nil
	if _, err := b.Ask(t.Context(), q); err != nil || string(model.asked.Exact) != testSchema {
		t.Errorf("without an exact schema it was asked with %s: %v", model.asked.Exact, err)
	}
}

func TestPromptAndAnswerShareTheWindow(t *testing.T) {
	for _, c := range []struct {
		name                     string
		window, asked            int
		budgetTokens, mostTokens int
	}{
		{"a large window", 32768, 1000, 32768 - DefaultMaxTokens, 1000},
		{"no limit asked for", 32768, 0, 32768 - DefaultMaxTokens, DefaultMaxTokens},
		{"more asked for than is kept", 32768, 20000, 32768 - DefaultMaxTokens, DefaultMaxTokens},
		{"a small window is halved", 2048, 4000, 1024, 1024},
		{"an unknown window is no limit", 0, 1000, 0, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			model := &own{window: c.window}
			b := newOwn(t, model)
			if got := b.Budget(); got != c.budgetTokens*charsPerToken {
				t.Errorf("the budget is %d characters, want %d", got, c.budgetTokens*charsPerToken)
			}
			q := question()
			q.MaxTokens = c.asked
			if _, err := b.Ask(t.Context(), q); err != nil || model.asked.MaxTokens != c.mostTokens {
				t.Errorf("the answer may have %d tokens, want %d: %v", model.asked.MaxTokens, c.mostTokens, err)
			}
		})
	}
}

func TestLocalModelErrors(t *testing.T) {
	busy := &Error{Kind: KindBusy, Detail: "the queue is full"}
	_, err := newOwn(t, &own{err: busy}).Ask(t.Context(), question())
	if !errors.Is(err, busy) {
		t.Errorf("got %v, want the model's own error", err)
	}
	_, err = newOwn(t, &own{err: errors.New("out of\nmemory")}).Ask(t.Context(), question())
	if e := mustFail(t, KindFailed, err); e.Detail != "out of memory" {
		t.Errorf("the detail is %q", e.Detail)
	}
	_, err = newOwn(t, &own{err: errors.New(strings.Repeat("x", 9999))}).Ask(t.Context(), question())
	mustFail(t, KindFailed, err)
	b, err := New(define(protocol.BackendLocal, ""), Options{
		Local:    &own{err: errors.New(strings.Repeat("x", maxDetail-10) + "sk-very-secret")},
		Redactor: quote.NewRedactor(protocol.Headers{"X-Key": "sk-very-secret"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Ask(t.Context(), question())
	if e := mustFail(t, KindFailed, err); strings.Contains(e.Detail, "sk-") {
		t.Errorf("half a key is in %q", e.Detail)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newOwn(t, &own{err: busy}).Ask(ctx, question()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}
