package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// fewTexts admits nine texts.
const fewTexts = `root ::= ("go to the " | "open " | "report ") ("hall" | "attic" | "box")`

// wordGrammar has forced tokens, choices and a short free text.
const wordGrammar = `root ::= "{\"name\": \"" ("go_to" | "open_container" | "report") "\", \"place\": \"" [a-z ]{1,6} "\"}"`

// distinctly asks for different completions by their texts.
func distinctly(g generation.Request, grammar string) generation.Request {
	g.Grammar = grammar
	g.Distinct = &generation.Distinct{Key: func(text string) (string, bool) { return text, true }}
	return g
}

// logprobs returns the logprob of each text that was found. The texts must differ.
func logprobs(t *testing.T, r *generation.Result) map[string]float64 {
	t.Helper()
	found, last := map[string]float64{}, math.Inf(1)
	for i, c := range r.Completions {
		if c.Err != nil {
			if !errors.Is(c.Err, generation.ErrFewer) {
				t.Fatalf("candidate %d: %v", i, c.Err)
			}
			continue
		}
		if c.Branch == nil {
			t.Fatalf("candidate %d is no outcome: %+v", i, c)
		}
		if _, twice := found[c.Text]; twice {
			t.Errorf("%q was found twice", c.Text)
		}
		if c.Branch.Logprob > last {
			t.Errorf("candidate %d is more probable than the one before", i)
		}
		last = c.Branch.Logprob
		found[c.Text] = last
	}
	return found
}

func TestAllTextsFoundWithTheirProbabilities(t *testing.T) {
	e := newTestEngine(t, setup{})
	prompt := tokenize(t, e.model, story)
	best := logprobs(t, mustGenerateSome(t, e, distinctly(greedy(prompt, 12, 40), fewTexts)))
	sum := 0.0
	for _, p := range best {
		sum += math.Exp(p)
	}
	if len(best) != 9 || math.Abs(sum-1) > 0.01 {
		t.Errorf("%d texts with a probability of %g", len(best), sum)
	}
}

func mustGenerateSome(t *testing.T, e *Engine, g generation.Request) *generation.Result {
	t.Helper()
	r, err := generate(t.Context(), e, g)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMostProbableTextIsFirstOfAll(t *testing.T) {
	e := newTestEngine(t, setup{})
	prompt := tokenize(t, e.model, story)
	all := logprobs(t, mustGenerateSome(t, e, distinctly(greedy(prompt, 12, 40), fewTexts)))
	for n := 1; n <= 4; n++ {
		r := mustGenerateSome(t, e, distinctly(greedy(prompt, n, 40), fewTexts))
		found, least := logprobs(t, r), r.Completions[n-1].Branch
		for text, p := range all {
			if _, ok := found[text]; !ok && least.Exact && p > least.Logprob+0.02 {
				t.Errorf("%q with %g is not among %d, the last of which has %g", text, p, n, least.Logprob)
			}
		}
	}
}

// With too few rows for all branches a beam may find others.
func TestDistinctAnswersStayTheSameBesideOthers(t *testing.T) {
	for name, test := range map[string]struct {
		setup
		same bool
	}{
		"rows for all branches": {setup{cells: 4096, outputs: 48, sequences: 128, batch: 256}, true},
		"too few rows":          {setup{cells: 700, outputs: 6}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEngine(t, test.setup)
			g := distinctly(greedy(tokenize(t, e.model, story), 4, 80), wordGrammar)
			want := logprobs(t, mustGenerateSome(t, e, g))
			var all sync.WaitGroup
			for i := range 6 {
				all.Go(func() {
					if i%2 == 0 {
						_, _ = generate(t.Context(), e, sampled(tokenize(t, e.model, fmt.Sprint("Another one ", i)), 3, 20, 9))
						return
					}
					r, err := generate(t.Context(), e, g)
					if err != nil {
						t.Error(err)
						return
					}
					got := logprobs(t, r)
					for text := range want {
						if _, ok := got[text]; !ok && test.same || len(got) != len(want) {
							t.Errorf("%d texts instead of %d, without %q", len(got), len(want), text)
						}
					}
				})
			}
			all.Wait()
		})
	}
}

func TestInvalidTextsComeLastWithTheirEnd(t *testing.T) {
	e := newTestEngine(t, setup{})
	g := distinctly(greedy(tokenize(t, e.model, story), 9, 40), fewTexts)
	g.Distinct.Key = func(text string) (string, bool) { return text, text[0] != 'r' }
	r := mustGenerateSome(t, e, g)
	for i, c := range r.Completions {
		if valid := c.Branch != nil; valid != (i < 6) || c.Text == "" || (c.Text[0] == 'r') == valid {
			t.Errorf("candidate %d: %q, branch %v", i, c.Text, c.Branch)
		}
	}
}

func TestLongTextsEndAtTokenLimit(t *testing.T) {
	e := newTestEngine(t, setup{})
	r := mustGenerateSome(t, e, distinctly(greedy(tokenize(t, e.model, story), 3, 5), `root ::= [a-z ]+ "!!"`))
	lengths := 0
	for _, c := range r.Completions {
		if c.Finish == generation.FinishLength && len(c.Tokens) == 5 {
			lengths++
		}
	}
	if lengths == 0 {
		t.Errorf("no completion was cut: %+v", r.Completions)
	}
}

func TestCancelledSearchFreesItsBranches(t *testing.T) {
	var steps atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := newTestEngine(t, setup{wrap: func(b backend) backend {
		return &faulty{backend: b, decode: func([]core.Row) error {
			if steps.Add(1) == 8 {
				cancel()
			}
			return nil
		}}
	}})
	g := distinctly(greedy(tokenize(t, e.model, story), 4, 80), wordGrammar)
	if _, err := generate(ctx, e, g); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	eventually(t, "no request is left", func() bool { s := e.Stats(); return s.Requests == 0 && s.Running == 0 })
	if len(logprobs(t, mustGenerateSome(t, e, g))) != 4 {
		t.Error("the next search found fewer")
	}
}

func TestFailedStepEndsSearchWithErrors(t *testing.T) {
	var fails atomic.Bool
	fails.Store(true)
	e := newFaultyEngine(t, setup{}, func(step int, _ []core.Row) error {
		if fails.Load() && step > 6 {
			return errInjected
		}
		return nil
	})
	g := distinctly(greedy(tokenize(t, e.model, story), 4, 80), wordGrammar)
	r := mustGenerateSome(t, e, g)
	for i, c := range r.Completions {
		if !errors.Is(c.Err, ErrModel) {
			t.Errorf("candidate %d: %v", i, c.Err)
		}
	}
	fails.Store(false)
	logprobs(t, mustGenerateSome(t, e, g))
}

func TestFailedSearchStartsAgainElsewhere(t *testing.T) {
	var broken atomic.Bool
	e := newTestEngine(t, setup{contexts: 2, wrapEach: func(i int, b backend) backend {
		n := 0
		return &faulty{backend: b, decode: func([]core.Row) error {
			if n++; n == 7 && broken.CompareAndSwap(false, true) {
				return errInjected
			}
			return nil
		}}
	}})
	r := mustGenerateSome(t, e, distinctly(greedy(tokenize(t, e.model, story), 4, 80), wordGrammar))
	if got := logprobs(t, r); len(got) != 4 || !broken.Load() {
		t.Errorf("%d texts, failed %v", len(got), broken.Load())
	}
}

func TestSearchRefusesWhatItCannotDo(t *testing.T) {
	e := newTestEngine(t, setup{})
	g := distinctly(greedy(tokenize(t, e.model, story), 2, 5), fewTexts)
	g.Scores = true
	if _, err := generate(t.Context(), e, g); err == nil {
		t.Error("scores: no error")
	}
	g.Scores, g.Temperature = false, 0.5
	if _, err := generate(t.Context(), e, g); err == nil {
		t.Error("draws: no error")
	}
}

func TestDeadlineReturnsWhatSearchHasFound(t *testing.T) {
	var f *faulty
	answered := make(chan struct{})
	e := newTestEngine(t, setup{wrap: func(b backend) backend { f = &faulty{backend: b}; return f }})
	prompt := tokenize(t, e.model, story)
	// Two short texts end many steps before the long ones.
	g := distinctly(greedy(prompt, 6, 60), `root ::= "no" | "yes" | "x" [a-z ]{40}`)
	all := logprobs(t, mustGenerateSome(t, e, g))
	late := overdue{t.Context(), make(chan struct{})}
	first := f.steps
	f.decode = func([]core.Row) error {
		if f.steps == first+12 {
			close(late.done)
			<-answered
		}
		return nil
	}
	r, err := generate(late, e, g)
	close(answered)
	if err != nil {
		t.Fatal(err)
	}
	found, missing := 0, 0
	for i, c := range r.Completions {
		switch {
		case c.Branch != nil && found == i:
			found++
			if p, ok := all[c.Text]; ok && math.Abs(p-c.Branch.Logprob) > 0.02 || c.Branch.Exact {
				t.Errorf("%q: %+v, and %g in the whole search", c.Text, c.Branch, p)
			}
		case errors.Is(c.Err, context.DeadlineExceeded):
			missing++
		}
	}
	if found == 0 || missing == 0 || found+missing != 6 {
		t.Errorf("%d found, %d missing: %+v", found, missing, r.Completions)
	}
	eventually(t, "freed", func() bool { s := e.Stats(); return s.Running+s.Waiting == 0 && s.Admitted == 0 })
}

// The search of one adapter and requests of another take turns, and neither changes the other.
func TestSearchesOfAdaptersAnswerAsAlone(t *testing.T) {
	e := newTestEngine(t, setup{cells: 4096, outputs: 48, sequences: 128, batch: 256})
	id, err := e.AddAdapter(adapterFile(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	prompt := tokenize(t, e.model, story)
	var searches [2]generation.Request
	var want [2]map[string]float64
	for i, a := range []core.AdapterID{0, id} {
		searches[i] = distinctly(greedy(prompt, 4, 60), wordGrammar)
		searches[i].Adapter = a
		want[i] = logprobs(t, mustGenerateSome(t, e, searches[i]))
	}
	if fmt.Sprint(want[0]) == fmt.Sprint(want[1]) {
		t.Fatal("the adapter changes nothing, so the test shows nothing")
	}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			r, err := generate(t.Context(), e, searches[i%2])
			if err != nil {
				t.Error(err)
				return
			}
			got := logprobs(t, r)
			for text, p := range want[i%2] {
				if q, ok := got[text]; !ok || math.Abs(p-q) > 0.05 {
					t.Errorf("adapter %d: %q has %g instead of %g", searches[i%2].Adapter, text, q, p)
				}
			}
		})
	}
	all.Wait()
}
