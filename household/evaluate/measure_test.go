package evaluate

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/household"
	"agentd/household/dataset"
	"agentd/household/dataset/playbacktest"
	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// episodes of the measurements below.
const episodes = 20

// options of both kinds of tool names.
func options() []Options {
	var list []Options
	for _, names := range []string{Known, Unseen} {
		list = append(list, Options{Episodes: episodes, Seed: 7, ToolNames: names, Tasks: true, Clients: 4})
	}
	return list
}

// taught is a model that decides as the planner does.
func taught(t *testing.T, o Options) *playbacktest.Playback {
	t.Helper()
	m, err := playbacktest.New()
	if err != nil {
		t.Fatal(err)
	}
	for i := range o.Episodes {
		if err := m.Teach(t.Context(), o.Episode(i), playbacktest.PlannerAnswer); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// planned is the measurement of the planner's own decisions.
func planned(o Options) Result {
	want := Result{Episodes: o.Episodes, Errors: map[string]int{}}
	for i := range o.Episodes {
		e := o.Episode(i)
		for !e.Done() {
			want.Kinds[e.Kind()].add(true)
			want.Right.add(true)
			want.Calls.add(true)
			want.Valid.add(true)
			e.Apply(e.Expected(), protocol.Raw("{}"))
		}
		want.Tasks.Of += e.Score().Tasks
		want.Tasks.Count += e.Score().Tasks
	}
	return want
}

// measured is the result for a server that fails at nothing.
func measured(t *testing.T, s household.Server, o Options) Result {
	t.Helper()
	got, err := Measure(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestMeasuredHousesAreNotInTheDataSet: the training measured itself on those.
func TestMeasuredHousesAreNotInTheDataSet(t *testing.T) {
	const seeds, houses = 10, 200
	taken := map[uint64]bool{}
	for seed := range uint64(seeds) {
		for n := range houses {
			taken[dataset.GroupSeed(seed, n)] = true
		}
	}
	for seed := range uint64(seeds) {
		o := Options{Seed: seed}
		for n := range houses {
			if taken[o.house(n*perHouse)] {
				t.Errorf("seed %d: house %d is one of a data set", seed, n)
			}
		}
	}
	o := Options{Seed: 1, ToolNames: Known}
	for n := range 4 {
		theirs := household.NewGroup(dataset.GroupSeed(1, n), household.Options{Split: household.Eval}).Episode(0).Input()
		if cmp.Equal(theirs.Tools, o.Episode(n*perHouse).Input().Tools) {
			t.Errorf("house %d has the tools of the held-out file's", n)
		}
	}
}

func TestPlannerIsAlwaysRight(t *testing.T) {
	for _, o := range options() {
		var seen []int
		o.Progress = func(n int) { seen = append(seen, n) }
		want := planned(o)
		if diff := cmp.Diff(want, measured(t, taught(t, o), o)); diff != "" {
			t.Errorf("%s tool names: %s", o.ToolNames, diff)
		}
		if len(seen) != episodes || seen[episodes-1] != episodes {
			t.Errorf("progress was %v", seen)
		}
		o.Tasks, o.Progress, want.Tasks = false, nil, Share{}
		if diff := cmp.Diff(want, measured(t, taught(t, o), o)); diff != "" {
			t.Errorf("%s tool names, steps only: %s", o.ToolNames, diff)
		}
	}
}

// TestEndedTaskIsNotRepaired: the model answers the second decision of every
// conversation with a reply that is wrong, or with nothing that can be read. The
// task of that decision is lost, and no other; the steps after it are measured on
// the planner's path all the same.
func TestEndedTaskIsNotRepaired(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		errors map[string]int
	}{
		"a wrong reply":      {"What?", map[string]int{}},
		"an unreadable call": {"<tool_call>\n{\"name\"", map[string]int{"invalid_output": episodes}},
	} {
		for _, o := range options() {
			m, want := taught(t, o), planned(o)
			for i := range o.Episodes {
				step := 0
				err := m.Teach(t.Context(), o.Episode(i), func(e *household.Episode) (string, error) {
					if step++; step != 2 {
						return playbacktest.PlannerAnswer(e)
					}
					want.Kinds[e.Kind()].Count--
					if len(e.Expected().ToolCalls) > 0 || len(test.errors) > 0 {
						want.Calls.Count--
					}
					return test.answer, nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			want.Right.Count -= episodes
			want.Tasks.Count -= episodes
			want.Errors = test.errors
			want.Valid.Count -= test.errors["invalid_output"]
			if diff := cmp.Diff(want, measured(t, m, o)); diff != "" {
				t.Errorf("%s, %s tool names: %s", name, o.ToolNames, diff)
			}
		}
	}
}

// TestDetourMayTakeTwiceThePlannedSteps: after a wrong call the model
// finds its way back, or makes so many of them that it takes too long.
func TestDetourMayTakeTwiceThePlannedSteps(t *testing.T) {
	forgiven, late := 0, 0
	for _, blunders := range []int{1, 12} {
		for _, o := range options() {
			m, want := taught(t, o), planned(o)
			for i := range o.Episodes {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				var strayed *household.Episode // where the first blunder was made
				planner, steps, left := 0, 0, blunders
				err := m.Teach(t.Context(), o.Episode(i), func(e *household.Episode) (string, error) {
					if strayed == nil && e.Steps() == 0 {
						planner, _ = e.Planned()
						steps = 0
					}
					d := e.Expected()
					if other, ok := e.Blunder(r); ok && left > 0 && (strayed == nil || e.Score().Tasks == strayed.Score().Tasks) {
						if left--; strayed == nil {
							strayed = e.Fork()
							want.Kinds[e.Kind()].Count--
						}
						d = other
					}
					if strayed == nil || e.Score().Tasks == strayed.Score().Tasks {
						steps++
					}
					return dataset.Notation(d)
				})
				switch {
				case err != nil:
					t.Fatal(err)
				case strayed == nil:
				case steps > household.Patience*planner:
					late++
					want.Tasks.Count--
					want.Right.Count--
					want.Calls.Count--
				default:
					forgiven++
					want.Right.Count--
					want.Calls.Count--
				}
			}
			if diff := cmp.Diff(want, measured(t, m, o)); diff != "" {
				t.Errorf("%d blunders, %s tool names: %s", blunders, o.ToolNames, diff)
			}
		}
	}
	if forgiven == 0 || late == 0 {
		t.Errorf("%d forgiven, %d late: the rule was not tried", forgiven, late)
	}
}

// TestSelfInflictedRefusalFinishesNothing: the wrong robot takes what
// the right one should carry. Then it is right to say that it can't be done, and the
// task is lost all the same.
func TestSelfInflictedRefusalFinishesNothing(t *testing.T) {
	tried := 0
	for _, o := range options() {
		m, want := taught(t, o), planned(o)
		for i := range o.Episodes {
			strayed := false
			err := m.Teach(t.Context(), o.Episode(i), func(e *household.Episode) (string, error) {
				d := e.Expected()
				if other, ok := byAnotherRobot(e); ok && !strayed {
					strayed = true
					tried++
					want.Kinds[e.Kind()].Count--
					want.Right.Count--
					want.Calls.Count--
					want.Tasks.Count--
					d = other
				}
				return dataset.Notation(d)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, measured(t, m, o)); diff != "" {
			t.Errorf("%s tool names: %s", o.ToolNames, diff)
		}
	}
	if tried == 0 {
		t.Error("the rule was not tried")
	}
}

// byAnotherRobot is the right call by a wrong robot, where only that makes the
// planner refuse.
func byAnotherRobot(e *household.Episode) (d protocol.AgentDecision, ok bool) {
	if _, last := e.Planned(); last == household.Refusal {
		return d, false
	}
	for _, robot := range e.Robots() {
		d = e.Expected()
		if len(d.ToolCalls) != 1 || d.ToolCalls[0].TargetRobotName == robot {
			continue
		}
		d.ToolCalls[0].TargetRobotName = robot
		f := e.Fork()
		f.Apply(d, protocol.Raw("{}"))
		if _, last := f.Planned(); last == household.Refusal {
			return d, true
		}
	}
	return d, false
}

// failing answers so many requests and then fails or stops.
type failing struct {
	household.Server
	left atomic.Int64
	fail func() error
}

func (f *failing) Responses(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	if f.left.Add(-1) < 0 {
		return nil, f.fail()
	}
	return f.Server.Responses(ctx, req)
}

// TestResultsBeforeAnErrorAreKept, and no request follows it.
func TestResultsBeforeAnErrorAreKept(t *testing.T) {
	o := options()[0]
	o.Clients = 1
	m := taught(t, o)
	broken := errors.New("broken")
	for _, want := range []error{broken, context.Canceled} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := &failing{Server: m, fail: func() error {
			if errors.Is(want, context.Canceled) {
				cancel()
			}
			return want
		}}
		f.left.Store(20)
		got, err := Measure(ctx, f, o)
		if !errors.Is(err, want) || got.Right != (Share{20, 20}) || got.Episodes == 0 || f.left.Load() != -1 {
			t.Errorf("got %+v, %v with %d requests left", got, err, f.left.Load())
		}
	}
}
