package scheduler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// pausedEach makes an engine that is paused in each step whose number is a multiple of steps, and counts how often.
func pausedEach(t *testing.T, s setup, steps int64, running bool) (e *Engine, pauses *atomic.Int64) {
	t.Helper()
	var count atomic.Int64
	pauses = new(atomic.Int64)
	s.wrap = func(b backend) backend {
		return &faulty{backend: b, decode: func([]core.Row) error {
			if count.Add(1)%steps == 0 && e != nil {
				pauses.Add(1)
				e.Pause(running)
			}
			return nil
		}}
	}
	e = newTestEngine(t, s)
	return e, pauses
}

// resumed generates a request in turns with several engines, until no pause interrupts it.
func resumed(t *testing.T, g generation.Request, engines ...*Engine) *generation.Result {
	t.Helper()
	for i := 0; ; i++ {
		e := engines[i%len(engines)]
		r, err := generate(t.Context(), e, g)
		e.Resume()
		switch {
		case err != nil:
			t.Fatal(err)
		case !r.Paused():
			return r
		case i > 1000:
			t.Fatal("it never ends")
		}
		g.Resume = r
	}
}

// TestPausedGenerationsContinueAsIfUnpaused: tokens, texts, ends and scores equal one run, on one context
// and on two, in one engine and in another with the same weights.
func TestPausedGenerationsContinueAsIfUnpaused(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, story)
	for name, g := range map[string]generation.Request{
		"greedy":      greedy(prompt, 1, 20),
		"sampled":     sampled(prompt, 5, 20, 3),
		"constrained": constrained(sampled(prompt, 3, 60, 9)),
	} {
		g.Scores = true
		for _, contexts := range []int{1, 2} {
			t.Run(fmt.Sprint(name, " on ", contexts), func(t *testing.T) {
				plain := setup{contexts: contexts, onCPU: true, cfg: Config{Policy: Policy{DraftRows: 4}}}
				want := mustGenerate(t, newTestEngine(t, plain), g)
				every, pauses := pausedEach(t, plain, 2, true)
				other, _ := pausedEach(t, plain, 3, true)
				got := resumed(t, g, every, other)
				if pauses.Load() < 2 {
					t.Errorf("%d pauses", pauses.Load())
				}
				for i := range want.Completions {
					a, b := want.Completions[i], got.Completions[i]
					if !slices.Equal(a.Tokens, b.Tokens) || a.Text != b.Text || a.Stop != b.Stop || a.Finish != b.Finish || b.Err != nil || len(a.Scores) != len(b.Scores) {
						t.Fatalf("candidate %d:\n%+v\nunpaused:\n%+v", i, b, a)
					}
					for k := range a.Scores {
						x, y := a.Scores[k], b.Scores[k]
						if x.Forced != y.Forced || math.Abs(float64(x.Logprob-y.Logprob)) > 1e-3 || math.Abs(x.Masked-y.Masked) > 1e-3 {
							t.Errorf("candidate %d, token %d: score %+v, unpaused %+v", i, k, y, x)
						}
					}
				}
				if got.Times.FirstToken == 0 || got.Times.FirstToken > got.Times.End || got.Times.Queue > got.Times.FirstToken {
					t.Errorf("times %+v", got.Times)
				}
			})
		}
	}
}

// TestPauseAfterARetry: one candidate had ended when the context failed, and is computed again on the other.
func TestPauseAfterARetry(t *testing.T) {
	var e *Engine
	e = newTestEngine(t, setup{contexts: 2, cfg: Config{Policy: Policy{MaxRunning: 1}}, wrapEach: func(context int, b backend) backend {
		return &faulty{backend: b, decode: func([]core.Row) error {
			switch s := e.Stats(); {
			case context == 1 && s.Retried == 1:
				e.Pause(true)
			case context == 0 && s.Admitted == 1:
				return llama.ErrLost
			}
			return nil
		}}
	}})
	g := sampled(tokenize(t, e.model, story), 2, 8, 1)
	g.IgnoreEnd = true
	admission, err := e.Admit(2, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer admission.Release()
	for range 2 {
		g.Resume, err = admission.generate(t.Context(), g)
		if err != nil || !g.Resume.Paused() {
			t.Fatalf("%+v, %v", g.Resume, err)
		}
		if s := e.Stats(); s.Admitted != 2 {
			t.Errorf("%d places are kept, want 2", s.Admitted)
		}
		e.Resume()
	}
}

// TestPauseWithoutRunningOnesLetsThemEnd: one sequence may run, so the second request has not started.
func TestPauseWithoutRunningOnesLetsThemEnd(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	var e *Engine
	var quiet atomic.Pointer[<-chan struct{}]
	e = newTestEngine(t, setup{cfg: Config{Policy: Policy{MaxRunning: 1}}, wrap: func(b backend) backend {
		return &faulty{backend: b, decode: func([]core.Row) error {
			if e != nil && quiet.Load() == nil && e.Stats().Admitted == 5 {
				q := e.Pause(false)
				quiet.Store(&q)
			}
			return nil
		}}
	}})
	first, second := greedy(tokenize(t, m, story), 1, 8), sampled(tokenize(t, m, "Other"), 3, 8, 1)
	admission, err := e.Admit(5, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer admission.Release()
	submitted := submitAll(t, admission, first, second)
	ended, err := admission.wait(t.Context(), submitted[0])
	if err != nil || ended.Paused() || len(ended.Completions[0].Tokens) == 0 {
		t.Errorf("the one that ran: %+v, %v", ended, err)
	}
	held, err := admission.wait(t.Context(), submitted[1])
	if err != nil || !held.Paused() || len(held.Completions[0].Tokens) > 0 || !errors.Is(held.Completions[2].Err, generation.ErrPaused) {
		t.Errorf("the one that waited: %+v, %v", held, err)
	}
	<-*quiet.Load()
	late, err := admission.generate(t.Context(), first)
	if err != nil || !late.Paused() {
		t.Errorf("one that comes later: %+v, %v", late, err)
	}
	if s := e.Stats(); s.Admitted != 4 {
		t.Errorf("%d places are kept, want those of the paused ones and the unused one, 4", s.Admitted)
	}
	e.Resume()
	second.Resume = held
	if r, err := admission.generate(t.Context(), second); err != nil || r.Paused() {
		t.Errorf("resumed: %+v, %v", r, err)
	}
	moved, err := admission.MoveTo(newTestEngine(t, setup{cfg: Config{QueueLimit: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	defer moved.Release()
	if moved.engine.Stats().Admitted != 1 || e.Stats().Admitted != 0 {
		t.Errorf("moved %d places, left %d", moved.engine.Stats().Admitted, e.Stats().Admitted)
	}
}

func TestTokensFromClientsAreChecked(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{})
	g := constrained(sampled(tokenize(t, m, story), 1, 60, 9))
	g.Scores = true
	whole := mustGenerate(t, e, g).Completions[0]
	if whole.Finish != generation.FinishStop {
		t.Fatalf("the answer ends by %s", whole.Finish)
	}
	with := func(tokens ...core.Token) generation.Request {
		r := g
		r.Resume = &generation.Result{Completions: []generation.Completion{{Finish: generation.FinishPaused, Tokens: tokens}}}
		return r
	}
	all := append(slices.Clone(whole.Tokens), whole.StopToken)
	for n := range all {
		if whole.Scores[n].Forced {
			continue // it was sampled together with the one before
		}
		r := mustGenerate(t, e, with(all[:n]...)).Completions[0]
		if r.Text != whole.Text || r.Finish != whole.Finish || len(r.Scores) != len(all) || n > 0 && r.Scores[n-1].Logprob == r.Scores[n-1].Logprob {
			t.Fatalf("after %d tokens: %+v, whole %+v", n, r, whole)
		}
	}
	if r := mustGenerate(t, e, with(all...)).Completions[0]; r.Text != whole.Text || r.Stop != whole.Stop || r.Finish != generation.FinishStop {
		t.Errorf("a complete answer: %+v", r)
	}
	short := with(whole.Tokens[:4]...)
	short.MaxTokens = 4
	if r := mustGenerate(t, e, short).Completions[0]; r.Finish != generation.FinishLength || len(r.Tokens) != 4 {
		t.Errorf("at the limit: %+v", r)
	}
	short.MaxTokens = 3
	for name, tc := range map[string]struct {
		request generation.Request
		want    string
	}{
		"what the grammar rejects": {with(whole.Tokens[1]), "token 0"},
		"no token":                 {with(-1), "not in the vocabulary"},
		"tokens after the end":     {with(append(slices.Clone(all), 1)...), "follows the end"},
		"too many":                 {short, "the limit of an answer is 3"},
	} {
		if _, err := generate(t.Context(), e, tc.request); !errors.Is(err, generation.ErrResume) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUrgentRequestPreemptsOthersWhichLoseNothing: on one context for two sequences.
func TestUrgentRequestPreemptsOthersWhichLoseNothing(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	patient, urgent := constrained(sampled(tokenize(t, m, story), 4, 60, 9)), greedy(tokenize(t, m, "Now"), 1, 3)
	patient.Scores, urgent.Priority = true, 5
	plain := setup{cfg: Config{Policy: Policy{MaxRunning: 2}}}
	want := mustGenerate(t, newTestEngine(t, plain), patient)
	var admission *Admission
	var handed []*request
	steps, early := 0, false
	plain.wrap = func(b backend) backend {
		return &faulty{backend: b, decode: func([]core.Row) error {
			if admission == nil {
				return nil // the engine tries the weights
			}
			if steps++; steps == 4 {
				handed = submitAll(t, admission, urgent)
			}
			if steps == 4+2+urgent.MaxTokens { // after two steps of the prompt, and one of each further token
				early = handed[0].candidates[0].Finish != ""
			}
			return nil
		}}
	}
	e := newTestEngine(t, plain)
	places, err := e.Admit(5, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer places.Release()
	admission = places
	got, err := places.generate(t.Context(), patient)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := places.wait(t.Context(), handed[0]); err != nil || len(r.Completions[0].Tokens) != 3 || !early {
		t.Errorf("the urgent one: %+v, %v, ended early: %t", r, err, early)
	}
	for i, c := range got.Completions {
		if w := want.Completions[i]; !slices.Equal(c.Tokens, w.Tokens) || c.Finish != w.Finish || len(c.Scores) != len(w.Scores) {
			t.Errorf("candidate %d: %+v, alone %+v", i, c, w)
		}
	}
	if e.Stats().Preemptions == 0 {
		t.Error("nothing was preempted")
	}
}
