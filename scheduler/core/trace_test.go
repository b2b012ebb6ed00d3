package core

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"agentd/scheduler/generation"
)

const alphabet = 3 // few tokens, so that prefixes and whole completions coincide

// model is a model whose next token depends on every token before it and on the
// candidate's seed. Some tokens force others.
func model(context []Token, seed int) Choice {
	h := fnv.New64a()
	fmt.Fprint(h, context, seed)
	hash := h.Sum64()
	x := hash % 40
	switch {
	case x < 4:
		return Choice{Verdict: Stop}
	case x == 4:
		return Choice{Verdict: Fail}
	}
	choice := Choice{Tokens: []Token{Token(x % alphabet)}}
	if hash >>= 8; hash%3 == 0 {
		for range 1 + hash>>4%6 {
			hash = hash*6364136223846793005 + 1442695040888963407
			choice.Forced = append(choice.Forced, len(choice.Tokens))
			choice.Tokens = append(choice.Tokens, Token(hash>>33%alphabet))
		}
	}
	if hash>>16%12 == 0 {
		choice.Verdict = Complete
	}
	return choice
}

// completion is the state of a candidate. sampled are the indexes of the tokens that were not forced.
type completion struct {
	tokens  []Token
	sampled []int
}

// extend appends the tokens of a choice of model, of which only the first is sampled. A
// completion has at most maxNew tokens, and ends with a repetition of least tokens or more
// (0: any) that has four sampled ones. It returns the finish reason, "" if there is none.
func (c *completion) extend(choice Choice, maxNew, least int) generation.Finish {
	switch choice.Verdict {
	case Stop:
		return generation.FinishStop
	case Fail:
		return generation.FinishError
	}
	complete := choice.Verdict == Complete && len(c.tokens)+len(choice.Tokens) <= maxNew
	for i, token := range choice.Tokens {
		if len(c.tokens) == maxNew {
			return generation.FinishLength
		}
		if i == 0 {
			c.sampled = append(c.sampled, len(c.tokens))
		}
		c.tokens = append(slices.Clip(c.tokens), token)
		if least == 0 || complete {
			continue
		}
		size, within := slowRepeated(c.tokens, least), 0
		for _, at := range c.sampled {
			if at >= len(c.tokens)-4*size {
				within++
			}
		}
		if size > 0 && within >= 4 {
			return generation.FinishRepeat
		}
	}
	switch {
	case complete:
		return generation.FinishStop
	case len(c.tokens) == maxNew:
		return generation.FinishLength
	}
	return ""
}

// naive is the oracle for the scheduler: one candidate, computed alone.
func naive(prompt []Token, maxNew, seed, least int) ([]Token, generation.Finish) {
	c, finish := completion{tokens: []Token{}}, generation.Finish("")
	for finish == "" {
		finish = c.extend(model(slices.Concat(prompt, c.tokens), seed), maxNew, least)
	}
	return c.tokens, finish
}

// world drives a Core over the oracle of the cache.
type world struct {
	t        *rapid.T
	core     *Core
	kv       *kv
	requests map[RequestID]*liveRequest
	plan     *Plan
	ended    int
	// cached tokens counted so far.
	cached uint64
	// nonFinite: every other failed sample marks its sequence as non-finite.
	nonFinite bool
	// ignoreDrafts: speculative rows are not sampled.
	ignoreDrafts bool
}

type liveRequest struct {
	Request
	seed  int
	cands []completion
	ended []bool
	// scored are the tokens of the prompt whose logits were computed.
	scored map[int]bool
}

func (w *world) submit(j Request, seed int) {
	w.core.Submit(j)
	w.requests[j.ID] = &liveRequest{Request: j, seed: seed, cands: make([]completion, j.N), ended: make([]bool, j.N), scored: map[int]bool{}}
}

func (w *world) cancel(id RequestID) {
	if !w.core.Cancel(id) {
		w.t.Fatalf("request %d is not alive", id)
	}
	delete(w.requests, id)
}

// interrupt interrupts a request and continues it under another id.
func (w *world) interrupt(id, next RequestID) {
	j := w.requests[id]
	delete(w.requests, id)
	j.ID, j.Begun = next, w.core.Interrupt(id)
	for i, tokens := range j.Begun {
		if (tokens == nil) != j.ended[i] || tokens != nil && !slices.Equal(tokens, j.cands[i].tokens) {
			w.t.Fatalf("request %d candidate %d is interrupted with %v, its tokens are %v", id, i, tokens, j.cands[i].tokens)
		}
	}
	if j.ScoreFrom > 0 && !slices.ContainsFunc(j.Begun, func(tokens []Token) bool { return tokens == nil || len(tokens) > 0 }) {
		j.Begun = nil // its prompt has not been computed
	}
	w.core.Submit(j.Request)
	w.requests[next] = j
}

// least is the shortest n-gram that ends a candidate of a request; 0: any may repeat.
func (w *world) least(j *liveRequest) int {
	if !j.StopRepeats {
		return 0
	}
	return w.core.tune.minRepeat
}

// takePlan plans and applies the memory operations.
func (w *world) takePlan() {
	w.plan = w.core.Plan()
	for _, o := range w.plan.Ops {
		if err := w.kv.apply(o); err != nil {
			w.t.Fatal(err)
		}
	}
	if cached := w.core.Stats().CachedTokens; cached < w.cached {
		w.t.Fatalf("a counter went from %d to %d", w.cached, cached)
	} else {
		w.cached = cached
	}
	if got, limit := len(w.plan.Rows), w.core.cfg.BatchTokens; got > limit {
		w.t.Fatalf("%d rows, at most %d", got, limit)
	}
	drafts := 0
	for _, s := range w.plan.Samples {
		drafts += s.Drafts
	}
	if drafts > 0 && len(w.plan.Rows) > w.core.cfg.DraftRows {
		w.t.Fatalf("%d draft tokens in a step of %d rows, at most %d", drafts, len(w.plan.Rows), w.core.cfg.DraftRows)
	}
	if s := w.core.Stats(); s.AcceptedTokens > s.DraftTokens || s.ForcedTokens > s.GeneratedTokens {
		w.t.Fatalf("more accepted or forced tokens counted than exist: %+v", s)
	}
	outputs := 0
	for _, r := range w.plan.Rows {
		if r.Output {
			outputs++
		}
	}
	if outputs > w.core.cfg.MaxOutputs {
		w.t.Fatalf("%d outputs, at most %d", outputs, w.core.cfg.MaxOutputs)
	}
	w.conserved()
}

// conserved compares the cells that the core counts with the oracle's.
func (w *world) conserved() {
	if got, want := w.core.Stats().UsedCells, w.kv.used(); got != want {
		w.t.Fatalf("the core counts %d cells, the cache holds %d", got, want)
	}
}

// commit decodes the plan, or fails it with result.
func (w *world) commit(result StepStatus) {
	var choices []Choice
	switch result {
	case StepDecoded:
		contexts, ok, err := w.kv.decode(w.plan.Adapter, w.plan.Rows)
		if err != nil {
			w.t.Fatal(err)
		}
		if !ok {
			w.t.Fatalf("no cells for %d rows: %d used of %d", len(w.plan.Rows), w.kv.used(), w.kv.cells)
		}
		for _, s := range w.plan.Samples {
			choices = append(choices, w.choose(s, contexts))
		}
		for _, s := range w.plan.Scores {
			if j := w.requests[s.Request]; j != nil {
				if !slices.Equal(contexts[s.Row], j.Prompt[:s.Index]) || s.Index < j.ScoreFrom {
					w.t.Fatalf("request %d: token %d is scored after %v, its prompt is %v from %d", s.Request, s.Index, contexts[s.Row], j.Prompt, j.ScoreFrom)
				}
				j.scored[s.Index] = true
			}
		}
	case StepFailed: // some rows stay in the cache
		if _, _, err := w.kv.decode(w.plan.Adapter, w.plan.Rows[:len(w.plan.Rows)/2]); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, e := range w.core.Commit(result, choices) {
		w.event(e)
	}
}

// choose samples from the row of s, and from the rows of accepted drafts.
func (w *world) choose(s Sample, contexts map[int][]Token) (choice Choice) {
	j := w.requests[s.Request]
	if j == nil || j.MaxTokens == 0 {
		return Choice{} // cancelled while in flight, or only scored
	}
	var drafts []Token
	for _, r := range w.plan.Rows[s.Draft : s.Draft+s.Drafts] {
		drafts = append(drafts, r.Token)
	}
	for row := s.Row; ; {
		context := contexts[row]
		if want := slices.Concat(j.Prompt, j.cands[s.Candidate].tokens); !slices.Equal(context, want) {
			w.t.Fatalf("request %d candidate %d is sampled from %v, its tokens are %v", s.Request, s.Candidate, context, want)
		}
		next := model(context, j.seed+s.Candidate)
		finish := j.cands[s.Candidate].extend(next, j.MaxTokens, w.least(j))
		for _, at := range next.Forced {
			choice.Forced = append(choice.Forced, len(choice.Tokens)+at)
		}
		choice.Tokens = append(choice.Tokens, next.Tokens...)
		choice.Verdict, choice.NonFinite = next.Verdict, w.nonFinite && next.Verdict == Fail && len(context)%2 == 0
		right := commonPrefixLen(choice.Tokens, drafts)
		if finish != "" || right < len(choice.Tokens) || w.ignoreDrafts {
			return choice
		}
		row = s.Draft + right - 1
	}
}

func (w *world) event(e Event) {
	j := w.requests[e.Request]
	if j == nil {
		w.t.Fatalf("event of request %d, which has ended", e.Request)
	}
	switch e.Kind {
	case CandidateFinished:
		var want []Token
		finish := generation.FinishLength
		if j.MaxTokens > 0 {
			want, finish = naive(j.Prompt, j.MaxTokens, j.seed+e.Candidate, w.least(j))
		}
		for i := j.ScoreFrom; 0 < i && i <= len(j.Prompt); i++ {
			if !j.scored[i] {
				w.t.Fatalf("request %d: token %d of the prompt has no score", e.Request, i)
			}
		}
		if j.ended[e.Candidate] || e.Finish != finish || !slices.Equal(e.Tokens, want) {
			w.t.Fatalf("request %d candidate %d: %v (finish %q), alone it is %v (finish %q)", e.Request, e.Candidate, e.Tokens, e.Finish, want, finish)
		}
		j.ended[e.Candidate] = true
	case RequestFinished:
		if slices.Contains(j.ended, false) || e.Cached >= len(j.Prompt) {
			w.t.Fatalf("request %d finished: candidates %v, %d of %d prompt tokens cached", e.Request, j.ended, e.Cached, len(j.Prompt))
		}
		w.ended++
		delete(w.requests, e.Request)
	case RequestFailed:
		delete(w.requests, e.Request)
	}
}

// drain runs until no request is left. A bound on the steps detects livelocks and lost
// requests.
func (w *world) drain() {
	bound := 10
	for _, j := range w.requests {
		bound += 2 * j.N * (len(j.Prompt) + j.MaxTokens + 1)
	}
	for range bound {
		w.takePlan()
		if len(w.plan.Rows) == 0 {
			break
		}
		w.commit(StepDecoded)
	}
	if len(w.requests) > 0 || !w.core.Idle() {
		w.t.Fatalf("%d requests left after %d steps", len(w.requests), bound)
	}
	if err := w.core.Verify(); err != nil {
		w.t.Fatal(err)
	}
}

func drawConfig(t *rapid.T) Config {
	batch := rapid.IntRange(1, 24).Draw(t, "batch")
	cfg := Config{
		Policy: Policy{
			MaxSequences:  rapid.IntRange(1, 10).Draw(t, "sequences"),
			BatchTokens:   batch,
			PrefillChunk:  rapid.IntRange(0, batch).Draw(t, "chunk"),
			NoPrefixCache: rapid.IntRange(0, 4).Draw(t, "no reuse") == 0,
		},
		Cells:       rapid.IntRange(16, 120).Draw(t, "cells"),
		MaxOutputs:  rapid.IntRange(1, 10).Draw(t, "outputs"),
		Overcommit:  rapid.Bool().Draw(t, "overcommit"),
		PartialCopy: rapid.Bool().Draw(t, "partial"),
		Check:       true,
	}
	cfg.MaxRunning = rapid.IntRange(0, cfg.MaxOutputs).Draw(t, "running")
	if cfg.PartialCopy && !cfg.NoPrefixCache {
		cfg.HostCells = rapid.SampledFrom([]int{0, 0, 20, 60, 400}).Draw(t, "host")
	}
	return cfg
}

func TestRandomTraceEqualsNaiveCompletion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		w := &world{t: t, kv: newKV(cfg.Cells, cfg.PartialCopy), requests: map[RequestID]*liveRequest{}, nonFinite: true}
		if cfg.PartialCopy && cfg.HostCells == 0 {
			if w.kv.window = rapid.SampledFrom([]int{0, 1, 4, 12}).Draw(t, "window"); w.kv.window > 0 {
				cfg.Usable = w.kv.usable
			}
		}
		if cfg.PartialCopy && cfg.Usable == nil {
			cfg.DraftRows = rapid.SampledFrom([]int{0, 2, 5, 12}).Draw(t, "draft rows")
			cfg.EndTokens = rapid.SampledFrom([][]Token{nil, {1}}).Draw(t, "endings")
			w.ignoreDrafts = rapid.IntRange(0, 3).Draw(t, "blind") == 0
		}
		adapters := rapid.SampledFrom([][]AdapterID{{0}, {0, 1}, {0, 3, 4}}).Draw(t, "adapters")
		var before [][]Token
		w.core = New(cfg)
		w.core.tune = tuning{rapid.IntRange(1, 6).Draw(t, "wait"), rapid.IntRange(1, 6).Draw(t, "evict"), rapid.IntRange(1, 3).Draw(t, "repeat")}
		if h := w.core.host; h != nil {
			h.blockCells, h.minCells = rapid.IntRange(1, 20).Draw(t, "block"), rapid.IntRange(1, 5).Draw(t, "least")
		}
		next := RequestID(0)
		submit := func(t *rapid.T) {
			maxNew := rapid.IntRange(1, min(rapid.SampledFrom([]int{12, 60}).Draw(t, "longest"), cfg.Cells-1)).Draw(t, "maxNew")
			prompt := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, cfg.Cells-maxNew).Draw(t, "prompt")
			next++
			job := Request{ID: next}
			job.N, job.MaxTokens = rapid.IntRange(1, 12).Draw(t, "n"), maxNew
			job.Temperature = rapid.SampledFrom([]float32{0, 1}).Draw(t, "temperature")
			job.StopRepeats = rapid.Bool().Draw(t, "stop repeats")
			if len(before) > 0 && rapid.Bool().Draw(t, "known") { // it shares a prefix with an earlier prompt
				job.Prompt = slices.Clone(rapid.SampledFrom(before).Draw(t, "as"))
				job.Prompt = job.Prompt[:rapid.IntRange(1, len(job.Prompt)).Draw(t, "for")]
			}
			job.Prompt = append(job.Prompt, prompt...)
			job.Prompt = job.Prompt[:min(len(job.Prompt), cfg.Cells-maxNew)]
			before = append(before, job.Prompt)
			if rapid.IntRange(0, 3).Draw(t, "scored") == 0 {
				job.ScoreFrom = rapid.IntRange(1, len(job.Prompt)).Draw(t, "from")
				job.MaxTokens *= rapid.IntRange(0, 1).Draw(t, "answered")
			}
			job.Adapter = rapid.SampledFrom(adapters).Draw(t, "adapter")
			job.Priority = rapid.SampledFrom([]int{0, 0, -1, 1}).Draw(t, "priority")
			job.Client = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "client")
			w.submit(job, rapid.IntRange(0, 3).Draw(t, "seed")+100*int(job.Adapter))
		}
		drop := func(t *rapid.T) {
			id := rapid.SampledFrom(adapters).Draw(t, "dropped")
			for _, j := range w.requests {
				if j.Adapter == id {
					return
				}
			}
			w.core.DropAdapter(id)
		}
		cancel := func(t *rapid.T) {
			if len(w.requests) > 0 {
				ids := make([]RequestID, 0, len(w.requests))
				for id := range w.requests {
					ids = append(ids, id)
				}
				slices.Sort(ids)
				w.cancel(rapid.SampledFrom(ids).Draw(t, "cancel"))
			}
		}
		pause := func(t *rapid.T) {
			for _, id := range slices.Sorted(maps.Keys(w.requests)) {
				if !w.requests[id].StopRepeats && rapid.Bool().Draw(t, "paused") {
					next++
					w.interrupt(id, next)
				}
			}
		}
		step := func(t *rapid.T) {
			w.takePlan()
			if len(w.plan.Rows) == 0 {
				return
			}
			if rapid.IntRange(0, 9).Draw(t, "event in flight") == 0 {
				cancel(t)
			}
			w.commit(rapid.SampledFrom([]StepStatus{
				StepDecoded, StepDecoded, StepDecoded, StepDecoded, StepDecoded, StepDecoded, StepDecoded, StepDecoded, StepNoSlot, StepFailed,
			}).Draw(t, "result"))
		}
		lose := func(t *rapid.T) {
			w.core.Invalidate(SeqID(rapid.IntRange(0, cfg.MaxSequences-1).Draw(t, "lost")))
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit": submit, "cancel": cancel, "step": step, "step more": step, "step on": step, "lose": lose, "drop": drop, "pause": pause,
		})
		w.drain()
	})
}
