package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// given is the memory of the rules. Its numbers, escapes and order show whether it was kept.
const given = `{"zebra":1.50,"history":[{"author":"USER","content":"\u0061","mood":"x"},` +
	`{"author":"MODEL","content":"{\"say\": \"b\", \"action\": {}}"}],"big":12345678901234567890123,` +
	`"memory_list":["Be kind."],"a":null}`

// remembering is a corrected request with a memory.
func remembering(memory string) string { return edit(cheap, `"id":1`, `"id":1,"memory":`+memory) }

// turn is an entry of a history.
type turn struct{ Author, Content, Mood string }

// history are the entries of a memory.
func history(memory json.RawMessage) []turn {
	var m struct{ History []turn }
	_ = json.Unmarshal(memory, &m) // a broken memory has no entries
	return m.History
}

// last is the content of the last turn of a candidate.
func (o *output) last() string {
	turns := history(o.Memory)
	if len(turns) == 0 {
		return ""
	}
	return turns[len(turns)-1].Content
}

// memory is what became of the given one.
type memory struct {
	turns   []turn
	members map[string]string // as they are written
	names   []string          // of the members, in order
}

// remembered is a rule about what becomes of the given memory.
func remembered(id, level, about string, judge func(m *memory) error) rule {
	body := strings.Replace(edit(remembering(given), `"hi"`, `"Open it."`), ruleName, "check-memory", 1)
	return many(id, level, "5", about, func(p *probe) {
		o := p.outputs(p.once("memory", post(body)))[0]
		m := &memory{turns: history(o.Memory)}
		if m.members, m.names = membersOf(o.Memory); o.Error != nil || len(m.turns) < 2 {
			p.fail("got %s and the history %v", o.said(), m.turns)
		}
		p.none(judge(m))
	})
}

// membersOf are the values of an object's members as they are written, and their names in order.
func membersOf(object []byte) (values map[string]string, names []string) {
	values = map[string]string{}
	d := json.NewDecoder(bytes.NewReader(object))
	for _, _ = d.Token(); d.More(); {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			break
		}
		names = append(names, fmt.Sprint(name))
		values[fmt.Sprint(name)] = string(value)
	}
	return values, names
}

// badMemories are memories of another shape than the full-history agent's, and goodMemories are read
// though they are written in other ways.
var (
	badMemories = []struct{ id, memory string }{
		{"memory/history-object", `{"history":{}}`},
		{"memory/entry-number", `{"history":[1]}`},
		{"memory/entry-without-content", `{"history":[{"author":"USER"}]}`},
		{"memory/content-number", `{"history":[{"author":"USER","content":1}]}`},
		{"memory/author-unknown", `{"history":[{"author":"CAT","content":""}]}`},
		{"memory/rules-text", `{"memory_list":"Be kind."}`},
		{"memory/rule-number", `{"memory_list":["x",2]}`},
		{"memory/summary-list", `{"summary":[]}`},
	}
	goodMemories = []struct{ id, memory string }{
		{"memory/author-letter-case", `{"history":[{"author":"uSer","content":"a"},{"author":"model","content":"b"}]}`},
		{"memory/author-other-names", `{"history":[{"author":"assistant","content":"b"},{"author":"status","content":"c"}]}`},
		{"memory/author-absent", `{"history":[{"content":"a"}]}`},
		{"memory/model-plain-text", `{"history":[{"author":"MODEL","content":"{no JSON"}]}`},
		{"memory/nulls", `{"history":null,"memory_list":null,"summary":null}`},
		{"memory/summary", `{"summary":"The box is open."}`},
	}
)

// memoryRules are about the memory of the full-history agent.
func memoryRules() []rule {
	list := []rule{
		remembered("memory/kept", Must, "the turns before stay", func(m *memory) error {
			return want(m.turns[0].Author+m.turns[0].Content+m.turns[1].Author, "USERaMODEL")
		}),
		remembered("memory/appended", Must, "a completed candidate appends two turns", func(m *memory) error {
			return want(len(m.turns), "4")
		}),
		remembered("memory/instruction", Must, "the last turn but one is USER with the instruction", func(m *memory) error {
			return want(m.turns[len(m.turns)-2], "{USER Open it. }")
		}),
		remembered("memory/decision", Must, `the last turn is MODEL with {"say", "action"}`, func(m *memory) error {
			last := m.turns[len(m.turns)-1]
			var d struct{ Say, Action any }
			_ = json.Unmarshal([]byte(last.Content), &d) // then d is empty
			return want([]any{last.Author, d.Say, d.Action}, "[MODEL ok map[]]")
		}),
		remembered("memory/other-keys", Must, "other keys keep their values", func(m *memory) error {
			if !same([]byte(m.members["zebra"]), []byte("1.5")) || m.members["a"] != "null" {
				return fmt.Errorf("got %v", m.members)
			}
			return nil
		}),
		remembered("memory/rules", Must, "memory_list stays", func(m *memory) error {
			return want(m.members["memory_list"], `["Be kind."]`)
		}),
		remembered("memory/turn-fields", Should, "other fields of a turn stay", func(m *memory) error {
			return want(m.turns[0].Mood, "x")
		}),
		remembered("memory/bytes", Should, "numbers and escapes stay as they were written", func(m *memory) error {
			escaped := strings.Contains(m.members["history"], `"\u0061"`)
			return want([]any{m.members["zebra"], m.members["big"], escaped}, "[1.50 12345678901234567890123 true]")
		}),
		remembered("memory/key-order", Should, "keys keep their order", func(m *memory) error {
			return want(m.names, "[zebra history big memory_list a]")
		}),
		each("memory/environment", Must, "an env instruction becomes a SYSTEM turn", edit(cheap, `"user"`, `"env"`), func(_ *probe, o output) bool {
			turns := history(o.Memory)
			return len(turns) == 2 && turns[0].Author == "SYSTEM"
		}),
		each("memory/empty", Must, "an empty memory becomes a history of two turns", cheap, func(_ *probe, o output) bool {
			return len(history(o.Memory)) == 2
		}),
		each("memory/nothing-invented", Should, "an empty memory gets a history and nothing else", cheap, func(_ *probe, o output) bool {
			_, names := membersOf(o.Memory)
			return len(names) == 1
		}),
		each("memory/failed", Should, "an error returns the memory as it came", edit(plain, `"id":1`, unusable+`,"memory":`+given), func(p *probe, o output) bool {
			if o.Error == nil {
				p.unexercised("no candidate failed")
			}
			return same(o.Memory, []byte(given))
		}),
		many("memory/continued", Must, "5", "the returned memory is the next request's", func(p *probe) {
			o := p.first(remembering(string(p.first(cheap).Memory)))
			p.none(want(len(history(o.Memory)), "4"))
		}),
		answered("memory/candidates", Must, "each candidate has the turn of its own decision", func(outs []output, _ *exchange) error {
			for _, o := range outs {
				if o.Output != nil && o.last() != "" && !strings.Contains(o.last(), strings.Trim(encode(o.Output.Say), `"`)) {
					return fmt.Errorf("candidate %d/%d says %s, and its last turn is %s", o.Source, o.Index, o.said(), o.last())
				}
			}
			return nil
		}),
		one("memory/place", May, "5", post(remembering(`{"history":[{"author":"USER","content":"a"},{"author":"DOG","content":""}]}`)),
			problem("", "body.inputs[0].memory.history[1].author")),
	}
	for _, bad := range badMemories {
		list = append(list, one(bad.id, Should, "5", post(remembering(bad.memory)), refused))
	}
	for _, good := range goodMemories {
		list = append(list, one(good.id, Should, "5", post(remembering(good.memory)), ok))
	}
	return with(needHistory|needResume, list...)
}
