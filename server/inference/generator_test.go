package inference

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"agentd/agent"
	"agentd/llama"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/scheduler"
	"agentd/scheduler/generation"
	"agentd/server"
)

func TestEngineErrorsBecomeTheAgents(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("around: %w", err) }
	for name, test := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"overflow": {wrapped(&generation.OverflowError{Prompt: 1, MaxNew: 2, Limit: 3}), func(err error) bool {
			var e *agent.ContextOverflowError
			return errors.As(err, &e) && *e == agent.ContextOverflowError{Prompt: 1, MaxNew: 2, Limit: 3}
		}},
		"a prompt too long to count": {wrapped(&agent.ContextOverflowError{Prompt: 1, AtLeast: true}), func(err error) bool {
			var e *agent.ContextOverflowError
			return errors.As(err, &e) && e.AtLeast
		}},
		"grammar":      {wrapped(llama.ErrGrammar), isA[*agent.GrammarError]},
		"dead grammar": {wrapped(llama.ErrGrammarDead), isA[*agent.GrammarError]},
		"closed":       {wrapped(scheduler.ErrClosed), func(err error) bool { return errors.Is(err, agent.ErrClosed) }},
		"model closed": {wrapped(llama.ErrClosed), func(err error) bool { return errors.Is(err, agent.ErrClosed) }},
		"deadline":     {wrapped(context.DeadlineExceeded), func(err error) bool { return errors.Is(err, context.DeadlineExceeded) && !isA[*agent.ModelError](err) }},
		"cancelled":    {wrapped(context.Canceled), func(err error) bool { return errors.Is(err, context.Canceled) && !isA[*agent.ModelError](err) }},
		"computation":  {wrapped(scheduler.ErrModel), isA[*agent.ModelError]},
		"anything":     {errors.New("x"), isA[*agent.ModelError]},
	} {
		if got := translate(test.err); !test.is(got) {
			t.Errorf("%s became %T %v", name, got, got)
		}
	}
	if translate(nil) != nil {
		t.Error("nil became an error")
	}
}

func isA[T error](err error) bool {
	var e T
	return errors.As(err, &e)
}

func TestRefusalsHaveTheirCode(t *testing.T) {
	var e *server.Error
	if err := refusal(&scheduler.QueueFullError{RetryAfter: 7 * time.Second}); !errors.As(err, &e) || e.Code != server.CodeBusy || e.RetryAfter != 7*time.Second {
		t.Errorf("a full queue became %#v", err)
	}
	if err := refusal(scheduler.ErrClosed); !errors.As(err, &e) || e.Code != server.CodeDraining {
		t.Errorf("a closed engine became %#v", err)
	}
}

// overdue is a context whose deadline passes when a test says so.
type overdue struct {
	context.Context
	done chan struct{}
}

func (o overdue) Done() <-chan struct{} { return o.done }

func (o overdue) Err() error {
	select {
	case <-o.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestATimeoutConcernsOnlyTheCandidatesThatAreNotDone: one decodes at a time, and the time is up when the first one is done.
func TestATimeoutConcernsOnlyTheCandidatesThatAreNotDone(t *testing.T) {
	s := openTiny(t, synth.Qwen3, Options{FixedTokens: 500, Parallel: 1, QueueLimit: 32})
	req, err := protocol.DecodeAgentRequest([]byte(`{"request_id":"r","inputs":[{"id":1,"num_outputs":32,"instruction":{"type":"user","content":"Go."}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	late := overdue{t.Context(), make(chan struct{})}
	go func() {
		defer close(late.done)
		for s.engine.Stats().Finished == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	outs, err := s.Decide(late, req)
	if err != nil || len(outs) != 32 {
		t.Fatalf("%d outputs, %v", len(outs), err)
	}
	if outs[0].Status != protocol.StatusCompleted {
		t.Errorf("the first one was done, and is %+v", outs[0].Error)
	}
	if e := outs[31].Error; e == nil || e.Code != agent.CodeTimeout {
		t.Errorf("the last one was not done, and is %s, %+v", outs[31].Status, e)
	}
}

func TestGenerationWithoutAdmissionFails(t *testing.T) {
	calls := 0
	(&generator{}).Generate(t.Context(), []agent.Generation{{N: 1}}, func(i int, _ agent.Result, err error) {
		if calls++; i != 0 || !isA[*agent.ModelError](err) {
			t.Errorf("got %v", err)
		}
	})
	if calls != 1 {
		t.Errorf("%d answers to 1 generation", calls)
	}
}
