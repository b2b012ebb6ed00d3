package scheduler

import (
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"agentd/llama"
)

// Prompts that nobody sends again leave little behind, until one comes back.
func TestACacheInWhichNothingIsFoundIsKeptSmall(t *testing.T) {
	const cells, length = 1024, 120
	var log strings.Builder
	e := newTestEngine(t, setup{cells: cells, log: zerolog.New(&log)})
	prompt := func(i int) []llama.Token {
		p := make([]llama.Token, length)
		for k := range p {
			p[k] = llama.Token(20 + (i*(k+7)+k)%200)
		}
		return p
	}
	first := mustGenerate(t, e, greedy(prompt(1), 1, 8))
	sent := 1
	for ; sent < 40 && e.Stats().MostCached == cells; sent++ {
		mustGenerate(t, e, greedy(prompt(sent+1), 1, 8))
	}
	for range 4 { // a step's worth of what was cached goes at a time
		mustGenerate(t, e, greedy(prompt(sent+1), 1, 8))
		sent++
	}
	s := e.Stats()
	if s.MostCached != cells/64 || s.UsedCells > cells/64+length+8 {
		t.Fatalf("after %d prompts, of which none came back, %d cells are used and at most %d kept, want %d", sent, s.UsedCells, s.MostCached, cells/64)
	}
	if computed := s.PrefillTokens; computed < 2*cells*8/10 {
		t.Errorf("the cache was given up after %d tokens", computed)
	}
	back := mustGenerate(t, e, greedy(prompt(sent-2), 1, 8))
	if s = e.Stats(); s.MostCached != cells {
		t.Errorf("a prompt came back, and at most %d cells are kept, want %d", s.MostCached, cells)
	}
	if again := mustGenerate(t, e, greedy(prompt(sent-2), 1, 8)); again.CachedTokens != length-1 {
		t.Errorf("%d tokens of a prompt of %d that was there before are cached", again.CachedTokens, length)
	} else if !slices.Equal(again.Completions[0].Tokens, back.Completions[0].Tokens) {
		t.Errorf("it is answered with %v, and was with %v", again.Completions[0].Tokens, back.Completions[0].Tokens)
	}
	if again := mustGenerate(t, e, greedy(prompt(1), 1, 8)); !slices.Equal(again.Completions[0].Tokens, first.Completions[0].Tokens) {
		t.Errorf("the first prompt is answered with %v, and was with %v", again.Completions[0].Tokens, first.Completions[0].Tokens)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`"cells":16,"message":"next to nothing is found`, `"cells":1024,"message":"prompts come back`} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("the log has %q %d times, want it once:\n%s", line, strings.Count(log.String(), line), log.String())
		}
	}
}
