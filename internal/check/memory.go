package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
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

// history are the entries of a memory.
func (p *probe) history(memory json.RawMessage) (turns []turn) {
	var m struct{ History []turn }
	if err := json.Unmarshal(memory, &m); err != nil {
		p.fail("memory is %s: %v", shown(string(memory)), err)
	}
	return m.History
}

// remembered is a rule about what becomes of the given memory.
func remembered(id, level, about string, judge func(memory json.RawMessage, turns []turn) error) rule {
	return many(id, level, "5", about, func(p *probe) {
		body := strings.Replace(edit(remembering(given), `"hi"`, `"Open it."`), ruleName, "check-memory", 1)
		o := p.outputs(p.once("memory", post(body)))[0]
		turns := p.history(o.Memory)
		if o.Error != nil || len(turns) < 2 {
			p.fail("got %s and the history %v", o.said(), turns)
		}
		if err := judge(o.Memory, turns); err != nil {
			p.fail("%v; right is: %s", err, about)
		}
	})
}

// members are the values of an object's members as they are written, and their names in order.
func members(object []byte) (values map[string]json.RawMessage, names []string) {
	var compact bytes.Buffer
	if json.Compact(&compact, object) != nil || json.Unmarshal(compact.Bytes(), &values) != nil {
		return nil, nil
	}
	d := json.NewDecoder(&compact)
	_, _ = d.Token() // the object was read above
	for d.More() {
		name, _ := d.Token()
		names = append(names, fmt.Sprint(name))
		var skipped json.RawMessage
		_ = d.Decode(&skipped)
	}
	return values, names
}

// same compares two JSON texts by their values.
func same(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// badMemories are memories of another shape than the full-history agent's.
var badMemories = []struct{ id, memory string }{
	{"memory/history-object", `{"history":{}}`},
	{"memory/entry-number", `{"history":[1]}`},
	{"memory/entry-without-content", `{"history":[{"author":"USER"}]}`},
	{"memory/content-number", `{"history":[{"author":"USER","content":1}]}`},
	{"memory/author-unknown", `{"history":[{"author":"CAT","content":""}]}`},
	{"memory/rules-text", `{"memory_list":"Be kind."}`},
	{"memory/rule-number", `{"memory_list":["x",2]}`},
	{"memory/summary-list", `{"summary":[]}`},
}

// goodMemories are read though they are written in other ways.
var goodMemories = []struct{ id, memory string }{
	{"memory/author-letter-case", `{"history":[{"author":"uSer","content":"a"},{"author":"model","content":"b"}]}`},
	{"memory/author-other-names", `{"history":[{"author":"assistant","content":"b"},{"author":"status","content":"c"}]}`},
	{"memory/author-absent", `{"history":[{"content":"a"}]}`},
	{"memory/model-plain-text", `{"history":[{"author":"MODEL","content":"{no JSON"}]}`},
	{"memory/nulls", `{"history":null,"memory_list":null,"summary":null}`},
	{"memory/summary", `{"summary":"The box is open."}`},
}

// memoryRules are about the memory of the full-history agent.
func memoryRules() []rule {
	list := []rule{
		remembered("memory/kept", Must, "the turns before stay", func(_ json.RawMessage, turns []turn) error {
			if turns[0].Content != "a" || !strings.Contains(turns[1].Content, `"b"`) {
				return fmt.Errorf("history is %v", turns)
			}
			return nil
		}),
		remembered("memory/appended", Must, "a completed candidate appends two turns", func(_ json.RawMessage, turns []turn) error {
			return want(len(turns), "4")
		}),
		remembered("memory/instruction", Must, "the last turn but one is USER with the instruction", func(_ json.RawMessage, turns []turn) error {
			return want(turns[len(turns)-2], "{USER Open it. }")
		}),
		remembered("memory/decision", Must, `the last turn is MODEL with {"say", "action"}`, func(_ json.RawMessage, turns []turn) error {
			last := turns[len(turns)-1]
			var d struct{ Say, Action any }
			if err := json.Unmarshal([]byte(last.Content), &d); err != nil || last.Author != "MODEL" || d.Say != "ok" || d.Action == nil {
				return fmt.Errorf("it is %v", last)
			}
			return nil
		}),
		remembered("memory/other-keys", Must, "other keys keep their values", func(memory json.RawMessage, _ []turn) error {
			before, _ := members([]byte(given))
			after, _ := members(memory)
			for _, name := range []string{"zebra", "big", "a"} {
				if !same(before[name], after[name]) {
					return fmt.Errorf("%s is %s", name, after[name])
				}
			}
			return nil
		}),
		remembered("memory/rules", Must, "memory_list stays", func(memory json.RawMessage, _ []turn) error {
			after, _ := members(memory)
			return want(string(after["memory_list"]), `["Be kind."]`)
		}),
		remembered("memory/turn-fields", Should, "other fields of a turn stay", func(_ json.RawMessage, turns []turn) error {
			return want(turns[0].Mood, "x")
		}),
		remembered("memory/bytes", Should, "numbers and escapes stay as they were written", func(memory json.RawMessage, _ []turn) error {
			after, _ := members(memory)
			for name, text := range map[string]string{"zebra": "1.50", "big": "12345678901234567890123", "history": `"\u0061"`} {
				if got := string(after[name]); !strings.Contains(got, text) {
					return fmt.Errorf("%s is %s", name, shown(got))
				}
			}
			return nil
		}),
		remembered("memory/key-order", Should, "keys keep their order", func(memory json.RawMessage, _ []turn) error {
			_, before := members([]byte(given))
			_, after := members(memory)
			return want(after, fmt.Sprint(before))
		}),
		many("memory/environment", Must, "5", "an env instruction becomes a SYSTEM turn", func(p *probe) {
			o := p.first(edit(cheap, `"user"`, `"env"`))
			if turns := p.history(o.Memory); len(turns) != 2 || turns[0].Author != "SYSTEM" {
				p.fail("history is %v", turns)
			}
		}),
		many("memory/empty", Must, "5", "an empty memory becomes a history of two turns", func(p *probe) {
			o := p.first(cheap)
			if turns := p.history(o.Memory); len(turns) != 2 {
				p.fail("memory is %s", o.Memory)
			}
		}),
		many("memory/nothing-invented", Should, "5", "an empty memory gets a history and nothing else", func(p *probe) {
			if _, names := members(p.first(cheap).Memory); len(names) != 1 {
				p.fail("its keys are %v", names)
			}
		}),
		many("memory/failed", Should, "5", "an error returns the memory as it came", func(p *probe) {
			o := p.first(edit(plain, `"id":1`, `"id":1,"tools":[{"description":"no name"}],"memory":`+given))
			if o.Error == nil {
				p.unexercised("no candidate failed")
			}
			if !same(o.Memory, []byte(given)) {
				p.fail("memory is %s", shown(string(o.Memory)))
			}
		}),
		many("memory/continued", Must, "5", "the returned memory is the next request's", func(p *probe) {
			memory := p.first(cheap).Memory
			o := p.first(remembering(string(memory)))
			if turns := p.history(o.Memory); o.Error != nil || len(turns) != 4 {
				p.fail("after two requests the history is %v: %s", turns, o.said())
			}
		}),
		many("memory/candidates", Must, "5", "each candidate of the model has the turn of its own decision", func(p *probe) {
			completed := 0
			for _, o := range p.outputs(p.once("batch", post(batch))) {
				turns := p.history(o.Memory)
				if o.Output == nil {
					continue
				}
				completed++
				if len(turns) != 2 || turns[1].Author != "MODEL" || o.Output.Say != "" && !strings.Contains(turns[1].Content, strings.Trim(encode(o.Output.Say), `"`)) {
					p.fail("candidate %d/%d says %s, and its history is %v", o.Source, o.Index, o.said(), turns)
				}
			}
			if completed == 0 {
				p.unexercised("no candidate was completed")
			}
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
	return slices.Clone(with(needHistory|needResume, list...))
}
