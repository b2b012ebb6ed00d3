package household

import (
	"maps"
	"math/rand/v2"
	"slices"

	"agentd/protocol"
)

// blunderTries bounds the search for a wrong decision: in the smallest of houses
// there may be none.
const blunderTries = 20

// Blunder is a wrong decision such as a model could take: the right calls, but one
// of them does another thing or with another target. It is what a model learns to
// find its way back from. ok is false where no call is right or no other one was found.
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

// wrong is another action of the same robot, with targets that the agent knows.
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
