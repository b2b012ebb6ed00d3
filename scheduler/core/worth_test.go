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
					if s := c.Stats(); s.Used-s.Active > s.MostParked {
						t.Fatalf("%d cells are parked, at most %d are to be", s.Used-s.Active, s.MostParked)
					}
					if rows += len(plan.Rows); len(plan.Rows) > 0 {
						c.Commit(Decoded, anything(plan))
					}
				}
				if s := c.Stats(); rows < 2*cells-400 && s.MostParked != cells {
					t.Fatalf("at most %d cells are parked after %d rows", s.MostParked, rows)
				}
			}
			if got := c.Stats().MostParked; got != tc.want {
				t.Errorf("at most %d cells are kept parked, want %d; %+v", got, tc.want, c.Stats())
			}
		})
	}
}
