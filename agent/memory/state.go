package memory

import (
	"fmt"
	"slices"
	"strconv"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
)

// Members of memory with a format's reasoning.
const (
	QwenKey   = "_qwen"
	GPTOSSKey = "_gpt_oss"
)

// Kinds of turns. Only the first implementation writes clarifications, which are questions to the user.
const (
	KindToolCall      = "tool_call"
	KindClarification = "clarification"
)

// Turn is the reasoning of one MODEL entry.
type Turn struct {
	Kind      string
	Reasoning []string // paragraphs; at most one for qwen
}

// State is the reasoning before the tool calls of a task. For gpt-oss "reasoning" is "analysis", a list.
//
//	{"version": 1, "turns": {"<history index>": {"kind", "reasoning"}}}
type State struct {
	Key   string
	Turns map[int]Turn // by history index

	raw protocol.Raw // nil when absent
}

// Change is how a decision changes the state.
type Change struct {
	Final     bool     // a reply ended the task, so its reasoning is dropped
	NewTask   bool     // the instruction started a task, so earlier reasoning is dropped, except for gpt-oss
	Reasoning []string // before the decision's tool calls; nil for none
}

func (s *State) read(raw protocol.Raw, history []Entry) (problems protocol.Problems) {
	if raw.Kind() == 'n' {
		s.raw = raw
		return nil
	}
	more := true
	bad := func(typ, msg string, loc ...any) {
		more = problems.Add(protocol.NewProblem(typ, msg, append([]any{s.Key}, loc...)...))
	}
	version, _ := protocol.Get(raw, "version")
	if raw.Kind() != '{' || string(version) != "1" {
		bad(protocol.TypeValue, "it must be an object with version 1 and turns; leave it as the agent returned it, or out")
		return problems
	}
	turns, _ := protocol.Get(raw, "turns")
	if turns.Kind() != '{' {
		bad(protocol.TypeDict, "turns must be an object of history index to turn", "turns")
		return problems
	}
	s.raw, s.Turns = raw, map[int]Turn{}
	for name, value := range protocol.Members(turns) {
		if !more {
			break
		}
		index, err := strconv.ParseUint(name, 10, 31)
		switch {
		case err != nil:
			bad(protocol.TypeValue, "a turn's name must be a decimal index into history", "turns", name)
		case int(index) >= len(history):
			bad(protocol.TypeValue, fmt.Sprintf("the index is outside of history, which has %d entries", len(history)), "turns", name)
		case history[index].Author != Model:
			bad(protocol.TypeValue, "the index names an entry that is not MODEL's", "turns", name)
		default:
			turn, msg := s.readTurn(value)
			if msg == "" && turn.Kind == KindClarification && history[index].Say == "" {
				msg = "the turn is a clarification, but its entry says nothing"
			}
			if msg != "" {
				bad(protocol.TypeValue, msg, "turns", name)
			}
			s.Turns[int(index)] = turn
		}
	}
	return problems
}

// readTurn reads one turn. msg says why it is invalid.
func (s *State) readTurn(raw protocol.Raw) (turn Turn, msg string) {
	kind, _ := protocol.Get(raw, "kind")
	turn.Kind, _ = rawjson.String(kind)
	if turn.Kind != KindToolCall && turn.Kind != KindClarification {
		return turn, "a turn's kind must be tool_call or clarification"
	}
	if s.Key == GPTOSSKey {
		analysis, _ := protocol.Get(raw, "analysis")
		var err error
		if turn.Reasoning, err = rawjson.Strings(analysis); err != nil {
			msg = "a turn's analysis must be a list of strings"
		}
		return turn, msg
	}
	reasoning, _ := protocol.Get(raw, "reasoning")
	switch text, ok := protocol.Text(reasoning); {
	case !ok:
		msg = "a turn's reasoning must be a string"
	case text != "":
		turn.Reasoning = []string{text}
	}
	return turn, msg
}

// apply returns memory with the changed state. index is that of the new MODEL entry in the history.
func (s *State) apply(memory protocol.Raw, index int, c Change) protocol.Raw {
	c.NewTask = c.NewTask && s.Key != GPTOSSKey
	switch drops := c.Final || len(c.Reasoning) == 0; {
	case s.Key == "", drops && s.raw == nil, drops && !c.Final && !c.NewTask:
		return memory
	case drops:
		return protocol.DeleteMember(memory, s.Key)
	}
	name, reasoning := "reasoning", rawjson.AppendString(nil, c.Reasoning[0])
	if s.Key == GPTOSSKey {
		name, reasoning = "analysis", rawjson.AppendStrings(nil, c.Reasoning)
	}
	turn := fmt.Appendf(nil, `{"kind":"%s","%s":%s}`, KindToolCall, name, reasoning)
	turns, state := protocol.Raw("{}"), protocol.Raw(`{"version":1,"turns":{}}`)
	if s.raw.Kind() == '{' && !c.NewTask {
		state = s.raw
		turns, _ = protocol.Get(s.raw, "turns")
	}
	turns = protocol.SetMember(turns, strconv.Itoa(index), turn)
	return protocol.SetMember(memory, s.Key, protocol.SetMember(state, "turns", turns))
}

// stateKeys are the members of all formats that have history indexes: the memory may be another server's.
var stateKeys = []string{QwenKey, GPTOSSKey, "_llama"}

// Summarized returns the memory with a summary that replaces the earlier one and all
// but the last keep entries. Other members keep their bytes and position.
func (m *Memory) Summarized(summary string, keep int) protocol.Raw {
	gone := len(m.History) - keep
	kept := slices.Collect(protocol.Elements(m.history))[gone:]
	out := protocol.SetMember(m.raw, "history", protocol.AppendElements(nil, kept...))
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

// shiftTurns renumbers the turns of a state after the first gone entries of the history were removed.
func shiftTurns(memory protocol.Raw, key string, state, turns protocol.Raw, gone int) protocol.Raw {
	left := protocol.Raw{'{'}
	written := map[int]bool{}
	for name, turn := range protocol.Members(turns) {
		index, err := strconv.Atoi(name)
		if index -= gone; err != nil || index < 0 || written[index] {
			continue
		}
		written[index] = true
		left = rawjson.AddMember(left, strconv.Itoa(index), turn)
	}
	if len(written) == 0 {
		return protocol.DeleteMember(memory, key)
	}
	return protocol.SetMember(memory, key, protocol.SetMember(state, "turns", append(left, '}')))
}
