package memory

import (
	"strconv"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
)

// stateKeys are the members of memory whose turns count by history index, of all
// model formats: another server may go on with a memory of this one.
var stateKeys = []string{QwenKey, GPTOSSKey, "_llama"}

// Summarized is the memory with a summary in place of its earlier one and of the
// history, of which only the last keep entries stay. The reasoning that belongs to
// entries that go is dropped; that of the others follows them. All else keeps its
// bytes and its place.
func (m *Memory) Summarized(summary string, keep int) protocol.Raw {
	gone := len(m.History) - keep
	history := protocol.Raw{'['}
	at := 0
	for e := range protocol.Elements(m.history) {
		if at >= gone {
			if len(history) > 1 {
				history = append(history, ',')
			}
			history = append(history, e...)
		}
		at++
	}
	out := protocol.SetMember(m.raw, "history", append(history, ']'))
	out = protocol.SetMember(out, "summary", rawjson.AppendString(nil, summary))
	for _, key := range stateKeys {
		state, _ := protocol.Get(m.raw, key)
		if state.Kind() != '{' {
			continue
		}
		if turns, _ := protocol.Get(state, "turns"); turns.Kind() == '{' {
			out = shiftTurns(out, key, state, turns, gone)
		}
	}
	return out
}

// shiftTurns writes the turns of a state anew after the first entries of the history
// are gone. A state that has no turns then is taken out.
func shiftTurns(memory protocol.Raw, key string, state, turns protocol.Raw, gone int) protocol.Raw {
	left := protocol.Raw{'{'}
	written := map[int]bool{}
	for name, turn := range protocol.Members(turns) {
		index, err := strconv.Atoi(name)
		if index -= gone; err != nil || index < 0 || written[index] {
			continue
		}
		if written[index] = true; len(left) > 1 {
			left = append(left, ',')
		}
		left = append(rawjson.AppendString(left, strconv.Itoa(index)), ':')
		left = append(left, turn...)
	}
	if len(written) == 0 {
		return protocol.DeleteMember(memory, key)
	}
	return protocol.SetMember(memory, key, protocol.SetMember(state, "turns", append(left, '}')))
}
