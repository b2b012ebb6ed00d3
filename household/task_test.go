//go:build !race

package household

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/protocol"
)

// play takes the planner's decisions until the episode is over or stop says so.
func play(e *Episode, stop func() bool) {
	for !e.Done() && !stop() {
		e.Apply(e.Expected(), e.memory)
	}
}

// TestForkContinuesLikeItsEpisode, whatever was decided before, and leaves it as
// it was.
func TestForkContinuesLikeItsEpisode(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		for seed := range uint64(40) {
			e := NewGroup(seed, o).Episode(2)
			for step := 0; !e.Done(); step++ {
				in := e.Input()
				before := string(in.AppendJSON(nil))
				stray := e.Fork()
				stray.Apply(protocol.AgentDecision{Say: "What?"}, protocol.Raw(`{"stray":1}`))
				if in := e.Input(); string(in.AppendJSON(nil)) != before {
					t.Fatalf("seed %d: the fork changed its episode", seed)
				}
				d := e.Expected()
				if step%3 == 1 && len(d.ToolCalls) > 0 { // a wrong one, as a model may decide
					d.ToolCalls = d.ToolCalls[:1]
					d.ToolCalls[0].Name = "nothing"
				}
				f := e.Fork()
				memory := protocol.Raw(`{"step":` + string(rune('0'+step%10)) + `}`)
				e.Apply(d, memory)
				f.Apply(d, memory)
				a, b := e.Input(), f.Input()
				if diff := cmp.Diff(string(a.AppendJSON(nil)), string(b.AppendJSON(nil))); diff != "" {
					t.Fatalf("seed %d: %s", seed, diff)
				}
				if e.Done() != f.Done() || !Same(e.Expected(), f.Expected()) || e.Score() != f.Score() {
					t.Fatalf("seed %d: the fork expects %v, its episode %v", seed, f.Expected(), e.Expected())
				}
			}
		}
	})
}

// TestPlannedStepsMatchThePlanner to the end of each task.
func TestPlannedStepsMatchThePlanner(t *testing.T) {
	for seed := range uint64(episodesTested) {
		e := New(seed, Options{Split: Eval})
		for !e.Done() {
			want, last := e.Planned()
			score, kind := e.Score(), e.Kind()
			play(e, func() bool {
				if e.Score().Tasks > score.Tasks {
					return true
				}
				kind = e.Kind()
				return false
			})
			if got := e.Score().Decisions - score.Decisions; got != want || want == 0 || kind != last {
				t.Fatalf("seed %d: the planner took %d steps to a %s, not %d to a %s", seed, got, kind, want, last)
			}
		}
	}
}

// TestKindsHaveTheirNames, and all of them occur.
func TestKindsHaveTheirNames(t *testing.T) {
	seen := map[Kind]int{}
	for seed := range uint64(episodesTested) {
		e := New(seed, Options{Split: Eval})
		first := true
		play(e, func() bool {
			kind, d, content := e.Kind(), e.Expected(), e.Input().Instruction.Content
			seen[kind]++
			failure := e.failed
			var fits bool
			switch kind {
			case FirstCall:
				fits = len(d.ToolCalls) == 1 && first && !failure
			case NextCall:
				fits = len(d.ToolCalls) == 1 && !first && !failure
			case CallAfterFailure:
				fits = len(d.ToolCalls) == 1 && failure
			case SeveralCalls:
				fits = len(d.ToolCalls) > 1
			case Question:
				fits = strings.HasSuffix(d.Say, "?")
			case Refusal:
				fits = strings.Contains(d.Say, "I can't: ")
			case Confirmation:
				fits = strings.Contains(d.Say, "Done: ") || strings.HasPrefix(d.Say, "Noted")
			case Answer:
				fits = d.Say != "" && !strings.Contains(d.Say, "Done: ") && !strings.Contains(d.Say, "I can't: ")
			}
			if !fits {
				t.Fatalf("seed %d: %q answered by %v is called %s", seed, content, d, kind)
			}
			first = d.Say != "" && kind != Question
			return false
		})
	}
	for k := range Kind(Kinds) {
		if seen[k] == 0 {
			t.Errorf("no %s in %d episodes", k, episodesTested)
		}
	}
}

// TestUndoneWorkIsNotDone: when the agent goes on after the goal is
// reached, only what is so in the end is a right reply.
func TestUndoneWorkIsNotDone(t *testing.T) {
	tried := 0
	for seed := range uint64(episodesTested) {
		e := New(seed, Options{Split: Eval})
		play(e, func() bool {
			done := e.Expected()
			if len(e.goals) != 1 || e.goals[0].kind != wantGo || !strings.HasPrefix(done.Say, "Done: ") {
				return false
			}
			g, away := e.goals[0], ""
			for _, room := range e.house.rooms {
				if room != g.target && !e.house.blocked[room] && !e.house.blocked[g.target] {
					away = room
				}
			}
			if away == "" {
				return false
			}
			tried++
			leave := protocol.AgentDecision{ToolCalls: []protocol.ToolCall{e.group.tools.call(action{op: opGo, robot: g.robot, target: away})}}
			liar := e.Fork()
			finished := liar.Score().Finished
			liar.Apply(leave, liar.memory)
			honest := liar.Fork()
			liar.Apply(done, liar.memory)
			if liar.Score().Finished != finished {
				t.Errorf("seed %d: %q counts though %s has left for the %s", seed, done.Say, g.robot, away)
			}
			if steps, _ := honest.Planned(); steps != 2 {
				t.Errorf("seed %d: the way back and the reply are %d steps", seed, steps)
			}
			return false
		})
	}
	if tried == 0 {
		t.Error("no episode was fit for it")
	}
}

// TestImpossibleCallDoesNotEndTheTask: going to what is not a room, and opening
// what can't be opened, fail without a word on what somebody wants.
func TestImpossibleCallDoesNotEndTheTask(t *testing.T) {
	for seed := range uint64(20) {
		e := New(seed, Options{Split: Eval})
		robot := e.group.plan.robots[0]
		actions := []action{{op: opGo, target: robot}}
		for _, thing := range e.group.plan.things {
			actions = append(actions, action{op: opGo, target: thing})
		}
		for _, d := range e.house.devices {
			actions = append(actions, action{op: opGo, target: d.name})
		}
		for _, p := range e.house.places {
			actions = append(actions, action{op: opGo, target: p.name})
			if !p.container {
				e.house.robot(robot).room = p.room
				actions = append(actions, action{op: opOpen, target: p.name})
			}
		}
		for _, a := range actions {
			a.robot = robot
			n := e.house.do(a)
			e.known.learn(n)
			if !strings.Contains(n.text, failed) || len(e.known.cause) > 0 {
				t.Errorf("seed %d: %q: it is thought that %v", seed, n.text, e.known.cause)
			}
		}
	}
}
