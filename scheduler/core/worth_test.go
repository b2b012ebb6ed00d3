package core

import "testing"

// A load is what a server is asked, one prompt after the other.
func TestTheCacheIsAsLargeAsItIsWorth(t *testing.T) {
	const cells, small, filled = 8192, 8192 / smallShare, 4 * 8192
	prompt := func(parts ...[]Token) (p []Token) {
		for _, part := range parts {
			p = append(p, part...)
		}
		return p
	}
	// of returns n tokens that nobody else has.
	of := func(who, n int) []Token {
		p := make([]Token, n)
		for i := range p {
			p[i] = Token(who*cells + i)
		}
		return p
	}
	for name, tc := range map[string]struct {
		prompt func(i int) []Token
		maxNew int
		want   int
	}{
		"small, where nothing comes back":                              {func(i int) []Token { return of(i, 100) }, 2, small},
		"small, where all begin alike":                                 {func(i int) []Token { return prompt(of(0, 60), of(i+1, 60)) }, 2, small},
		"small, where each comes twice":                                {func(i int) []Token { return of(i/2, 60) }, 2, small},
		"small, where it is too small for what comes back":             {func(i int) []Token { return of(i%240, 100) }, 2, small},
		"all of it, where agents go on":                                {func(i int) []Token { return prompt(of(0, 60), of(1+i%5, 60+i), of(i+6, 10)) }, 2, cells},
		"all of it, where one long prompt goes on":                     {func(i int) []Token { return prompt(of(0, 400), of(i+1, 10)) }, 2, cells},
		"all of it, where one in ten comes back":                       {func(i int) []Token { return of(i-i%10*(i%10/9)/2, 100) }, 2, cells},
		"all of it, where long answers lie between two that are alike": {func(i int) []Token { return of(i/2, 60) }, 200, cells},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Config{
				Cells: cells, MaxSequences: 32, MaxOutputs: 8, BatchTokens: 64, MinWait: 1, PartialCopy: true, PrefixBlock: 4, Check: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, rows := 0, 0; rows < filled; i++ {
				if err := c.Submit(Job{ID: 1, Prompt: tc.prompt(i), N: 1, MaxNew: tc.maxNew}); err != nil {
					t.Fatal(err)
				}
				for !c.Idle() {
					plan := c.Plan()
					if rows += len(plan.Rows); len(plan.Rows) > 0 {
						c.Commit(Decoded, anything(plan))
					}
				}
				if s := c.Stats(); rows < 2*cells-400 && s.MostCached != cells {
					t.Fatalf("at most %d cells are kept after %d rows", s.MostCached, rows)
				}
			}
			for range 2 { // a step's worth goes at a time
				c.Plan()
			}
			if s := c.Stats(); s.MostCached != tc.want || s.Used > tc.want {
				t.Errorf("%d cells are kept, at most %d, want %d", s.Used, s.MostCached, tc.want)
			}
		})
	}
}

// Agents whose histories fit into the cache come back one after the other to one that is
// kept small: the second time all of them are found, though what one of them has lost pays for
// less than a round of all.
func TestASmallCacheGrowsForMany(t *testing.T) {
	const cells, agents, history = 8192, 60, 100
	c, err := New(Config{
		Cells: cells, MaxSequences: 80, MaxOutputs: 8, BatchTokens: 64, MinWait: 1, PartialCopy: true, PrefixBlock: 32, Check: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(who, length, maxNew int) {
		p := make([]Token, length)
		for i := range p {
			p[i] = Token(who*cells + i)
		}
		if err := c.Submit(Job{ID: 1, Prompt: p, N: 1, MaxNew: maxNew}); err != nil {
			t.Fatal(err)
		}
		for !c.Idle() {
			if plan := c.Plan(); len(plan.Rows) > 0 {
				c.Commit(Decoded, anything(plan))
			}
		}
	}
	for i := 0; i < 100 && c.Stats().MostCached == cells; i++ {
		ask(1000+i, 500, 1)
	}
	round := func() (found uint64) {
		before := c.Stats().CachedTokens
		for who := range agents {
			ask(who, history, 20)
		}
		return c.Stats().CachedTokens - before
	}
	round() // nobody knows them
	round() // they were lost
	if found := round(); found != agents*(history-1) {
		t.Errorf("of %d tokens of %d agents that came back %d were found", agents*(history-1), agents, found)
	}
}

// Prompts that wait when a cache is given up keep what they begin with.
func TestWhatWaitingPromptsBeginWithIsKept(t *testing.T) {
	const cells = 8192
	c, err := New(Config{
		Cells: cells, MaxSequences: 40, MaxOutputs: 1, BatchTokens: 64, MinWait: 1, PartialCopy: true, PrefixBlock: 32, Check: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	next := JobID(0)
	submit := func(who, length int) {
		next++
		p := make([]Token, length)
		for i := range p {
			p[i] = Token(who*cells + i)
		}
		if err := c.Submit(Job{ID: next, Prompt: p, N: 1, MaxNew: 1}); err != nil {
			t.Fatal(err)
		}
	}
	step := func() {
		if plan := c.Plan(); len(plan.Rows) > 0 {
			c.Commit(Decoded, anything(plan))
		}
	}
	last := 0
	for ; last < 100 && c.worth.credit > 1000; last++ { // nearly used up
		submit(last, 500)
		for !c.Idle() {
			step()
		}
	}
	submit(5000, 2000)   // it uses the rest up, while
	submit(last-10, 500) // this one waits
	before := c.Stats().CachedTokens
	for !c.Idle() {
		step()
	}
	if found := c.Stats().CachedTokens - before; found != 499 {
		t.Errorf("%d tokens of a prompt that waited were found, want 499", found)
	}
}
