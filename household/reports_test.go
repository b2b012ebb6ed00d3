//go:build !race

package household

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// reports are the texts of the environment after calls in some episodes, with whether one failed.
func reports(o Options, each func(e *Episode, text string)) {
	for seed := range uint64(episodesTested) {
		e := New(seed, o)
		play(e, func() bool {
			if e.steps > 0 && e.instruction.Type == "env" {
				each(e, e.instruction.Content)
			}
			return false
		})
	}
}

// TestFormsAreManyAndAQuarterIsHeldOut: the last one of each kind, and no two are alike.
func TestFormsAreManyAndAQuarterIsHeldOut(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range forms {
		seen[f.done+f.failed] = true
	}
	if len(seen) != len(forms) || len(forms) < 40 || len(forms)%kindOfForms != 0 {
		t.Errorf("%d forms, %d different", len(forms), len(seen))
	}
}

// TestHeldOutFormsAreOnlyInEvaluation: training draws every other form, and no held-out one.
func TestHeldOutFormsAreOnlyInEvaluation(t *testing.T) {
	for _, held := range []Reports{TrainedReports, HeldOutReports} {
		drawn := map[int]bool{}
		p := newReporter(rand.New(rand.NewPCG(1, 2)), Options{Reports: held})
		for range 5000 {
			drawn[p.draw()] = true
		}
		for i := range forms {
			if last := i%kindOfForms == kindOfForms-1; drawn[i] != (last == (held == HeldOutReports)) {
				t.Errorf("reports %d: form %d drawn: %v", held, i, drawn[i])
			}
		}
	}
}

// TestReportsInJSONAreJSON, with all their details.
func TestReportsInJSONAreJSON(t *testing.T) {
	found := 0
	for _, held := range []Reports{TrainedReports, HeldOutReports} {
		reports(Options{Split: Eval, Reports: held}, func(_ *Episode, text string) {
			if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[{") || strings.Contains(text, "\n") {
				return
			}
			if found++; !json.Valid([]byte(text)) {
				t.Errorf("no JSON: %s", text)
			}
		})
	}
	if found == 0 {
		t.Error("no report is JSON")
	}
}

// TestSparseReportTeachesOnlyWhatItSays: after a move without details the agent knows the room and
// nothing about what is in it.
func TestSparseReportTeachesOnlyWhatItSays(t *testing.T) {
	for form := range forms {
		h := newHouse(New(3, Options{}).group.plan, rand.New(rand.NewPCG(3, 3)))
		h.blocked = map[string]bool{}
		p := &reporter{form: form, sparse: true}
		k := newKnowledge([]string{h.robots[0].name})
		a := action{op: opGo, robot: h.robots[0].name, target: h.rooms[0]}
		n := h.do(a)
		p.reword(n, k, a, "go", false)
		k.learn(n)
		if k.room[a.robot] != a.target || len(k.roomOf) > 0 || len(k.place) > 0 || strings.Contains(n.text, h.places[0].name) {
			t.Errorf("form %d: %q taught %v", form, n.text, k)
		}
	}
}

// TestDetailsAreInEveryForm: a report with details lists every place of the room.
func TestDetailsAreInEveryForm(t *testing.T) {
	for form := range forms {
		h := newHouse(New(3, Options{}).group.plan, rand.New(rand.NewPCG(3, 3)))
		a := action{op: opLook, robot: h.robots[0].name}
		n := h.do(a)
		(&reporter{form: form}).reword(n, newKnowledge(nil), a, "look", false)
		if !strings.Contains(n.text, h.robots[0].room) {
			t.Errorf("form %d: %q does not name the room", form, n.text)
		}
		for _, p := range h.places {
			if p.room == h.robots[0].room && !strings.Contains(n.text, p.name) {
				t.Errorf("form %d: %q lacks the %s", form, n.text, p.name)
			}
		}
	}
}

// TestFailureIsToldInEveryForm, in words from which the reply to the person can be made.
func TestFailureIsToldInEveryForm(t *testing.T) {
	for form := range forms {
		h := newHouse(New(3, Options{}).group.plan, rand.New(rand.NewPCG(3, 3)))
		a := action{op: opGo, robot: h.robots[0].name, target: "moon"}
		n := h.do(a)
		(&reporter{form: form}).reword(n, newKnowledge(nil), a, "go", false)
		if !strings.Contains(n.text, "there is no moon") {
			t.Errorf("form %d: %q", form, n.text)
		}
	}
	if got := brief("the old keys are too heavy"); got != "old keys too heavy" {
		t.Error(got)
	}
}
