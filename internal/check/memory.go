package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
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

// history are the entries of a candidate's memory.
func (o *output) history() []turn {
	var m struct{ History []turn }
	_ = json.Unmarshal(o.Memory, &m) // a broken memory has no entries
	return m.History
}

// last is the content of the last turn.
func (o *output) last() string {
	turns := o.history()
	if len(turns) == 0 {
		return ""
	}
	return turns[len(turns)-1].Content
}

// members are the values of the memory's members as they are written, and their names in order.
func (o *output) members() (values map[string]string, names []string) {
	values = map[string]string{}
	d := json.NewDecoder(bytes.NewReader(o.Memory))
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

// kept is what became of the given memory.
type kept struct {
	turns   []turn // at least two
	members map[string]string
	names   []string // of the members
}

func (k *kept) last() turn { return k.turns[len(k.turns)-1] }

// remembered is a rule about what becomes of the given memory.
func remembered(id, level, about string, judge func(k *kept) bool) rule {
	sent := post(strings.Replace(edit(remembering(given), `"hi"`, `"Open it."`), ruleName, "check-memory", 1))
	sent.shared = "memory"
	return one(id, level, "5", sent, every(about, func(o output) bool {
		members, names := o.members()
		k := &kept{o.history(), members, names}
		return len(k.turns) >= 2 && judge(k)
	}))
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
	grown := func(n int) right {
		return every(fmt.Sprintf("a history of %d turns", n), func(o output) bool { return len(o.history()) == n })
	}
	list := []rule{
		remembered("memory/kept", Must, "the turns before stay", func(k *kept) bool {
			return k.turns[0].Author == "USER" && k.turns[0].Content == "a" && k.turns[1].Author == "MODEL"
		}),
		remembered("memory/appended", Must, "a completed candidate appends two turns", func(k *kept) bool { return len(k.turns) == 4 }),
		remembered("memory/instruction", Must, "the last turn but one is USER with the instruction", func(k *kept) bool {
			return k.turns[len(k.turns)-2] == turn{"USER", "Open it.", ""}
		}),
		remembered("memory/decision", Must, `the last turn is MODEL with {"say", "action"}`, func(k *kept) bool {
			return k.last().Author == "MODEL" && same([]byte(k.last().Content), []byte(`{"say":"ok","action":{}}`))
		}),
		remembered("memory/other-keys", Must, "other keys keep their values", func(k *kept) bool {
			return same([]byte(k.members["zebra"]), []byte("1.5")) && k.members["a"] == "null"
		}),
		remembered("memory/rules", Must, "memory_list stays", func(k *kept) bool {
			return same([]byte(k.members["memory_list"]), []byte(`["Be kind."]`))
		}),
		remembered("memory/turn-fields", Should, "other fields of a turn stay", func(k *kept) bool { return k.turns[0].Mood == "x" }),
		remembered("memory/bytes", Should, "numbers and escapes stay as they were written", func(k *kept) bool {
			return k.members["zebra"] == "1.50" && k.members["big"] == "12345678901234567890123" &&
				strings.Contains(k.members["history"], `"\u0061"`)
		}),
		remembered("memory/key-order", Should, "keys keep their order", func(k *kept) bool {
			return slices.Equal(k.names, []string{"zebra", "history", "big", "memory_list", "a"})
		}),
		one("memory/environment", Must, "5", post(edit(cheap, `"user"`, `"env"`)), every("a SYSTEM turn", func(o output) bool {
			return len(o.history()) == 2 && o.history()[0].Author == "SYSTEM"
		})),
		one("memory/empty", Must, "5", post(cheap), grown(2)),
		one("memory/nothing-invented", Should, "5", post(cheap), every("a history and nothing else", func(o output) bool {
			_, names := o.members()
			return len(names) == 1
		})),
		one("memory/failed", Should, "5", post(input(unusable+`,"memory":`+given)),
			failed(every("an error returns the memory as it came", func(o output) bool { return same(o.Memory, []byte(given)) }))),
		many("memory/continued", Must, "5", "the returned memory is the next request's", func(p *probe) {
			p.take(post(remembering(string(p.take(post(cheap), decided).outputs()[0].Memory))), grown(4))
		}),
		answered("memory/candidates", Must, every("the last turn has the candidate's own decision", func(o output) bool {
			return o.Output == nil || o.last() == "" || strings.Contains(o.last(), strings.Trim(encode(o.Output.Say), `"`))
		})),
		one("memory/place", May, "5", post(remembering(`{"history":[{"author":"USER","content":"a"},{"author":"DOG","content":""}]}`)),
			problem("", "body.inputs[0].memory.history[1].author")),
	}
	for _, bad := range badMemories {
		list = append(list, one(bad.id, Should, "5", post(remembering(bad.memory)), refused))
	}
	for _, good := range goodMemories {
		list = append(list, one(good.id, Should, "5", post(remembering(good.memory)), decided))
	}
	return with(needHistory, with(needResume, list...)...)
}
