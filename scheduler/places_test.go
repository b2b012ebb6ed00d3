package scheduler

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/generation"
)

func admit(t *testing.T, e *Engine, candidates, priority int) *Admission {
	t.Helper()
	a, err := e.Admit(candidates, priority)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Release)
	return a
}

// lost reports whether an admission has made way.
func lost(a *Admission) bool {
	var full *generation.QueueFullError
	return errors.As(a.Refusal(), &full) && full.MadeWay && full.RetryAfter >= minRetry
}

func TestWaitingWorkOfLowerPriorityMakesWay(t *testing.T) {
	e := newTestEngine(t, setup{cfg: Config{QueueLimit: 6}})
	zero, old, fresh := admit(t, e, 2, 0), admit(t, e, 2, -5), admit(t, e, 2, -5)
	check := func(what string, zeroGone, oldGone, freshGone bool) {
		t.Helper()
		if lost(zero) != zeroGone || lost(old) != oldGone || lost(fresh) != freshGone || e.Stats().Admitted != 6 {
			t.Errorf("%s: %t %t %t have made way, %d are admitted", what, lost(zero), lost(old), lost(fresh), e.Stats().Admitted)
		}
	}
	var full *generation.QueueFullError
	if _, err := e.Admit(1, -5); !errors.As(err, &full) || full.MadeWay || full.Admitted != 6 {
		t.Errorf("another one of the lowest priority: %v", err)
	}
	check("the same priority", false, false, false)
	admit(t, e, 1, 10)
	if !lost(fresh) || lost(old) || lost(zero) || e.Stats().Admitted != 5 {
		t.Error("not the newest of the lowest priority makes way")
	}
	admit(t, e, 3, 10)
	check("the next", false, true, true)
	admit(t, e, 1, 10)
	if !lost(zero) {
		t.Error("priority 0 stays beside 10")
	}
	if _, err := e.Admit(2, 10); !errors.As(err, &full) {
		t.Errorf("more than the limit of the highest priority: %v", err)
	}
	if _, err := fresh.generate(t.Context(), greedy(tokenize(t, e.model, "a"), 1, 1)); !errors.As(err, &full) || !full.MadeWay {
		t.Errorf("a generation of one that made way: %v", err)
	}
	fresh.Release()
	if got := e.Stats(); got.Admitted != 5 || got.Refused != 5 {
		t.Errorf("%d are admitted, %d were refused", got.Admitted, got.Refused)
	}
}

// TestRunningWorkStaysBesideAHigherPriority, which is admitted all the same; what waits for a context ends at once.
func TestRunningWorkStaysBesideAHigherPriority(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{sequences: 1, outputs: 1, cfg: Config{QueueLimit: 2}})
	long := greedy(tokenize(t, m, story), 1, 1500)
	long.IgnoreEnd = true
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	running, waiting := admit(t, e, 1, 0), admit(t, e, 1, 0)
	var all sync.WaitGroup
	all.Go(func() { _, _ = running.generate(ctx, long) })
	eventually(t, "running", func() bool { return e.Stats().Running == 1 })
	all.Go(func() {
		var full *generation.QueueFullError
		if _, err := waiting.generate(ctx, long); !errors.As(err, &full) || !full.MadeWay {
			t.Errorf("what waited: %v", err)
		}
	})
	eventually(t, "waiting", func() bool { return e.Stats().Waiting == 1 })
	high := admit(t, e, 2, 1)
	if lost(running) || !lost(waiting) || e.Stats().Admitted != 3 {
		t.Errorf("running %t, waiting %t, %d admitted", lost(running), lost(waiting), e.Stats().Admitted)
	}
	if r, err := high.generate(t.Context(), greedy(tokenize(t, m, "abc"), 1, 2)); err != nil || len(r.Completions[0].Tokens) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	stop()
	all.Wait()
	eventually(t, "their places are free", func() bool { return e.Stats().Admitted == 1 })
}

// TestAdmittedWorkStaysWithinTwiceTheLimit where all of it runs.
func TestAdmittedWorkStaysWithinTwiceTheLimit(t *testing.T) {
	e := newTestEngine(t, setup{cfg: Config{QueueLimit: 3}})
	for priority := range 2 {
		a := admit(t, e, 3, priority)
		e.mu.Lock()
		a.started = e.now()
		e.mu.Unlock()
	}
	var full *generation.QueueFullError
	if _, err := e.Admit(1, 2); !errors.As(err, &full) || full.Admitted != 6 {
		t.Errorf("a seventh candidate with a limit of 3: %v", err)
	}
}

func TestWaitProtectsFromHigherPriorities(t *testing.T) {
	at := time.Now()
	for _, tc := range []struct {
		waited, started time.Duration // 0: not started
		priority        int
		want            bool
	}{
		{0, 0, 0, true},
		{0, 0, 1, false},
		{4900 * time.Millisecond, 0, 5, false},
		{5 * time.Second, 0, 5, true},
		{5 * time.Second, 0, 6, false},
		{time.Hour, 4 * time.Second, 5, false},
		{time.Hour, 5 * time.Second, 5, true},
	} {
		p := place{since: at}
		if tc.started > 0 {
			p.started = at.Add(tc.started)
		}
		if got := p.before(tc.priority, at.Add(tc.waited)); got != tc.want {
			t.Errorf("%+v: %t", tc, got)
		}
	}
}

func TestLowerPrioritiesDoNotCountForTheQueueTime(t *testing.T) {
	e := newTestEngine(t, setup{outputs: 1, cfg: Config{QueueTime: time.Second}})
	e.mu.Lock()
	e.rate.interval = 100 * time.Millisecond
	e.mu.Unlock()
	admit(t, e, 30, -1)
	var full *generation.QueueFullError
	if _, err := e.Admit(1, -1); !errors.As(err, &full) || !full.Late {
		t.Errorf("a wait of 3 seconds is longer than 1: %v", err)
	}
	admit(t, e, 1, 0)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// longAndShort is a request of which one candidate ends long before the other.
func longAndShort(t *testing.T, e *Engine, m *llama.Model) generation.Request {
	t.Helper()
	for seed := range uint32(100) {
		g := sampled(tokenize(t, m, "abc"), 2, 600, seed)
		r, err := generate(t.Context(), e, g)
		if err != nil {
			t.Fatal(err)
		}
		a, b := len(r.Completions[0].Tokens), len(r.Completions[1].Tokens)
		if max(a, b) > min(a, b)+400 {
			return g
		}
	}
	t.Fatal("candidates of each seed are about as long")
	return generation.Request{}
}

// TestRefusedAndEndedCandidatesGiveTheirPlacesBack while others of their request run.
func TestRefusedAndEndedCandidatesGiveTheirPlacesBack(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{})
	runs, over := longAndShort(t, e, m), greedy(tokenize(t, m, "abc"), 3, 5000)
	a := admit(t, e, 5, 0)
	var left sync.Map // numbers of admitted candidates that were seen while the request ran
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for !closed(ended) {
			left.Store(e.Stats().Admitted, true)
			runtime.Gosched()
		}
	})
	var overflow *generation.OverflowError
	a.GenerateAll(t.Context(), []generation.Request{over, runs}, func(i int, _ *generation.Result, err error) {
		if (i == 0) != errors.As(err, &overflow) || i == 1 && err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	})
	close(ended)
	watching.Wait()
	if _, one := left.Load(1); !one {
		t.Error("while one of five candidates ran, when one had ended and three were refused, never 1 was admitted")
	}
	if got := e.Stats().Admitted; got != 0 {
		t.Errorf("%d are left", got)
	}
	if _, err := a.generate(t.Context(), greedy(tokenize(t, m, "abc"), 1, 3)); !errors.Is(err, ErrReleased) {
		t.Errorf("a further request: %v", err)
	}
}

func TestLostContextsComputeNothing(t *testing.T) {
	e := newTestEngine(t, setup{contexts: 2})
	each := e.cfg.MaxRunning
	if got := e.together(); got != 2*each {
		t.Errorf("%d candidates run on two contexts, want %d", got, 2*each)
	}
	e.mu.Lock()
	e.workers[1].health.lost = true
	got := e.together()
	e.workers[1].health.lost = false
	e.mu.Unlock()
	if got != each {
		t.Errorf("%d candidates run on the context that is left, want %d", got, each)
	}
	e.cfg.Isolate = true
	if got := e.together(); got != 2 {
		t.Errorf("%d requests run alone on two contexts", got)
	}
}

// TestCachedTokensOfAResumedRequestAreTheMost of what was not computed before and after its pause.
func TestCachedTokensOfAResumedRequestAreTheMost(t *testing.T) {
	r := &request{candidates: make([]generation.Completion, 1)}
	for _, tc := range []struct{ before, now, want int }{{-1, 5, 5}, {7, 5, 7}, {3, 5, 5}} {
		if r.gen.Resume = nil; tc.before >= 0 {
			r.gen.Resume = &generation.Result{CachedTokens: tc.before}
		}
		if got := r.result(nil, tc.now, generation.Times{}, nil, nil).CachedTokens; got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
	}
}
