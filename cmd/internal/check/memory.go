package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"agentd/protocol"
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

// kept is a member of the memory, as it is written.
func (o *output) kept(name string) string {
	v, _ := protocol.Get(protocol.Raw(o.Memory), name)
	return string(v)
}

// remembered is a rule about what becomes of the given memory. Its history has two turns or more.
func remembered(id, level, about string, judge func(o output, turns []turn) bool) rule {
	sent := post(strings.Replace(edit(remembering(given), `"hi"`, `"Open it."`), ruleName, "check-memory", 1))
	sent.shared = "memory"
	return one(id, level, "5", sent, every(about, func(o output) bool {
		turns := o.history()
		return len(turns) >= 2 && judge(o, turns)
	}))
}

// badMemories are memories of another shape than the full-history agent's, and goodMemories are read
// though they are written in other ways. They replace an empty one.
var (
	badMemories = []variant{
		{"memory/history-object", Should, `{}`, `{"history":{}}`},
		{"memory/history-object", Should, `{}`, `{"history":"hi"}`},
		{"memory/entry-number", Should, `{}`, `{"history":[1]}`},
		{"memory/entry-number", Should, `{}`, `{"history":[null]}`},
		{"memory/entry-without-content", Should, `{}`, `{"history":[{"author":"USER"}]}`},
		{"memory/entry-without-content", Should, `{}`, `{"history":[{"author":"USER","content":5}]}`},
		{"memory/entry-without-content", Should, `{}`, `{"history":[{"author":"USER","content":null}]}`},
		{"memory/author-unknown", Should, `{}`, `{"history":[{"author":"CAT","content":""}]}`},
		{"memory/rule-number", Should, `{}`, `{"memory_list":["x",2]}`},
		{"memory/rule-number", Should, `{}`, `{"memory_list":"x"}`},
		{"memory/rule-number", Should, `{}`, `{"memory_list":[null]}`},
		{"memory/summary-list", Should, `{}`, `{"summary":[]}`},
		{"memory/summary-list", Should, `{}`, `{"summary":5}`},
	}
	goodMemories = []variant{
		{"memory/author-letter-case", Should, `{}`, `{"history":[{"author":"uSer","content":"a"},{"author":"model","content":"b"}]}`},
		{"memory/author-other-names", Should, `{}`, `{"history":[{"author":"assistant","content":"b"},{"author":"status","content":"c"}]}`},
		{"memory/model-plain-text", Should, `{}`, `{"history":[{"author":"MODEL","content":"{no JSON"}]}`},
		{"memory/nulls", Should, `{}`, `{"history":null,"memory_list":null,"summary":null}`},
	}
)

// talk is a history of n turns: each differs from its neighbors, except that some are empty or repeat.
func talk(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"author":"USER","content":"w%d"}`, i)
		switch i % 10 {
		case 9:
			list[i] = list[i-1]
		case 5:
			list[i] = `{"author":"SYSTEM","content":""}`
		}
	}
	return strings.Join(list, ",")
}

// remembers is an answer of which each completed candidate has its own input's memory, and its own turns.
var remembers = lawful("the memories of their inputs, with the instruction and the decision", ofCandidates(wrongMemory))

// modelMemories are about the memory after decisions of a model, and about long ones.
func modelMemories() []rule {
	batch := beforeInputs + `{"id":3,"num_outputs":3,"memory":{"summary":"It rained.","zebra":1.50,"memory_list":["Be kind."],` +
		`"history":[` + talk(3) + `]},"instruction":{"type":"user","content":"Say yes."}},` +
		`{"id":1,"memory":{},"instruction":{"type":"env","content":"It is dark."}},` +
		`{"id":2,"num_outputs":2,"memory":{"history":[` + talk(1) + `],"a":null},"instruction":{"type":"user","content":"Say no."}}]}`
	long := `{"summary":"It rained.","memory_list":[],"history":[` + talk(400) + `,{"author":"USER","content":"` + strings.Repeat("long ", 4000) + `"}]}`
	return []rule{
		one("memory/decided", Must, "5", post(batch), remembers),
		one("memory/decided-long", Must, "5", post(input(`"id":1,"memory":{"history":[`+talk(60)+`]}`)), remembers),
		one("memory/long", Must, "5", post(edit(remembering(long), `"id":1`, `"id":1,"num_outputs":4`)), remembers),
		one("memory/called", Must, "5", post(edit(moving, `"id":1`, `"id":1,"memory":{"history":[`+talk(2)+`]}`)), remembers),
		many("memory/conversation", Must, "5", "a conversation of 4 rounds loses nothing", func(p *probe) {
			memory := `{}`
			for i := range 4 {
				body := edit(input(`"id":1,"memory":`+memory), `"hi"`, fmt.Sprintf(`"Round %d."`, i))
				memory = string(p.take(post(body), both(decided, remembers)).outputs()[0].Memory)
			}
			p.take(post(plain), both(decided, remembers)) // its memory is empty
		}),
	}
}

// memoryRules are about the memory of the full-history agent.
func memoryRules() []rule {
	list := []rule{
		remembered("memory/kept", Must, "the turns before stay", func(_ output, turns []turn) bool {
			return turns[0].Author == "USER" && turns[0].Content == "a" && turns[1].Author == "MODEL"
		}),
		remembered("memory/appended", Must, "a completed candidate appends two turns", func(_ output, turns []turn) bool {
			return len(turns) == 4
		}),
		remembered("memory/instruction", Must, "the last turn but one is USER with the instruction", func(_ output, turns []turn) bool {
			return turns[len(turns)-2] == turn{"USER", "Open it.", ""}
		}),
		remembered("memory/decision", Must, `the last turn is MODEL with {"say", "action"}`, func(o output, turns []turn) bool {
			return turns[len(turns)-1].Author == "MODEL" && equal([]byte(o.last()), []byte(`{"say":"ok","action":{}}`))
		}),
		remembered("memory/other-keys", Must, "other keys keep their values", func(o output, _ []turn) bool {
			return equal([]byte(o.kept("zebra")), []byte("1.5")) && o.kept("a") == "null"
		}),
		remembered("memory/rules", Must, "memory_list stays", func(o output, _ []turn) bool {
			return equal([]byte(o.kept("memory_list")), []byte(`["Be kind."]`))
		}),
		remembered("memory/turn-fields", Should, "other fields of a turn stay", func(_ output, turns []turn) bool { return turns[0].Mood == "x" }),
		remembered("memory/bytes", Should, "numbers and escapes stay as they were written", func(o output, _ []turn) bool {
			return o.kept("zebra") == "1.50" && o.kept("big") == "12345678901234567890123" && strings.Contains(o.kept("history"), `"\u0061"`)
		}),
		remembered("memory/key-order", Should, "keys keep their order", func(o output, _ []turn) bool {
			return regexp.MustCompile(`(?s)^\{\s*"zebra".*"history".*"big".*"memory_list".*"a"`).Match(o.Memory)
		}),
		one("memory/environment", Must, "5", post(edit(cheap, `"user"`, `"env"`)), every("a SYSTEM turn", func(o output) bool {
			return len(o.history()) == 2 && o.history()[0].Author == "SYSTEM"
		})),
		one("memory/nothing-invented", Should, "5", post(cheap), every("a history and nothing else", func(o output) bool {
			return len(maps.Collect(protocol.Members(protocol.Raw(o.Memory)))) == 1
		})),
		one("memory/failed", Should, "5", post(input(unusable+`,"memory":`+given)),
			failed(every("an error returns the memory as it came", func(o output) bool { return equal(o.Memory, []byte(given)) }))),
		many("memory/continued", Must, "5", "the returned memory is the next request's", func(p *probe) {
			memory := string(p.take(post(cheap), decided).outputs()[0].Memory)
			p.take(post(remembering(memory)), every("a history of 4 turns", func(o output) bool { return len(o.history()) == 4 }))
		}),
		answered("memory/candidates", Must, every("the last turn has the candidate's own decision", func(o output) bool {
			return o.Output == nil || o.last() == "" || strings.Contains(o.last(), strings.Trim(encode(o.Output.Say), `"`))
		})),
		one("memory/place", May, "5", post(remembering(`{"history":[{"author":"USER","content":"a"},{"author":"DOG","content":""}]}`)),
			problem("", "body.inputs[0].memory.history[1].author")),
	}
	list = append(list, modelMemories()...)
	list = append(list, variants(badMemories, "5", post(remembering(`{}`)), refused)...)
	list = append(list, variants(goodMemories, "5", post(remembering(`{}`)), decided)...)
	return with(needHistory, with(needResume, list...)...)
}
