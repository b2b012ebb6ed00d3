package household

import (
	"maps"
	"math/rand/v2"
	"slices"

	"agentd/protocol"
)

// blunderTries bounds the search for a wrong decision. A small house may have none.
const blunderTries = 20

// Blunder is a plausible wrong decision: the right calls, one of them with another
// operation or target. A model learns to recover from it. ok is false if the right
// decision has no call, or no wrong one was found.
func (e *Episode) Blunder(r *rand.Rand) (d protocol.AgentDecision, ok bool) {
	expected := e.Expected()
	if len(e.next.actions) == 0 {
		return d, false
	}
	for range blunderTries {
		i := r.IntN(len(e.next.actions))
		a, found := e.wrong(r, e.next.actions[i])
		if !found || !e.group.tools.can(a.op) {
			continue
		}
		d = expected
		d.ToolCalls = slices.Clone(expected.ToolCalls)
		d.ToolCalls[i] = e.group.tools.call(a)
		if !Same(d, expected) {
			return d, true
		}
	}
	return d, false
}

// wrong is another action of the same robot, with known targets.
func (e *Episode) wrong(r *rand.Rand, right action) (action, bool) {
	k := e.known
	places := slices.Sorted(maps.Keys(k.container))
	a := action{op: oneOf(r, []op{opGo, opPick, opPut, opOpen, opLook}), robot: right.robot}
	var targets []string
	switch a.op {
	case opGo:
		targets = slices.Compact(slices.Sorted(maps.Values(k.roomOf)))
	case opPick:
		targets = k.things
	case opPut:
		targets, a.thing = places, k.held[a.robot]
		if a.thing == "" {
			a.thing = right.target
		}
	case opOpen:
		targets = slices.DeleteFunc(places, func(p string) bool { return !k.container[p] })
	default:
		return a, true
	}
	if len(targets) == 0 {
		return a, false
	}
	a.target = oneOf(r, targets)
	return a, true
}
