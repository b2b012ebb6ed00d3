//go:build !race

package household

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestBothSplitsWordEverything: each split has a combination of every list
// of wordings, or a speaker would look for one for ever.
func TestBothSplitsWordEverything(t *testing.T) {
	count := func(what string, starts, texts []string) {
		var n [2]int
		for _, a := range starts {
			for _, b := range texts {
				n[splitOf(a+"|"+b)]++
			}
		}
		if n[Train] == 0 || n[Eval] == 0 {
			t.Errorf("%s: %d combinations for training, %d for evaluation", what, n[Train], n[Eval])
		}
	}
	for kind := askThing; kind < told; kind++ {
		count(phrases[kind][0], questionOpenings, phrases[kind])
	}
	count("told", toldOpenings, phrases[told])
	for _, texts := range [][]string{placeAnswers, thingAnswers, nobodyAnswers, whichAnswers} {
		count(texts[0], answerOpenings, texts)
	}
}

// openSlot is a slot that was not filled. A report may be JSON, with braces.
var openSlot = regexp.MustCompile(`\{[a-z]*\}|%`)

// TestNoWordingSlotStaysOpen in what anybody says.
func TestNoWordingSlotStaysOpen(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		for seed := range uint64(episodesTested) {
			for e := New(seed, o); !e.Done(); e.Apply(e.Expected(), e.memory) {
				if said := e.instruction.Content; said == "" || openSlot.MatchString(said) || strings.Contains(said, "the .") {
					t.Fatalf("seed %d: %q", seed, said)
				}
			}
		}
	})
}

// TestEveryKindOfSituationOccurs: a model can learn only what it is shown.
func TestEveryKindOfSituationOccurs(t *testing.T) {
	missing := []string{
		"Where ", "Which ", "Done: ", "Noted.", "Noted: ", "I can't: I have no tool", "I can't: there is no robot", "is locked.", "is broken.",
		"too heavy.", "is blocked.", "there is no ", "I don't know where", "holds nothing.", "I know of no robot", " holds the ",
		"failed: somebody took", "slipped. Try again", "is closed.", "You hold the ", "On the ", "In the ", "I can't: I don't know where",
	}
	for seed := range uint64(3000) {
		for e := New(seed, Options{}); !e.Done(); e.Apply(e.Expected(), e.memory) {
			missing = slices.DeleteFunc(missing, func(s string) bool {
				return strings.Contains(e.Expected().Say, s) || strings.Contains(e.instruction.Content, s)
			})
		}
	}
	if len(missing) > 0 {
		t.Errorf("never said: %q", missing)
	}
}

// TestInventedWordsBelongToTheirSplit, and none looks like a plural but some things without an adjective.
func TestInventedWordsBelongToTheirSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	many := 0
	for range 200 {
		for _, s := range []Split{Train, Eval} {
			if w := invent(r, s); splitOf(w) != s || is(w) != "is" {
				t.Errorf("%q is of split %d and takes %q", w, splitOf(w), is(w))
			}
			w := inventBare(r, s)
			if splitOf(w) != s {
				t.Errorf("%q is of split %d, not %d", w, splitOf(w), s)
			}
			if is(w) == "are" {
				many++
			}
		}
	}
	if many < 40 || many > 200 {
		t.Errorf("%d of 400 things are plurals", many)
	}
}

// TestBusyGroupUsesMoreRobots counts the decisions that are calls of several robots.
func TestBusyGroupUsesMoreRobots(t *testing.T) {
	count := func(o Options) (several, all int) {
		for seed := range uint64(60) {
			g := NewGroup(seed, o)
			if o.Busy && len(g.plan.robots) < busyRobots {
				t.Fatalf("a busy house has %d robots", len(g.plan.robots))
			}
			for i := range 4 {
				for e := g.Episode(i); !e.Done(); e.Apply(e.Expected(), e.memory) {
					all++
					if e.Kind() == SeveralCalls {
						several++
					}
				}
			}
		}
		return several, all
	}
	usual, of := count(Options{})
	more, ofMore := count(Options{Busy: true})
	if more*of < 2*usual*ofMore {
		t.Errorf("%d of %d decisions in busy houses, %d of %d in others", more, ofMore, usual, of)
	}
}
