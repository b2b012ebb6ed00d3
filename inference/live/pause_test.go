package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/agent"
	"agentd/inference/load"
	"agentd/internal/base/waittest"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// pausedStep is what a step says of its tokens and weights.
type pausedStep struct {
	Model    string `json:"model_version"`
	Adapter  string `json:"adapter_version"`
	Finish   string `json:"finish_reason"`
	IDs      []int  `json:"token_ids"`
	Versions []struct {
		From    int    `json:"from"`
		Model   string `json:"model_version"`
		Adapter string `json:"adapter_version"`
	} `json:"versions"`
}

func stepOf(t *testing.T, o protocol.AgentOutput) (s pausedStep) {
	t.Helper()
	if len(o.InternalSteps) == 0 {
		return s
	}
	var step struct {
		Elements struct {
			Generation pausedStep `json:"generation"`
		} `json:"input_elements"`
	}
	if err := json.Unmarshal(o.InternalSteps[0], &step); err != nil {
		t.Fatal(err)
	}
	return step.Elements.Generation
}

// pausable is a service whose candidates have 400 tokens.
func pausable(t *testing.T) (l *Service, cfg load.Config) {
	t.Helper()
	cfg, _ = liveConfig(t)
	cfg.FixedTokens = 400
	return openLive(t, cfg), cfg
}

// answers decides a request with two sampled candidates.
func answers(ctx context.Context, t *testing.T, l *Service, extra string) <-chan []protocol.AgentOutput {
	t.Helper()
	req, err := protocol.DecodeAgentRequest([]byte(`{"request_id":"r","inputs":[{"id":1,"num_outputs":2,"instruction":{"type":"user","content":"Go on"},"extra_keys":{"return":["token_ids","logprobs"]` + extra + `}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan []protocol.AgentOutput, 1)
	go func() {
		outs := make([]protocol.AgentOutput, 2)
		given := func(_ int, o *protocol.AgentOutput) { outs[o.CandidateIndex] = *o }
		_, err := l.DecideEach(ctx, req, func() {}, given)
		if err != nil {
			outs = nil
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		done <- outs
	}()
	return done
}

// midway begins to decide and pauses the service before the answer is complete. It tries until it was quick enough.
func midway(ctx context.Context, t *testing.T, l *Service, extra string, mode PauseMode) <-chan []protocol.AgentOutput {
	t.Helper()
	for before := interrupted(l); ; {
		done := answers(ctx, t, l, extra)
		generating(t, l, 20)
		mustPause(t, l, mode)
		if interrupted(l) > before {
			return done
		}
		l.Resume()
		<-done
	}
}

// generating waits until the current engine has generated n more tokens.
func generating(t *testing.T, l *Service, n uint64) {
	t.Helper()
	e := l.current.Engine
	before := e.Stats().GeneratedTokens
	waittest.Eventually(t, "tokens are generated", func() bool { return e.Stats().GeneratedTokens >= before+n })
}

func mustPause(t *testing.T, l *Service, mode PauseMode) {
	t.Helper()
	if err := l.Pause(t.Context(), mode); err != nil {
		t.Fatal(err)
	}
}

// interrupted counts the generations that a pause has interrupted.
func interrupted(l *Service) uint64 { return l.current.Engine.Stats().Paused }

func TestKeptCandidatesContinueOnNewWeights(t *testing.T) {
	l, _ := pausable(t)
	if err := l.SetAdapter(t.Context(), "policy", "adapter0.gguf"); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		extra  string
		change func() error
	}{
		"nothing changes": {"", func() error { return nil }},
		"another model":   {"", func() error { return l.SetModel(t.Context(), "model1.gguf") }},
		"another adapter": {`,"adapter":"policy"`, func() error { return l.SetAdapter(t.Context(), "policy", "adapter1.gguf") }},
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(l.SetModel(t.Context(), "model0.gguf"), l.SetAdapter(t.Context(), "policy", "adapter0.gguf")); err != nil {
				t.Fatal(err)
			}
			whole := <-answers(t.Context(), t, l, tc.extra)
			before := stepOf(t, whole[0])
			done := midway(t.Context(), t, l, tc.extra, PauseKeep)
			if err := tc.change(); err != nil {
				t.Fatal(err)
			}
			if info, err := l.Current(t.Context()); err != nil || info.Paused != "keep" || !errors.Is(l.Failure(), generation.ErrPaused) {
				t.Errorf("%+v, %v, %v", info, err, l.Failure())
			}
			l.Resume()
			for k, o := range <-done {
				got := stepOf(t, o)
				if len(got.IDs) != 400 || o.Status != protocol.StatusCompleted {
					t.Fatalf("candidate %d: %d tokens, %+v", k, len(got.IDs), o.Error)
				}
				if name == "nothing changes" {
					if !slices.Equal(got.IDs, stepOf(t, whole[k]).IDs) || got.Versions != nil || got.Model != before.Model {
						t.Errorf("candidate %d differs from an uninterrupted one: %+v", k, got.Versions)
					}
					continue
				}
				v := got.Versions
				if len(v) != 2 || v[0].From != 0 || v[1].From < 1 || v[0].Model != before.Model || v[0].Adapter != before.Adapter ||
					v[1].Model != got.Model || v[1].Adapter != got.Adapter || v[0] == v[1] {
					t.Fatalf("candidate %d: versions %+v, before %+v", k, v, before)
				}
				if (got.Model == before.Model) != (name == "another adapter") || (got.Adapter == before.Adapter) != (name == "another model") {
					t.Errorf("candidate %d: %+v, before %+v", k, got, before)
				}
				if at := v[1].From; !slices.Equal(got.IDs[:at], stepOf(t, whole[k]).IDs[:at]) {
					t.Errorf("candidate %d: the first %d tokens differ from the old weights'", k, at)
				}
				// From there on the new weights alone choose the same tokens.
				lists := make([]string, 2)
				for i := range lists {
					lists[i] = "[]"
				}
				lists[k] = strings.ReplaceAll(fmt.Sprint(got.IDs[:v[1].From]), " ", ",")
				alone := stepOf(t, (<-answers(t.Context(), t, l, tc.extra+`,"continue":[`+strings.Join(lists, ",")+`]`))[k])
				if !slices.Equal(alone.IDs, got.IDs) || len(alone.Versions) != 1 || alone.Versions[0].From != v[1].From {
					t.Errorf("candidate %d is not continued as by the new weights alone: %+v", k, alone.Versions)
				}
			}
		})
	}
}

func TestAbortedCandidatesHaveTheirTokens(t *testing.T) {
	l, _ := pausable(t)
	whole := <-answers(t.Context(), t, l, "")
	done := midway(t.Context(), t, l, "", PauseAbort)
	outs := <-done // during the pause
	lists := make([]string, len(outs))
	for k, o := range outs {
		s := stepOf(t, o)
		if o.Error == nil || o.Error.Code != agent.CodePaused || s.Finish != "paused" || len(s.IDs) == 0 || !slices.Equal(s.IDs, stepOf(t, whole[k]).IDs[:len(s.IDs)]) {
			t.Errorf("candidate %d: %+v, %+v", k, o.Error, s)
		}
		lists[k] = strings.ReplaceAll(fmt.Sprint(s.IDs), " ", ",")
	}
	later := answers(t.Context(), t, l, `,"continue":[`+strings.Join(lists, ",")+`]`)
	l.Resume()
	for k, o := range <-later {
		if s := stepOf(t, o); o.Status != protocol.StatusCompleted || !slices.Equal(s.IDs, stepOf(t, whole[k]).IDs) {
			t.Errorf("candidate %d is not continued: %+v", k, o.Error)
		}
	}
}

func TestWaitLetsRunningCandidatesEnd(t *testing.T) {
	l, _ := pausable(t)
	first := answers(t.Context(), t, l, "")
	generating(t, l, 20)
	mustPause(t, l, PauseWait)
	for _, o := range <-first {
		if o.Status != protocol.StatusCompleted {
			t.Errorf("%+v", o.Error)
		}
	}
	before := l.current.Engine.Stats().Admitted
	second := answers(t.Context(), t, l, "")
	waittest.Eventually(t, "it waits in the queue", func() bool { return l.current.Engine.Stats().Admitted == before+2 })
	if err := l.SetModel(t.Context(), "model1.gguf"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-second:
		t.Error("a request was answered during the pause")
	default:
	}
	l.Resume()
	info, err := l.Current(t.Context())
	if s := stepOf(t, (<-second)[0]); err != nil || s.Model != info.Model.Version || s.Versions != nil {
		t.Errorf("%+v, %v; the weights are %+v", s, err, info)
	}
}

func TestHeldRequestsEndWithTheirClients(t *testing.T) {
	l, _ := pausable(t)
	t.Run("client that leaves", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := midway(ctx, t, l, "", PauseKeep)
		cancel()
		if outs := <-done; outs != nil {
			t.Errorf("%+v", outs)
		}
		l.Resume()
	})
	t.Run("deadline", func(t *testing.T) {
		late := overdue{t.Context(), make(chan struct{})}
		done := midway(late, t, l, "", PauseKeep)
		close(late.done)
		for _, o := range <-done {
			if s := stepOf(t, o); o.Error == nil || o.Error.Code != agent.CodeTimeout || len(s.IDs) == 0 {
				t.Errorf("%+v, %d tokens", o.Error, len(s.IDs))
			}
		}
		l.Resume()
	})
	t.Run("removed adapter", func(t *testing.T) {
		if err := l.SetAdapter(t.Context(), "policy", "adapter0.gguf"); err != nil {
			t.Fatal(err)
		}
		done := midway(t.Context(), t, l, `,"adapter":"policy"`, PauseKeep)
		if err := l.RemoveAdapter("policy"); err != nil {
			t.Fatal(err)
		}
		l.Resume()
		if o := (<-done)[0]; o.Error == nil || !strings.Contains(o.Error.Message, "the adapter policy was removed") {
			t.Errorf("%+v", o.Error)
		}
	})
	if s := l.current.Engine.Stats(); s.Admitted != 0 || s.Running != 0 {
		t.Errorf("left: %d admitted, %d running", s.Admitted, s.Running)
	}
}

func TestPauseIsUndoneWhenItsCallerLeaves(t *testing.T) {
	l, _ := pausable(t)
	for { // until the pause was quicker than the answer
		done := answers(t.Context(), t, l, "")
		generating(t, l, 20)
		ctx, leave := context.WithCancel(t.Context())
		err := make(chan error, 1)
		go func() { err <- l.Pause(ctx, PauseWait) }()
		waittest.Eventually(t, "it is paused", func() bool { return errors.Is(l.Failure(), generation.ErrPaused) })
		leave()
		left := <-err
		for _, o := range <-done {
			if o.Status != protocol.StatusCompleted {
				t.Errorf("%+v", o.Error)
			}
		}
		if left != nil {
			if !errors.Is(left, context.Canceled) || l.Failure() != nil {
				t.Errorf("%v, then %v", left, l.Failure())
			}
			return
		}
		l.Resume()
	}
}

// TestLaterGenerationsOfARequestUseTheNewAdapter: as those after a summary, which a pause has interrupted.
func TestLaterGenerationsOfARequestUseTheNewAdapter(t *testing.T) {
	l, _ := pausable(t)
	if err := l.SetAdapter(t.Context(), "policy", "adapter0.gguf"); err != nil {
		t.Fatal(err)
	}
	generated := func(g generation.Request, a agent.Generator) (tokens []generation.Token) {
		a.GenerateAll(t.Context(), []generation.Request{g}, func(_ int, r *generation.Result, err error) {
			if err != nil {
				t.Error(err)
				return
			}
			tokens = r.Completions[0].Tokens
		})
		return tokens
	}
	begin := func() (generation.Request, agent.Generator) {
		v, release := l.use()
		using := &adapterUse{on: v}
		a, _ := using.Adapter("policy")
		held, free, err := v.admit(2, 0, using)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { free(); using.end(); release() })
		return generation.Request{Prompt: []generation.Token{5, 6, 7}, Params: generation.Params{N: 1, MaxTokens: 12, Seeds: []uint32{1}, Adapter: a.ID}}, held
	}
	old, before := begin()
	oldTokens := generated(old, before)
	request, running := begin()
	mustPause(t, l, PauseKeep)
	first := make(chan []generation.Token)
	go func() { first <- generated(request, running) }() // held before its first token
	if err := errors.Join(l.SetModel(t.Context(), "model0.gguf"), l.SetAdapter(t.Context(), "policy", "adapter1.gguf")); err != nil {
		t.Fatal(err)
	}
	l.Resume()
	got := [][]generation.Token{<-first, generated(request, running)}
	fresh, after := begin()
	want := generated(fresh, after)
	if slices.Equal(want, oldTokens) {
		t.Fatal("both adapters choose the same tokens")
	}
	for i, tokens := range got {
		if !slices.Equal(tokens, want) {
			t.Errorf("generation %d has %v, the new adapter %v", i, tokens, want)
		}
	}
}

func TestPauseIsSeenAndEnds(t *testing.T) {
	l, cfg := pausable(t)
	l.Resume() // without a pause
	if err := l.Failure(); err != nil {
		t.Error(err)
	}
	seconds := func() float64 {
		registry := prometheus.NewRegistry()
		registry.MustRegister(l.Collector())
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "agentd_paused_seconds" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("no metric")
		return 0
	}
	if seconds() != 0 {
		t.Error("the metric says paused")
	}
	done := answers(t.Context(), t, l, "")
	generating(t, l, 20)
	waits := make(chan error, 1)
	go func() { waits <- l.Pause(t.Context(), PauseWait) }()
	waittest.Eventually(t, "it is paused", func() bool { return seconds() > 0 })
	l.Resume()
	var refused *Error
	if err := <-waits; err != nil && (!errors.As(err, &refused) || refused.Reason != Busy) { // nil: all had ended already
		t.Errorf("a pause that was ended: %v", err)
	}
	<-done
	mustPause(t, l, PauseKeep)
	if err := l.Pause(t.Context(), PauseAbort); !errors.As(err, &refused) || refused.Reason != Busy || !strings.Contains(refused.Detail, "paused already, in mode keep") {
		t.Errorf("a second pause: %v", err)
	}
	l.Resume()
	fixed := tinyConfig(t)
	if err := openLive(t, fixed).Pause(t.Context(), PauseKeep); !errors.As(err, &refused) || refused.Reason != NotAllowed {
		t.Errorf("without a directory of weights: %v", err)
	}
	cfg.Remote.URLs = []string{"http://127.0.0.1:1"}
	if err := (&Service{cfg: cfg}).Pause(t.Context(), PauseKeep); !errors.As(err, &refused) || !strings.Contains(refused.Detail, "pause them there") {
		t.Errorf("engines at URLs: %v", err)
	}
}
