package memory

import (
	"strconv"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
)

// stateKeys are the members of memory whose turns have history indexes, for all model formats. A
// server with another model may continue a memory.
var stateKeys = []string{QwenKey, GPTOSSKey, "_llama"}

// Summarized returns the memory with a summary in place of its earlier one and of the history. The
// last keep entries of the history stay, with their reasoning. All other members keep their bytes and
// position.
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
	if m.Tokens != nil {
		out = protocol.DeleteMember(out, TokensKey)
	}
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

// shiftTurns renumbers the turns of a state after the first entries of the history were removed. A
// state without turns is removed.
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
