package core

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Each new token is computed once while everything fits, however prompts overlap and arrive.
// Only the last token of a prompt that another one contains is computed again, for its logits.
// ask is a request whose tokens are drawn.
func ask(id RequestID, prompt []Token, n, maxTokens int) Request {
	r := Request{ID: id}
	r.Prompt, r.N, r.MaxTokens, r.Temperature = prompt, n, maxTokens, 1
	return r
}

func TestEachNewTokenIsComputedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.IntRange(1, 24).Draw(t, "batch")
		cfg := Config{
			Cells: 4096, Policy: Policy{MaxSequences: 64, BatchTokens: batch, PrefillChunk: rapid.IntRange(0, batch).Draw(t, "chunk")}, MaxOutputs: rapid.IntRange(1, 64).Draw(t, "outputs"),
			Overcommit:  rapid.Bool().Draw(t, "overcommit"),
			PartialCopy: true, Check: true,
		}
		w := &world{t: t, kv: newKV(cfg.Cells, true), requests: map[RequestID]*liveRequest{}}
		w.core = New(cfg)
		w.core.tune.minShared = 1
		prefixes := map[string]bool{}
		var prompts [][]Token
		for id := range rapid.IntRange(1, 12).Draw(t, "requests") {
			prompt := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 30).Draw(t, "prompt")
			for n := range prompt {
				prefixes[fmt.Sprint(prompt[:n+1])] = true
			}
			prompts = append(prompts, prompt)
			w.submit(ask(RequestID(id), prompt, rapid.IntRange(1, 4).Draw(t, "n"), 3), id)
			for range rapid.IntRange(0, 3).Draw(t, "steps") {
				if w.takePlan(); len(w.plan.Rows) > 0 {
					w.commit(StepDecoded)
				}
			}
		}
		w.drain()
		again := 0
		for i, p := range prompts {
			if slices.ContainsFunc(slices.Concat(prompts[:i], prompts[i+1:]), func(q []Token) bool {
				return len(q) >= len(p) && slices.Equal(p, q[:len(p)])
			}) {
				again++
			}
		}
		if got, most := w.core.Stats().PrefillTokens, len(prefixes)+again; got > uint64(most) {
			t.Fatalf("%d prompt tokens were computed, at most %d are new", got, most)
		}
	})
}

// A request with many candidates and an endless stream of small requests share the
// context: neither waits for the end of the other.
func TestLargeRequestDoesNotStarve(t *testing.T) {
	c := New(Config{
		Cells: 200, Policy: Policy{MaxSequences: 8, BatchTokens: 16, PrefillChunk: 16}, MaxOutputs: 8, PartialCopy: true, Check: true,
	})
	const large, maxNew, limit = RequestID(1), 10, 4000
	submitted := map[RequestID]int{}
	submit := func(id RequestID, n, step int) {
		prompt := []Token{Token(id), Token(id), Token(id)}
		c.Submit(ask(id, prompt, n, maxNew))
		submitted[id] = step
	}
	submit(large, 256, 0)
	next, slowest := large, 0
	for step := range limit {
		if len(c.groups) < 12 { // more than can run
			next++
			submit(next, 1, step)
		}
		plan := c.Plan()
		for _, e := range c.Commit(StepDecoded, anything(plan)) {
			switch {
			case e.Kind != RequestFinished:
			case e.Request == large:
				t.Logf("256 candidates ended in step %d, the slowest of %d small requests took %d steps", step, next, slowest)
				if slowest > 6*maxNew {
					t.Errorf("a small request took %d steps beside the large one", slowest)
				}
				return
			default:
				slowest = max(slowest, step-submitted[e.Request])
			}
		}
	}
	t.Errorf("the large request did not end in %d steps: %+v", limit, c.Stats())
}

// Cells that a cancellation frees are used at once, even while admission is paused by a
// preemption.
func TestCancelledRequestFreesCells(t *testing.T) {
	c := New(Config{Cells: 100, Policy: Policy{MaxSequences: 4, BatchTokens: 16}, MaxOutputs: 4, PartialCopy: true, Check: true})
	step := func() []RequestID {
		p := c.Plan()
		started := slices.Clone(p.Started)
		c.Commit(StepDecoded, anything(p))
		return started
	}
	for id, maxNew := range map[RequestID]int{1: 40, 2: 40, 3: 50} {
		c.Submit(ask(id, []Token{Token(id)}, 1, maxNew))
	}
	if got := step(); len(got) != 2 {
		t.Fatalf("requests %v started, want two", got)
	}
	c.admissionPaused = true
	if got := step(); len(got) != 0 {
		t.Fatalf("requests %v started without room", got)
	}
	c.Submit(ask(4, []Token{4}, 1, 5))
	if c.Cancel(4); !c.admissionPaused {
		t.Fatal("a request that only waited made room")
	}
	c.Cancel(c.running[0].group.ID)
	if got := step(); len(got) != 1 {
		t.Fatalf("requests %v started in the room of the cancelled one, want one", got)
	}
}

// A host block may be loaded in between, and its room is asked for.
func TestNextPlanFreesCellsOfACancelledRequest(t *testing.T) {
	c := New(Config{Cells: 20, Policy: Policy{MaxSequences: 4, BatchTokens: 16}, MaxOutputs: 4, PartialCopy: true, Check: true})
	c.Submit(ask(1, make([]Token, 10), 1, 5))
	c.Commit(StepDecoded, anything(c.Plan()))
	c.Cancel(1)
	if c.makeRoom(20) {
		t.Error("there is room for all cells before the next plan")
	}
	if c.Plan(); !c.makeRoom(20) {
		t.Error("the next plan freed no cells")
	}
}

func TestSubmitPanicsForARequestThatCannotRun(t *testing.T) {
	c := New(Config{Cells: 20, Policy: Policy{MaxSequences: 8, BatchTokens: 16}, MaxOutputs: 8, PartialCopy: true, Check: true})
	c.Submit(ask(1, make([]Token, 10), 1, 10))
	for name, r := range map[string]Request{
		"its id is alive":      ask(1, []Token{1}, 1, 1),
		"its prompt is empty":  ask(2, nil, 1, 1),
		"it has no candidate":  ask(2, []Token{1}, 0, 1),
		"it may have no token": ask(2, []Token{1}, 1, 0),
		"it never fits":        ask(2, make([]Token, 10), 1, 11),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			c.Submit(r)
		}()
	}
}

// Rows of long prompts see more cells, so a step holds fewer of them.
func TestPrefillBudgetEqualsDecodeCost(t *testing.T) {
	for name, test := range map[string]struct {
		rowCells, chunk, decodes, seen, prompts int
		want                                    int // rows for prompts
	}{
		"as many as decode":                        {0, 0, 40, 0, 1, 40},
		"fewer rows where each sees more cells":    {100, 0, 40, 300, 1, 24}, // 40 * 1.01 / 2, and 4 fill a group of 8
		"a chunk of its own stands":                {100, 50, 40, 300, 1, 50},
		"each prompt adds to it":                   {0, 0, 40, 0, 3, 120},
		"rows rounded down to a group of 8":        {0, 0, 41, 0, 1, 39},
		"rows rounded up to a group of 8":          {0, 0, 39, 0, 1, 41},
		"never less than some":                     {0, 0, 1, 0, 1, MinPrefillCost},
		"the oldest gets on, however much it sees": {1, 0, 1, 2000, 1, 1},
		"all rows if nothing decodes":              {100, 0, 0, 300, 1, 512},
		"never more than the batch has left":       {0, 0, 40, 0, 30, 512 - 40},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(Config{
				Cells: 100_000, Policy: Policy{MaxSequences: 200, BatchTokens: 512, PrefillChunk: test.chunk}, MaxOutputs: 100, RowCells: test.rowCells, PartialCopy: true, Check: true,
			})
			prompt := func(first Token, n int) []Token {
				p := make([]Token, n)
				for i := range p {
					p[i] = first + Token(i)
				}
				return p
			}
			submit := func(j Request) {
				c.Submit(j)
			}
			step := func() *Plan {
				p := c.Plan()
				c.Commit(StepDecoded, anything(p))
				return p
			}
			if test.seen > 0 { // in the cache
				submit(ask(1, prompt(0, test.seen), 1, 1))
				for !c.Idle() {
					step()
				}
			}
			if test.decodes > 0 {
				submit(ask(2, prompt(500_000, 1), test.decodes, 1000))
				step()
			}
			for i := range test.prompts {
				p := prompt(Token(i)*10_000, 3000)
				if test.seen > 0 {
					p = append(prompt(0, test.seen), prompt(1_000_000, 3000)...)
				}
				submit(ask(RequestID(3+i), p, 1, 1))
			}
			if got := len(c.Plan().Rows) - test.decodes; got != test.want {
				t.Errorf("%d rows for prompts, want %d", got, test.want)
			}
		})
	}
}

// anything answers each sample with a token.
func anything(p *Plan) []Choice { return slices.Repeat([]Choice{{Tokens: []Token{0}}}, len(p.Samples)) }

// TestDecodeRowsThatShareCellsAreNeighbours in tiles of 8 rows, whose union of cells a GPU reads. In
// the order in which sequences start, the rows of a request are spread over the step.
func TestDecodeRowsThatShareCellsAreNeighbours(t *testing.T) {
	const requests, candidates, tile = 8, 4, 8
	c := New(Config{Cells: 4096, Policy: Policy{MaxSequences: 64, BatchTokens: 512, PrefillChunk: 512}, MaxOutputs: 64, PartialCopy: true, Check: true})
	c.tune.minShared = 1
	for id := range requests {
		prompt := []Token{1, 2, 3, 4}
		for i := range 26 {
			prompt = append(prompt, Token(100*(id+1)+i))
		}
		c.Submit(ask(RequestID(id), prompt, candidates, 40))
	}
	var plan *Plan
	for range 12 {
		plan = c.Plan()
		var choices []Choice
		for _, s := range plan.Samples {
			choices = append(choices, Choice{Tokens: []Token{Token(1000 + s.Candidate)}})
		}
		c.Commit(StepDecoded, choices)
	}
	if len(plan.Rows) != requests*candidates {
		t.Fatalf("%d rows in the last step, want each candidate's", len(plan.Rows))
	}
	union := func(ids []SeqID) (cells, groups int) { // of a tile
		nodes, of := map[*node]bool{}, map[*group]bool{}
		for _, id := range ids {
			of[c.seqs[id].group] = true
			for n := c.seqs[id].leaf; n.parent != nil; n = n.parent {
				if !nodes[n] {
					nodes[n] = true
					cells += len(n.tokens)
				}
			}
		}
		return cells, len(of)
	}
	var planned, started []SeqID
	for _, r := range plan.Rows {
		planned = append(planned, r.Seq)
	}
	for _, s := range c.running {
		started = append(started, s.id)
	}
	read, unordered := 0, 0
	for rows := range slices.Chunk(planned, tile) {
		cells, groups := union(rows)
		if groups != tile/candidates {
			t.Errorf("8 rows are of %d requests, want %d", groups, tile/candidates)
		}
		read += cells
	}
	for rows := range slices.Chunk(started, tile) {
		cells, _ := union(rows)
		unordered += cells
	}
	if read >= unordered {
		t.Errorf("the tiles read %d cells, and %d in the order of the start", read, unordered)
	}
	t.Logf("the tiles read %d cells, and %d in the order of the start", read, unordered)
}

// A sequence from which candidates wait to fork, and its fork without further tokens share all cells.
func TestCellsOfAPreemptedRequestCanBeEvicted(t *testing.T) {
	c := New(Config{Policy: Policy{MaxSequences: 10, BatchTokens: 1}, Cells: 16, MaxOutputs: 2, Check: true})
	step := func() []Event {
		p := c.Plan()
		if len(p.Rows) == 0 {
			return nil
		}
		return slices.Clone(c.Commit(StepDecoded, anything(p)))
	}
	low, high := ask(1, []Token{0, 1, 0}, 2, 2), ask(2, []Token{0, 0, 0, 1, 0, 0, 0, 0}, 1, 7)
	low.Priority, low.Temperature, high.Temperature = -1, 0, 0
	c.Submit(low)
	for range 3 { // the prompt, whose two candidates run
		step()
	}
	c.Submit(high)
	for range len(high.Prompt) + high.MaxTokens {
		for _, e := range step() {
			if e.Kind == RequestFinished && e.Request == 2 {
				return
			}
		}
	}
	t.Errorf("the request of the higher priority did not end: %+v", c.Stats())
}

// preferCached chose the request before, and now its other candidates wait.
func TestLowerPriorityDoesNotStartBeforeAHigherOne(t *testing.T) {
	c := New(Config{Policy: Policy{MaxSequences: 4, BatchTokens: 16}, Cells: 20, MaxOutputs: 4, PartialCopy: true, Check: true})
	high := ask(1, []Token{1, 2}, 3, 8)
	high.Priority = 1
	c.Submit(high)
	c.Commit(StepDecoded, anything(c.Plan()))
	c.choice.group, c.choice.version = c.groups[0], c.version
	c.Submit(ask(2, []Token{3}, 1, 2))
	if len(c.groups[0].waiting) == 0 || c.startOldest(c.groups[0]) {
		t.Errorf("%d candidates wait, and a request of a lower priority starts, which they would preempt", len(c.groups[0].waiting))
	}
}

func TestResumedRequestStartsWhenItHasSpace(t *testing.T) {
	c := New(Config{Cells: 8, Policy: Policy{MaxSequences: 4, BatchTokens: 8}, MaxOutputs: 4, PartialCopy: true, Check: true})
	c.Submit(ask(1, []Token{1, 2, 3}, 1, 5))
	c.Commit(StepDecoded, anything(c.Plan()))
	resumed := ask(2, []Token{4, 5, 6}, 1, 5)
	resumed.Begun = [][]Token{{7}}
	c.Submit(resumed)
	plan := c.Plan()
	if c.Started(2) || len(plan.Started) > 0 || c.Stats().Waiting != 1 {
		t.Errorf("started is %t, the plan starts %v, %d candidates wait", c.Started(2), plan.Started, c.Stats().Waiting)
	}
	c.Cancel(1)
	c.Commit(StepDecoded, anything(plan))
	if plan = c.Plan(); !c.Started(2) || !slices.Equal(plan.Started, []RequestID{2}) || c.Stats().Waiting != 0 {
		t.Errorf("started is %t, the plan starts %v, %d candidates wait", c.Started(2), plan.Started, c.Stats().Waiting)
	}
}

func TestFollowerOfAPreemptedLeaderKeepsItsPrefix(t *testing.T) {
	c := New(Config{Cells: 128, Policy: Policy{MaxSequences: 8, BatchTokens: 16}, MaxOutputs: 8, PartialCopy: true, Check: true})
	prompt := make([]Token, 64)
	for i := range prompt {
		prompt[i] = Token(i)
	}
	c.Submit(ask(1, prompt, 1, 5))
	c.Commit(StepDecoded, anything(c.Plan()))
	follower, other := ask(2, append(slices.Clone(prompt), 99), 1, 5), ask(3, slices.Repeat([]Token{100}, 80), 1, 5)
	follower.Priority, other.Priority = 1, 1
	c.Submit(follower)
	c.Submit(other)
	for range 40 {
		if plan := c.Plan(); len(plan.Rows) > 0 {
			c.Commit(StepDecoded, anything(plan))
		}
	}
	if s := c.Stats(); s.Preemptions == 0 || s.CachedTokens == 0 || !c.Idle() {
		t.Errorf("%+v", s)
	}
}

// TestOnlyRequestsThatWaitForTheSameAdapterArePassed by one that starts before them.
func TestOnlyRequestsThatWaitForTheSameAdapterArePassed(t *testing.T) {
	c := New(Config{Cells: 60, Policy: Policy{MaxSequences: 8, BatchTokens: 64}, MaxOutputs: 8, PartialCopy: true, Check: true})
	c.Submit(ask(1, []Token{1}, 1, 40))
	c.Commit(StepDecoded, anything(c.Plan()))
	waits, other, next := ask(2, []Token{2}, 1, 15), ask(3, []Token{3}, 1, 15), ask(4, []Token{4}, 1, 15)
	other.Adapter = 7
	c.Submit(waits)
	c.Submit(other)
	c.Submit(next)
	g := c.byID[4]
	if !c.startSequence(g) || !g.started {
		t.Fatal("the last request does not start")
	}
	if first, second, third := c.byID[1].passed, c.byID[2].passed, c.byID[3].passed; first != 0 || second != 1 || third != 0 {
		t.Errorf("one that runs was passed %d times, one that waits %d, one of another adapter %d; want 0, 1, 0", first, second, third)
	}
}
