//go:build !race

package household

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"agentd/agent/tools"
	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// everyKind runs a test for both splits and both kinds of tool names.
func everyKind(t *testing.T, test func(t *testing.T, o Options)) {
	for name, o := range map[string]Options{
		"training":                  {Split: Train},
		"evaluation":                {Split: Eval},
		"evaluation, unseen tools":  {Split: Eval, ToolNames: Unseen},
		"training with unseen ones": {ToolNames: Unseen},
		"plain":                     {Plain: true},
		"evaluation, plain":         {Split: Eval, Plain: true},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, o)
		})
	}
}

// episodesTested is how many episodes of each kind the rules are held against.
const episodesTested = 300

// TestPlannerFinishesEveryTask: its decisions are calls that the tools' schemas
// admit, at most one for each robot, and it gets to the end of every conversation.
func TestPlannerFinishesEveryTask(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		for seed := range uint64(episodesTested) {
			e := New(seed, o)
			set, err := tools.Normalise(e.Input().Tools, tools.KnownRobots(e.Input().Attributes), "")
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for !e.Done() {
				d := e.Expected()
				if (d.Say == "") == (len(d.ToolCalls) == 0) {
					t.Fatalf("seed %d: %q is answered by neither or both of %q and %v", seed, e.Input().Instruction.Content, d.Say, d.ToolCalls)
				}
				robots := map[string]bool{}
				for _, c := range d.ToolCalls {
					if _, err := set.Accept(c.Name, c.Arguments, protocol.String(c.TargetRobotName)); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					if robots[c.TargetRobotName] {
						t.Fatalf("seed %d: two calls for %s", seed, c.TargetRobotName)
					}
					robots[c.TargetRobotName] = true
				}
				e.Apply(d, e.Input().Memory)
			}
			if s := e.Score(); s.Decisions >= MaxDecisions || s.Right != s.Decisions || s.Tasks == 0 || s.Finished != s.Tasks {
				t.Errorf("seed %d: %+v", seed, s)
			}
		}
	})
}

// TestSameSeedGivesSameEpisode compares all inputs.
func TestSameSeedGivesSameEpisode(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		for seed := range uint64(20) {
			a, b := NewGroup(seed, o).Episode(3), NewGroup(seed, o).Episode(3)
			for !a.Done() {
				in, again := a.Input(), b.Input()
				if x, y := string(in.AppendJSON(nil)), string(again.AppendJSON(nil)); x != y {
					t.Fatalf("seed %d:\n%s\n%s", seed, x, y)
				}
				d := a.Expected()
				a.Apply(d, in.Memory)
				b.Apply(d, in.Memory)
			}
		}
	})
}

// TestAnyDecisionCanBeApplied: the simulator survives what a bad model decides.
func TestAnyDecisionCanBeApplied(t *testing.T) {
	for seed := range uint64(episodesTested) {
		e := New(seed, Options{})
		robot := e.group.plan.robots[0]
		for i := 0; !e.Done(); i++ {
			d := e.Expected()
			switch i % 4 {
			case 0:
				d = protocol.AgentDecision{Say: "What?"}
			case 1:
				tool := e.group.tools.tools[i%len(e.group.tools.tools)].name
				d = protocol.AgentDecision{ToolCalls: []protocol.ToolCall{{Name: tool, Arguments: protocol.Raw("{}"), TargetRobotName: robot}}}
			case 2:
				d = protocol.AgentDecision{ToolCalls: []protocol.ToolCall{
					{Name: "nothing", Arguments: protocol.Raw(`{"a":1}`), TargetRobotName: "nobody"},
					e.group.tools.call(action{op: opGo, robot: "nobody", target: "moon"}),
				}}
			}
			e.Apply(d, e.Input().Memory)
		}
		if s := e.Score(); s.Decisions > MaxDecisions || s.Right >= s.Decisions {
			t.Errorf("seed %d: %+v", seed, s)
		}
	}
}

// TestCallIsReadBackAsItsAction: call and action of a toolbox are inverse.
func TestCallIsReadBackAsItsAction(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		for seed := range uint64(episodesTested) {
			b := NewGroup(seed, o).tools
			for _, a := range []action{
				{op: opGo, target: "hall"}, {op: opPick, target: "red cup"}, {op: opPut, target: "table", thing: "red cup"},
				{op: opOpen, target: "box"}, {op: opClose, target: "box"}, {op: opSwitch, target: "lamp", on: true},
				{op: opSwitch, target: "lamp"}, {op: opSet, target: "heater", value: 21}, {op: opLook},
			} {
				if !b.can(a.op) {
					continue
				}
				a.robot = "rover"
				got, err := b.action(b.call(a))
				if got.thing == "" {
					a.thing = "" // not all tools name it
				}
				if err != nil || got != a {
					t.Fatalf("seed %d: %+v becomes %+v: %v", seed, a, got, err)
				}
			}
		}
	})
}

// TestSplitsShareNoWords, and no tool name of theirs is known and unseen.
func TestSplitsShareNoWords(t *testing.T) {
	disjoint := func(what string, a, b []string) {
		in := map[string]bool{}
		for _, s := range a {
			in[s] = true
		}
		for _, s := range b {
			if in[s] {
				t.Errorf("%s: %q is on both sides", what, s)
			}
		}
	}
	for _, p := range []pool{roomWords, surfaceWords, containerWords, switchWords, degreeWords, percentWords, adjectives, nounWords, bareWords, robotWords} {
		disjoint("words", p[Train], p[Eval])
	}
	var known, unseen []string
	for _, w := range toolWordings {
		known, unseen = append(known, w.names...), append(unseen, w.unseen...)
	}
	for _, d := range distractors {
		known = append(known, d.name)
	}
	disjoint("tool names", known, unseen)
}

// TestOnlyTrainingMixesToolNames, and none of them is one that a tool has elsewhere.
func TestOnlyTrainingMixesToolNames(t *testing.T) {
	words := map[string]bool{}
	for _, w := range toolWordings {
		for _, name := range w.names {
			for _, word := range strings.Split(name, "_") {
				words[word] = true
			}
		}
	}
	mixed := func(o Options) (n int) {
		for seed := range uint64(episodesTested) {
			for _, tool := range NewGroup(seed, o).tools.tools {
				first, last, ok := strings.Cut(tool.name, "_")
				if ok && len(tool.ops) > 0 && !isName(tool.name) && words[first] && words[strings.Split(last, "_")[0]] {
					n++
				}
			}
		}
		return n
	}
	if mixed(Options{Split: Train}) == 0 {
		t.Error("training mixes none")
	}
	for _, o := range []Options{{Split: Train, Plain: true}, {Split: Eval}, {Split: Eval, ToolNames: Unseen}} {
		if n := mixed(o); n > 0 {
			t.Errorf("%+v: %d names are mixed", o, n)
		}
	}
}

// TestCallsFollowTheOrderOfNamedRobots: who reads the request from its
// beginning decides for each as it comes.
func TestCallsFollowTheOrderOfNamedRobots(t *testing.T) {
	several, turned := 0, 0
	for seed := range uint64(2 * episodesTested) {
		for e := New(seed, Options{Busy: true}); !e.Done(); e.Apply(e.Expected(), e.memory) {
			calls := e.Expected().ToolCalls
			var named []string
			for _, g := range e.goals {
				if slices.ContainsFunc(calls, func(c protocol.ToolCall) bool { return c.TargetRobotName == g.robot }) && !slices.Contains(named, g.robot) {
					named = append(named, g.robot)
				}
			}
			var called []string
			for _, c := range calls {
				called = append(called, c.TargetRobotName)
			}
			if !slices.Equal(called, named) {
				t.Fatalf("seed %d: %v are called, %v were named", seed, called, named)
			}
			if len(called) > 1 {
				several++
				inTeam := func(a, b string) int {
					return slices.Index(e.group.plan.robots, a) - slices.Index(e.group.plan.robots, b)
				}
				if !slices.IsSortedFunc(called, inTeam) {
					turned++
				}
			}
		}
	}
	if several == 0 || turned == 0 {
		t.Errorf("of %d decisions %d have another order than the house has", several, turned)
	}
}

// TestSameIgnoresTheOrderOfRobots and nothing else.
func TestSameIgnoresTheOrderOfRobots(t *testing.T) {
	call := func(robot, name, arguments string) protocol.ToolCall {
		return protocol.ToolCall{Name: name, Arguments: protocol.Raw(arguments), TargetRobotName: robot}
	}
	calls := func(c ...protocol.ToolCall) protocol.AgentDecision { return protocol.AgentDecision{ToolCalls: c} }
	a, b := call("a", "x", `{"n":1,"m":2}`), call("b", "y", `{}`)
	if !Same(calls(a, b), calls(b, call("a", "x", `{ "m": 2, "n": 1 }`))) {
		t.Error("the order of robots or members counts")
	}
	for _, other := range []protocol.AgentDecision{
		{}, {Say: "x"}, calls(a), calls(a, b, b), calls(a, call("b", "z", `{}`)), calls(a, call("c", "y", `{}`)), calls(call("a", "x", `{"n":1,"m":3}`), b),
	} {
		if Same(calls(a, b), other) || Same(other, calls(a, b)) {
			t.Errorf("%v is the same", other)
		}
	}
	if !Same(protocol.AgentDecision{Say: "x"}, protocol.AgentDecision{Say: "x"}) {
		t.Error("a reply is not itself")
	}
}

func TestRewardIsTheShareOfRightCalls(t *testing.T) {
	e := New(1, Options{Busy: true})
	for seed := uint64(2); len(e.Expected().ToolCalls) != 2; seed++ {
		e = New(seed, Options{Busy: true})
	}
	right := e.Expected().ToolCalls
	wrong := right[1]
	wrong.Name += "?"
	for _, c := range []struct {
		calls []protocol.ToolCall
		want  float64
	}{
		{right, 1},
		{[]protocol.ToolCall{right[1], right[0]}, 1},
		{right[:1], 0.5},
		{[]protocol.ToolCall{right[0], right[0]}, 0.5},
		{[]protocol.ToolCall{right[0], wrong}, 0.5},
		{[]protocol.ToolCall{right[0], wrong, wrong, wrong}, 0.25},
		{[]protocol.ToolCall{wrong}, 0},
		{nil, 0},
	} {
		if got := e.Reward(protocol.AgentDecision{ToolCalls: c.calls}); got != c.want {
			t.Errorf("%v: %v, want %v", c.calls, got, c.want)
		}
	}
}

// TestKnowledgeIsTrue: nobody lies, and whatever changes is reported, so
// that a planner that sees only the prompt does what is right in the house.
func TestKnowledgeIsTrue(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		for seed := range uint64(episodesTested) {
			for e := New(seed, o); !e.Done(); e.Apply(e.Expected(), e.memory) {
				k, h := e.known, e.house
				for _, r := range h.robots {
					if room, ok := k.room[r.name]; ok && room != r.room || k.held[r.name] != r.holds {
						t.Fatalf("seed %d: %s is believed in %q with %q, and is in %q with %q", seed, r.name, room, k.held[r.name], r.room, r.holds)
					}
				}
				for thing, place := range k.place {
					if at := h.holding(thing); at == nil || at.name != place {
						t.Fatalf("seed %d: the %s is believed at %s, and is at %v", seed, thing, place, at)
					}
				}
				for _, p := range h.places {
					contents, seen := k.contents[p.name]
					if seen && strings.Join(contents, ",") != strings.Join(p.contents, ",") {
						t.Fatalf("seed %d: at %s are believed %v, and are %v", seed, p.name, contents, p.contents)
					}
					if open, ok := k.open[p.name]; ok && open != p.open {
						t.Fatalf("seed %d: %s is believed open: %v", seed, p.name, open)
					}
				}
				for _, d := range h.devices {
					if state, ok := k.state[d.name]; ok && state != d.state {
						t.Fatalf("seed %d: %s is believed %s, and is %s", seed, d.name, state, d.state)
					}
				}
			}
		}
	})
}

// TestPlainNamesAreWords wherever there are enough of them, tools' names too.
func TestPlainNamesAreWords(t *testing.T) {
	known := map[string]bool{}
	for _, p := range []pool{roomWords, surfaceWords, containerWords, switchWords, degreeWords, percentWords, bareWords, nounWords, robotWords} {
		for _, w := range p[Train] {
			known[w] = true
		}
	}
	for _, w := range toolWordings {
		for _, name := range w.names {
			known[name] = true
		}
	}
	for _, d := range distractors {
		known[d.name] = true
	}
	for seed := range uint64(episodesTested) {
		g := NewGroup(seed, Options{Plain: true})
		names := slices.Concat(g.plan.rooms, g.plan.robots)
		for _, p := range g.plan.places {
			names = append(names, p.name)
		}
		for _, d := range g.plan.devices {
			names = append(names, d.name)
		}
		for _, thing := range g.plan.things {
			names = append(names, thing[strings.LastIndexByte(thing, ' ')+1:])
		}
		for _, tool := range g.tools.tools {
			names = append(names, tool.name)
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("seed %d: %q is no word of the lists", seed, name)
			}
		}
	}
}
