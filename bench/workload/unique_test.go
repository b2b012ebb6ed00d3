package workload

import (
	"testing"

	"pgregory.net/rapid"
)

// prefixes counts the different prefixes of the turns that the warm-up does not have.
func prefixes(turns, warmup []Turn) int {
	known, found := map[string]bool{}, map[string]bool{}
	add := func(turns []Turn, to map[string]bool) {
		for i := range turns {
			text := ""
			for _, id := range turns[i].Tokens {
				text += string('a' + id)
				to[text] = true
			}
		}
	}
	add(warmup, known)
	add(turns, found)
	for text := range known {
		delete(found, text)
	}
	return len(found)
}

func TestUniqueTokensEqualASlowCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) (turns []Turn, c Counts) {
			for i, tokens := range rapid.SliceOfN(rapid.SliceOfN(rapid.Int32Range(0, 2), 1, 6), 0, 12).Draw(t, label) {
				turns = append(turns, Turn{Agent: i, Candidates: 1 + i%3, Tokens: tokens})
				c.Candidates += 1 + i%3
				c.PromptTokens += len(tokens)
			}
			c.Turns = len(turns)
			return turns, c
		}
		turns, want := draw("turns")
		warmup, _ := draw("warm-up")
		want.UniqueTokens = prefixes(turns, warmup)
		if got := Count(turns, warmup); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestCountLeavesOutPrefixesOfTheWarmUp(t *testing.T) {
	turns := []Turn{
		{Candidates: 4, Tokens: []int32{1, 2, 3}},
		{Candidates: 4, Tokens: []int32{1, 2, 4, 5}},          // two new ones
		{Candidates: 4, Tokens: []int32{1, 2, 3, 6, 7}},       // two
		{Candidates: 4, Tokens: []int32{1, 2, 4, 5}},          // none
		{Candidates: 4, Tokens: []int32{2, 3, 6, 7, 8, 9, 1}}, // all of them
	}
	if got := Count(turns, nil); got != (Counts{Turns: 5, Candidates: 20, PromptTokens: 23, UniqueTokens: 14}) {
		t.Errorf("%+v", got)
	}
	if got := Count(turns[2:], turns[:2]); got != (Counts{Turns: 3, Candidates: 12, PromptTokens: 16, UniqueTokens: 9}) {
		t.Errorf("after a warm-up of the first turns: %+v", got)
	}
}
