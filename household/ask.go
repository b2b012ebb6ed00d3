package household

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"agentd/protocol"
)

// Server answers requests of the protocol, like a client of package protocol/client.
type Server interface {
	Responses(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error)
}

// requestID is that of all requests. The memory identifies a conversation.
const requestID = "household"

// Ask asks a server for its decision. An output without a decision is not an error of Ask.
func (e *Episode) Ask(ctx context.Context, s Server) (*protocol.AgentOutput, error) {
	return ask(ctx, s, e.Input())
}

// Correct asks a server for its memory after the right decision. It uses the protocol's
// corrections.
func (e *Episode) Correct(ctx context.Context, s Server) (protocol.Raw, error) {
	in := e.Input()
	right := protocol.ReplaceDecision{Decision: e.Expected()}
	in.ExtraKeys = protocol.AppendMember(in.ExtraKeys, "coaching", right.AppendJSON(nil))
	out, err := ask(ctx, s, in)
	if err != nil {
		return nil, err
	}
	if out.Error != nil {
		return nil, fmt.Errorf("the agent takes no correction: %s: %s", out.Error.Code, out.Error.Message)
	}
	return out.Memory, nil
}

func ask(ctx context.Context, s Server, in protocol.AgentInput) (*protocol.AgentOutput, error) {
	in.NumOutputs = 1
	outs, err := s.Responses(ctx, &protocol.AgentRequest{RequestID: requestID, Inputs: []protocol.AgentInput{in}})
	if err != nil {
		return nil, err
	}
	if len(outs) != 1 {
		return nil, fmt.Errorf("the agent gave %d answers where one was asked for", len(outs))
	}
	return &outs[0], nil
}

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

// Choices are the calls that the world offers to one robot of the right decision, which is one of them: each operation with
// each target, at most so many. The calls of other robots stay as they are right. ok is false if the right decision has
// no call, or no other one was found.
func (e *Episode) Choices(r *rand.Rand, most int) (options []protocol.AgentDecision, right int, ok bool) {
	expected := e.Expected()
	if len(e.next.actions) == 0 {
		return nil, 0, false
	}
	at := r.IntN(len(e.next.actions))
	var places, devices []string
	for _, p := range e.house.places {
		places = append(places, p.name)
	}
	for _, d := range e.house.devices {
		devices = append(devices, d.name)
	}
	targets := [ops][]string{
		opGo: e.house.rooms, opPick: e.known.things, opPut: places, opOpen: places, opClose: places, opSwitch: devices, opLook: {""},
	}
	for o, list := range targets {
		for _, target := range list {
			for _, on := range []bool{true, false} {
				a := action{op: op(o), robot: e.next.actions[at].robot, target: target, on: on}
				if a.op == opPut {
					a.thing = cmp.Or(e.known.held[a.robot], e.next.actions[at].thing, e.next.actions[at].target)
				}
				if !e.group.tools.can(a.op) || !on && a.op != opSwitch {
					continue
				}
				d := expected
				d.ToolCalls = slices.Clone(expected.ToolCalls)
				d.ToolCalls[at] = e.group.tools.call(a)
				if d.ToolCalls[at].Name != "" && !slices.ContainsFunc(append(options, expected), func(o protocol.AgentDecision) bool { return Same(d, o) }) {
					options = append(options, d)
				}
			}
		}
	}
	r.Shuffle(len(options), func(i, j int) { options[i], options[j] = options[j], options[i] })
	options = options[:min(len(options), most-1)]
	right = r.IntN(len(options) + 1)
	return slices.Insert(options, right, expected), right, len(options) > 0
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
		targets, a.thing = places, cmp.Or(k.held[a.robot], right.target)
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
