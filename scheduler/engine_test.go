package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

const story = "The robot walks into the kitchen, looks at the table and the two cups on it, and waits for what comes next."

var architectures = []string{synth.Qwen3, synth.Qwen2, synth.GPTOSS, synth.Qwen35}

func TestCompletionEqualsNaiveLoop(t *testing.T) {
	for _, arch := range architectures {
		t.Run(arch, func(t *testing.T) {
			m := testModel(t, arch)
			e := newTestEngine(t, setup{arch: arch})
			for name, g := range map[string]generation.Request{
				"greedy":             greedy(tokenize(t, m, story), 1, 24),
				"greedy, two":        greedy(tokenize(t, m, story[:40]), 2, 24),
				"sampled, many":      sampled(tokenize(t, m, story), 6, 24, 7),
				"more than sequence": sampled(tokenize(t, m, story[10:]), 20, 12, 70),
				"one token":          sampled(tokenize(t, m, "x"), 3, 9, 1),
			} {
				t.Run(name, func(t *testing.T) {
					r := mustGenerate(t, e, g)
					for i, got := range r.Completions {
						if want := naive(t, m, g, i); !cmp.Equal(got, want) {
							t.Errorf("candidate %d: %s", i, cmp.Diff(want, got))
						}
					}
				})
			}
		})
	}
}

func TestNoCompletionEndsBeforeItsLeastTokens(t *testing.T) {
	m, e := testModel(t, synth.Qwen3), newTestEngine(t, setup{})
	g := sampled(tokenize(t, m, story), 20, 24, 7)
	g.Sampling = generation.Sampling{Temperature: 0.7}
	g.IgnoreEnd = true
	endless := mustGenerate(t, e, g).Completions
	g.IgnoreEnd, g.Least = false, 12
	ended, want := 0, mustGenerate(t, e, g)
	for i, c := range want.Completions {
		if len(c.Tokens) < g.Least || !slices.Equal(c.Tokens[:g.Least], endless[i].Tokens[:g.Least]) {
			t.Errorf("candidate %d: %v, without an end %v", i, c.Tokens, endless[i].Tokens)
		}
		if c.Finish == generation.FinishStop {
			ended++
		}
	}
	if ended == 0 {
		t.Error("none ends after its least tokens")
	}
	drafts := newTestEngine(t, setup{cfg: Config{Policy: Policy{DraftRows: 8}}})
	for n := range g.Least + 2 { // tokens of which each goes on
		paused := g
		paused.Resume = &generation.Result{Completions: slices.Clone(want.Completions)}
		for i := range paused.Resume.Completions {
			c := &paused.Resume.Completions[i]
			*c = generation.Completion{Tokens: c.Tokens[:min(n, len(c.Tokens))], Finish: generation.FinishPaused}
		}
		for i, c := range mustGenerate(t, drafts, paused).Completions {
			if !slices.Equal(c.Tokens, want.Completions[i].Tokens) || c.Stop != want.Completions[i].Stop {
				t.Errorf("candidate %d from %d tokens: %v, want %v", i, n, c.Tokens, want.Completions[i].Tokens)
			}
		}
	}
	if drafts.Stats().AcceptedTokens == 0 {
		t.Error("no draft was accepted")
	}
	g.Grammar = `root ::= "a"`
	if _, err := generate(t.Context(), e, g); err == nil || !strings.Contains(err.Error(), "exclude Grammar") {
		t.Errorf("with a grammar: %v", err)
	}
}

func TestConcurrentGenerationsAreIndependent(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{cells: 512, sequences: 12}) // few cells, for evictions
	var wg sync.WaitGroup
	for client := range 12 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(client)))
			for turn := range 4 {
				text := story[:20+r.IntN(60)] + fmt.Sprint(" ", r.IntN(3))
				g := sampled(tokenize(t, m, text), 1+r.IntN(4), 1+r.IntN(12), uint32(client*100+turn))
				result, err := generate(t.Context(), e, g)
				if err != nil {
					t.Error(err)
					return
				}
				for i, got := range result.Completions {
					if want := naive(t, m, g, i); !cmp.Equal(got, want) {
						t.Errorf("client %d turn %d candidate %d: %s", client, turn, i, cmp.Diff(want, got))
					}
				}
			}
		})
	}
	wg.Wait()
	if s := e.Stats(); s.Evicted == 0 || s.CachedTokens == 0 || s.Admitted != 0 {
		t.Errorf("the test was to reuse and to evict: %+v", s)
	}
}

func TestFreshEngineGivesSameCompletions(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	g := sampled(tokenize(t, m, story), 5, 30, 11)
	var first *generation.Result
	for range 3 {
		e := newTestEngine(t, setup{})
		r := mustGenerate(t, e, g)
		if times := r.Times; times.Queue <= 0 || times.FirstToken <= times.Queue || times.End <= times.FirstToken {
			t.Errorf("times %+v", times)
		}
		r.Times = generation.Times{}
		if first == nil {
			first = r
		} else if diff := cmp.Diff(first, r); diff != "" {
			t.Error(diff)
		}
	}
	texts := map[string]bool{}
	for _, c := range first.Completions {
		texts[c.Text] = true
	}
	if len(texts) < 2 {
		t.Errorf("5 seeds gave %d different texts", len(texts))
	}
}

func TestComputedTokensAreReused(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{})
	prompt := tokenize(t, m, story)
	first := mustGenerate(t, e, greedy(prompt, 1, 8))
	if first.PromptTokens != len(prompt) || first.CachedTokens != 0 {
		t.Errorf("%d prompt tokens, %d cached; want %d, 0", first.PromptTokens, first.CachedTokens, len(prompt))
	}
	again := mustGenerate(t, e, greedy(prompt, 1, 8))
	if again.CachedTokens != len(prompt)-1 {
		t.Errorf("the same prompt: %d of %d tokens cached, all but the last can be", again.CachedTokens, len(prompt))
	}
	if diff := cmp.Diff(first.Completions, again.Completions); diff != "" {
		t.Errorf("cold and warm differ: %s", diff)
	}
	// The next turn: all but the last token of the completion was decoded.
	turn := slices.Concat(prompt, first.Completions[0].Tokens, tokenize(t, m, " And then?"))
	computed := e.Stats().PrefillTokens
	next := mustGenerate(t, e, greedy(turn, 3, 8))
	known := len(prompt) + len(first.Completions[0].Tokens)
	if first.Completions[0].Finish == generation.FinishLength {
		known--
	}
	if next.CachedTokens != known {
		t.Errorf("the next turn: %d tokens cached, want %d", next.CachedTokens, known)
	}
	if got, want := e.Stats().PrefillTokens-computed, uint64(len(turn)-known); got != want {
		t.Errorf("three candidates prefilled %d tokens, want %d once", got, want)
	}
}

func TestConcurrentPromptsSharePrefill(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	var g *gate
	e := newTestEngine(t, setup{wrap: func(b backend) backend { g = newGate(b); return g }})
	system := strings.Repeat(story, 2)
	prompts := [][]llama.Token{
		tokenize(t, m, "x"), tokenize(t, m, system+" One"), tokenize(t, m, system+" two!"), tokenize(t, m, system+" 3?"),
	}
	var wg sync.WaitGroup
	for i, p := range prompts {
		wg.Go(func() { mustGenerate(t, e, greedy(p, 2, 4)) })
		if i == 0 {
			<-g.enter // the others are submitted while this step is held
		}
	}
	eventually(t, "all submitted", func() bool { return e.inboxLen() == 3 })
	close(g.open)
	wg.Wait()
	unique := map[string]bool{}
	for _, p := range prompts {
		for n := range p {
			unique[fmt.Sprint(p[:n+1])] = true
		}
	}
	if got := e.Stats().PrefillTokens; got != uint64(len(unique)) {
		t.Errorf("%d tokens prefilled, %d are unique", got, len(unique))
	}
}

// inboxLen is the number of commands that the worker has not taken.
func (e *Engine) inboxLen() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.workers[0].inbox)
}

func TestCancelFreesSequencesWithinTwoSteps(t *testing.T) {
	for name, hold := range map[string]struct {
		steps  int // to let pass before the cancellation
		prompt string
	}{
		"while it prefills": {0, strings.Repeat(story, 3)},
		"while it decodes":  {5, "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			m := testModel(t, synth.Qwen3)
			var f *faulty
			cancelled := make(chan struct{})
			e := newTestEngine(t, setup{wrap: func(b backend) backend { f = &faulty{backend: b}; return f }})
			ctx, cancel := context.WithCancel(t.Context())
			f.decode = func(rows []core.Row) error {
				if f.steps == hold.steps+1 {
					cancel()
					<-cancelled // Generate has returned
				}
				return nil
			}
			g := greedy(tokenize(t, m, hold.prompt), 3, 1000)
			g.IgnoreEnd = true
			_, err := generate(ctx, e, g)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want context.Canceled", err)
			}
			close(cancelled)
			eventually(t, "cells freed", func() bool { s := e.Stats(); return s.UsedCells == 0 && s.Cancelled == 1 && s.Admitted == 0 })
			if s := e.Stats(); s.Running+s.Waiting+s.Cached != 0 {
				t.Errorf("left behind: %+v", s)
			}
			if f.steps > hold.steps+2 {
				t.Errorf("%d more steps after the cancellation", f.steps-hold.steps-1)
			}
		})
	}
}

// overdue is a context whose deadline passes when the test decides.
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

func TestDeadlineReturnsEndedCandidates(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	prompt := tokenize(t, m, "abc")
	for name, test := range map[string]struct {
		step int // the step in which the deadline passes
		kept int
	}{
		"none has": {2, 0},
		"one has":  {6, 1},
		"two have": {9, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var f *faulty
			answered := make(chan struct{})
			e := newTestEngine(t, setup{outputs: 1, wrap: func(b backend) backend { f = &faulty{backend: b}; return f }})
			late := overdue{t.Context(), make(chan struct{})}
			f.decode = func([]core.Row) error {
				if f.steps == test.step {
					close(late.done)
					<-answered
				}
				return nil
			}
			g := greedy(prompt, 3, 4)
			g.IgnoreEnd = true
			r, err := generate(late, e, g)
			close(answered)
			if test.kept == 0 {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want context.DeadlineExceeded", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				for i, c := range r.Completions {
					switch ended := i < test.kept; {
					case ended && (c.Err != nil || c.Finish != generation.FinishLength || len(c.Tokens) != 4):
						t.Errorf("candidate %d had ended, and is %+v", i, c)
					case !ended && (!errors.Is(c.Err, context.DeadlineExceeded) || c.Finish != generation.FinishError || c.Tokens != nil):
						t.Errorf("candidate %d had not ended, and is %+v", i, c)
					}
				}
				if r.Times.End <= 0 || r.PromptTokens != len(prompt) {
					t.Errorf("%+v", r)
				}
			}
			eventually(t, "freed", func() bool { s := e.Stats(); return s.Running+s.Waiting == 0 && s.Cancelled == 1 && s.Admitted == 0 })
		})
	}
}

// TestEachCompletionIsGivenAsItEnds: one candidate decodes at a time, and a step waits until the first
// one was given.
func TestEachCompletionIsGivenAsItEnds(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	var f *faulty
	given := make(chan generation.Completion, 9)
	var list []generation.Completion
	e := newTestEngine(t, setup{outputs: 1, wrap: func(b backend) backend { f = &faulty{backend: b}; return f }})
	f.decode = func([]core.Row) error {
		if f.steps == 6 {
			select {
			case c := <-given:
				list = append(list, c)
			case <-time.After(time.Minute):
				t.Error("the first completion was not given")
			}
		}
		return nil
	}
	g := sampled(tokenize(t, m, "abc"), 3, 4, 7)
	g.IgnoreEnd = true
	g.Watch = func(e generation.Event) {
		r, k := e.Result, e.Completion
		if r.PromptTokens != len(g.Prompt) || len(r.Completions) != 3 {
			t.Errorf("%+v", r)
		}
		given <- r.Completions[k]
	}
	want := mustGenerate(t, e, g).Completions
	for len(given) > 0 {
		list = append(list, <-given)
	}
	if len(list) == 0 || len(list) > len(want) {
		t.Fatalf("%d completions were given", len(list))
	}
	for k, c := range list {
		if diff := cmp.Diff(want[k], c); diff != "" {
			t.Errorf("completion %d: %s", k, diff)
		}
	}
}

func TestCancelWhileQueued(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{sequences: 1, outputs: 1})
	long, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	g := greedy(tokenize(t, m, story), 1, 1500)
	g.IgnoreEnd = true
	wg.Go(func() {
		if _, err := generate(long, e, g); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})
	eventually(t, "running", func() bool { return e.Stats().Running == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		if _, err := generate(ctx, e, greedy(tokenize(t, m, "abc"), 2, 5)); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})
	eventually(t, "waiting", func() bool { return e.Stats().Waiting == 2 })
	cancel()
	eventually(t, "gone", func() bool { s := e.Stats(); return s.Waiting == 0 && s.Admitted == 1 })
	stop()
	wg.Wait()
}

func TestFullQueueRefusesBeforeAnyWork(t *testing.T) {
	e := newTestEngine(t, setup{cfg: Config{QueueLimit: 5}})
	first, err := e.Admit(3, 0)
	if err != nil {
		t.Fatal(err)
	}
	var full *generation.QueueFullError
	if _, err := e.Admit(3, 0); !errors.As(err, &full) {
		t.Fatalf("error %v, want QueueFullError", err)
	}
	if full.Asked != 3 || full.Admitted != 3 || full.Limit != 5 || full.RetryAfter < minRetry || full.RetryAfter > maxRetry {
		t.Errorf("%+v", full)
	}
	second, err := e.Admit(2, 0)
	if err != nil {
		t.Fatal(err)
	}
	prompt := tokenize(t, e.model, "abc")
	if _, err := second.generate(t.Context(), greedy(prompt, 3, 2)); !errors.Is(err, ErrReleased) {
		t.Errorf("more than was admitted: %v", err)
	}
	if _, err := second.generate(t.Context(), greedy(prompt, 2, 2)); err != nil {
		t.Error(err)
	}
	first.Release()
	first.Release()
	second.Release()
	if _, err := first.generate(t.Context(), greedy(prompt, 1, 2)); !errors.Is(err, ErrReleased) {
		t.Errorf("after Release: %v", err)
	}
	if s := e.Stats(); s.Admitted != 0 || s.Refused != 1 || s.QueueLimit != 5 {
		t.Errorf("%+v", s)
	}
}

func TestKeepReturnsUnusedQueuePlaces(t *testing.T) {
	e := newTestEngine(t, setup{cfg: Config{QueueLimit: 5}})
	admission, err := e.Admit(5, 0)
	if err != nil {
		t.Fatal(err)
	}
	prompt := tokenize(t, e.model, "abc")
	for _, step := range []struct{ keep, admitted int }{{9, 5}, {3, 3}, {4, 3}, {2, 2}} {
		if admission.Keep(step.keep); e.Stats().Admitted != step.admitted {
			t.Errorf("%d are admitted after Keep(%d), want %d", e.Stats().Admitted, step.keep, step.admitted)
		}
	}
	// One admission serves generations one after the other.
	for range 2 {
		if _, err := admission.generate(t.Context(), greedy(prompt, 1, 2)); err != nil {
			t.Error(err)
		}
	}
	if _, err := admission.generate(t.Context(), greedy(prompt, 1, 2)); !errors.Is(err, ErrReleased) {
		t.Errorf("more than was kept: %v", err)
	}
	admission.Keep(-1)
	admission.Release()
	if s := e.Stats(); s.Admitted != 0 {
		t.Errorf("%d are admitted in the end", s.Admitted)
	}
}

func TestQueueTimeRefusesLongWaits(t *testing.T) {
	e := newTestEngine(t, setup{outputs: 8, cfg: Config{QueueTime: time.Second}})
	e.mu.Lock()
	e.rate.interval = 300 * time.Millisecond
	e.mu.Unlock()
	first, err := e.Admit(108, 0) // nothing waits before them; 8 run at once
	if err != nil {
		t.Fatal(err)
	}
	var full *generation.QueueFullError
	if _, err := e.Admit(1, 0); !errors.As(err, &full) || full.RetryAfter < 29*time.Second || full.RetryAfter > 30*time.Second || !strings.Contains(err.Error(), "too slow") {
		t.Errorf("after 100 candidates of 0.3 s: %v, %+v", err, full)
	}
	first.Release()
	for i := range 8 + 4 {
		admission, err := e.Admit(1, 0)
		if err != nil {
			t.Errorf("after %d candidates: %v", i, err)
			continue
		}
		defer admission.Release()
	}
	if _, err := e.Admit(1, 0); err == nil {
		t.Error("after 4 candidates that wait it was admitted")
	}
	if s := e.Stats(); s.Refused != 2 || s.Admitted != 12 {
		t.Errorf("%+v", s)
	}
}

func TestInvalidRequestIsRefused(t *testing.T) {
	e := newTestEngine(t, setup{cells: 256})
	prompt := tokenize(t, e.model, "abc")
	bad := func(change func(*generation.Request)) generation.Request {
		g := greedy(prompt, 2, 4)
		change(&g)
		return g
	}
	for name, g := range map[string]generation.Request{
		"no candidates":     bad(func(g *generation.Request) { g.N = 0 }),
		"a seed missing":    bad(func(g *generation.Request) { g.Seeds = g.Seeds[:1] }),
		"no tokens":         bad(func(g *generation.Request) { g.MaxTokens = 0 }),
		"an empty prompt":   bad(func(g *generation.Request) { g.Prompt = nil }),
		"an invalid token":  bad(func(g *generation.Request) { g.Prompt = []llama.Token{1 << 30} }),
		"a negative token":  bad(func(g *generation.Request) { g.Prompt = []llama.Token{-1} }),
		"a grammar that is": bad(func(g *generation.Request) { g.Grammar = "root ::= nothing" }),
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := generate(t.Context(), e, g); err == nil {
				t.Errorf("accepted: %+v", r)
			}
		})
	}
	var overflow *generation.OverflowError
	_, err := generate(t.Context(), e, greedy(make([]llama.Token, 200), 1, 57))
	if !errors.As(err, &overflow) || *overflow != (generation.OverflowError{Prompt: 200, MaxNew: 57, Limit: 256}) {
		t.Errorf("a prompt too long: %v", err)
	}
	if s := e.Stats(); s.Admitted != 0 || s.Steps != 0 {
		t.Errorf("%+v", s)
	}
}

func TestGrammarConstrainsAndEndsCompletion(t *testing.T) {
	for _, arch := range architectures {
		t.Run(arch, func(t *testing.T) {
			e := newTestEngine(t, setup{arch: arch})
			g := sampled(tokenize(t, e.model, story), 4, 20, 3)
			g.Grammar = `root ::= ("yes" | "no") "!"`
			for i, c := range mustGenerate(t, e, g).Completions {
				if c.Text != "yes!" && c.Text != "no!" || c.Finish != generation.FinishStop || c.Stop == "" {
					t.Errorf("candidate %d: %+v", i, c)
				}
			}
		})
	}
}

func TestRetryEstimateFollowsCompletionRate(t *testing.T) {
	var p completionRate
	if got := p.estimate(100); got != minRetry {
		t.Errorf("without experience %v, want %v", got, minRetry)
	}
	now := time.Unix(1000, 0)
	busy := now
	for range 50 {
		now = now.Add(8 * time.Second)
		p.record(4, now, busy)
	}
	if got := p.estimate(10); got < 19*time.Second || got > 21*time.Second {
		t.Errorf("10 candidates at 2 s each: %v", got)
	}
	if got := p.estimate(1000); got != maxRetry {
		t.Errorf("1000 candidates: %v, want %v", got, maxRetry)
	}
	// 2 s each: 15 end in half a minute.
	for admitted, late := range map[int]int{0: 0, 14: 0, 20: 5, 100: 85} {
		if got := p.excess(admitted, 31*time.Second); got < late-1 || got > late+1 {
			t.Errorf("%d are admitted, %d of them too many, want about %d", admitted, got, late)
		}
		if got := p.excess(admitted, 0); got != 0 {
			t.Errorf("without a limit %d of %d are too many", got, admitted)
		}
	}
	// Time without work does not count.
	now = now.Add(time.Hour)
	p.record(1, now.Add(2*time.Second), now)
	if got := p.estimate(10); got > 21*time.Second {
		t.Errorf("after an idle hour: %v", got)
	}
}
