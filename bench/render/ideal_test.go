package render

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentd/bench/workload"
)

// beginnings counts the different beginnings of prompts one by one, leaving out
// those of the known ones.
func beginnings(trace *workload.Trace, measured func(*workload.Turn) bool) int {
	known, found := map[string]bool{}, map[string]bool{}
	for i := range trace.Turns {
		t := &trace.Turns[i]
		for n := range t.Tokens {
			text := ""
			for _, id := range t.Tokens[:n+1] {
				text += string('a' + id)
			}
			if measured(t) {
				found[text] = true
			} else {
				known[text] = true
			}
		}
	}
	n := 0
	for text := range found {
		if !known[text] {
			n++
		}
	}
	return n
}

// TestTheIdealIsACountOfDifferentBeginnings, as a slow count finds it.
func TestTheIdealIsACountOfDifferentBeginnings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := new(workload.Trace)
		want := Counts{}
		for i, tokens := range rapid.SliceOfN(rapid.SliceOfN(rapid.Int32Range(0, 2), 1, 6), 0, 12).Draw(t, "prompts") {
			turn := workload.Turn{Agent: i, Turn: rapid.IntRange(0, 1).Draw(t, "turn"), Candidates: 1 + i%3, Tokens: tokens}
			trace.Turns = append(trace.Turns, turn)
		}
		warm := func(turn *workload.Turn) bool { return turn.Turn > 0 }
		for i := range trace.Turns {
			if turn := &trace.Turns[i]; warm(turn) {
				want.Turns++
				want.Candidates += turn.Candidates
				want.PromptTokens += len(turn.Tokens)
			}
		}
		want.UniqueTokens = beginnings(trace, warm)
		if got, err := Ideal(trace, warm); err != nil || got != want {
			t.Fatalf("got %+v, %v, not %+v", got, err, want)
		}
		all := func(*workload.Turn) bool { return true }
		if got, err := Ideal(trace, nil); err != nil || got.UniqueTokens != beginnings(trace, all) || got.Turns != len(trace.Turns) {
			t.Fatalf("got %+v, %v of all", got, err)
		}
	})
}

func TestAnExampleOfTheIdeal(t *testing.T) {
	trace := &workload.Trace{Turns: []workload.Turn{
		{Agent: 0, Turn: 0, Candidates: 4, Tokens: []int32{1, 2, 3}},
		{Agent: 1, Turn: 0, Candidates: 4, Tokens: []int32{1, 2, 4, 5}},          // two new ones
		{Agent: 0, Turn: 1, Candidates: 4, Tokens: []int32{1, 2, 3, 6, 7}},       // two
		{Agent: 1, Turn: 1, Candidates: 4, Tokens: []int32{1, 2, 4, 5}},          // none
		{Agent: 0, Turn: 2, Candidates: 4, Tokens: []int32{2, 3, 6, 7, 8, 9, 1}}, // all of them
	}}
	if got, err := Ideal(trace, nil); err != nil || got != (Counts{Turns: 5, Candidates: 20, PromptTokens: 23, UniqueTokens: 14}) {
		t.Errorf("%+v, %v", got, err)
	}
	later := func(turn *workload.Turn) bool { return turn.Turn > 0 }
	if got, err := Ideal(trace, later); err != nil || got != (Counts{Turns: 3, Candidates: 12, PromptTokens: 16, UniqueTokens: 9}) {
		t.Errorf("after a warm-up of the first turns: %+v, %v", got, err)
	}
}

func TestATraceWithoutTokensHasNoIdeal(t *testing.T) {
	trace := &workload.Trace{Turns: []workload.Turn{{Agent: 3, Turn: 2}}}
	if _, err := Ideal(trace, nil); err == nil || !strings.Contains(err.Error(), "turn 2 of agent 3 has no tokens: render the trace first") {
		t.Errorf("got %v", err)
	}
}
