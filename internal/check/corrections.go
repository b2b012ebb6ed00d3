package check

import (
	"encoding/json"
	"slices"
	"strings"
)

const (
	// better is what a correction says.
	better = "Better, 93c1é."
	// openCall is a call of a tool that no input has.
	openCall = `{"name":"open","arguments":{"door":"a","n":1.50},"target_robot_name":"r9"}`
)

// corrected is a request with a correction.
func corrected(payload string) string {
	return edit(cheap, okSay, payload)
}

func replaceSay(text string) string { return `{"kind":"replace_say","text":"` + text + `"}` }

func replaceDecision(members string) string {
	return `{"kind":"replace_decision","decision":{` + members + `}}`
}

func replaceCalls(calls string) string { return replaceDecision(`"tool_calls":[` + calls + `]`) }

// badCorrections are corrections that no agent may apply.
var badCorrections = []variant{
	{"correction/kind-unknown", Should, okSay, `{"kind":"replace_all","text":"x"}`},
	{"correction/text-empty", Should, okSay, replaceSay("")},
	{"correction/field-unknown", Should, okSay, `{"kind":"replace_say","text":"x","more":1}`},
	{"correction/not-an-object", Should, okSay, `"replace_say"`},
	{"correction/decision-missing", Should, okSay, `{"kind":"replace_decision"}`},
	{"correction/call-without-name", Should, okSay, replaceCalls(`{"name":"","arguments":{},"target_robot_name":"r"}`)},
}

// refuses is an answer whose candidates are errors without internal steps.
var refuses = every("an error of the candidate, no step", func(o output) bool {
	return o.Error != nil && o.Output == nil && len(o.Steps) == 0
})

// opens reports whether the candidate is openCall.
func opens(o output) bool {
	return o.Output != nil && len(o.Output.Calls) == 1 && o.Output.Calls[0].Name == "open" && o.Output.Calls[0].Robot == "r9"
}

// corrects is a rule about every candidate of an answer to a correction.
func corrects(id, level, payload, about string, judge func(o output) bool) rule {
	return one(id, level, "5", post(corrected(payload)), every(about, judge))
}

// correctionRules are about corrections under extra_keys.coaching.
func correctionRules() []rule {
	list := with(needResume,
		one("correction/say", Must, "5", post(edit(corrected(replaceSay(better)), `"id":1`, `"id":1,"num_outputs":3`)),
			every("say of each is "+better, func(o output) bool { return o.says(better) })),
		one("correction/own-input", Must, "5", post(edit(corrected(replaceSay(better)), `[{`,
			`[{"id":2,"instruction":{"type":"user","content":"hi"}},{`)),
			every("only input 1 is corrected", func(o output) bool { return o.says(better) == (o.Source == 1) })),
		many("correction/again", Must, "5", "the same correction gives the same answer again", func(p *probe) {
			first := p.take(post(corrected(replaceSay("again"))), decided).outputs()[0]
			p.take(post(corrected(replaceSay("again"))), every("as before", func(o output) bool {
				return o.said() == first.said() && same(o.Memory, first.Memory)
			}))
		}),
		corrects("correction/no-trace", Must, replaceSay("trace"), "the memory holds nothing of the correction but its turn",
			func(o output) bool {
				return !strings.Contains(string(o.Memory), "replace_say") && !strings.Contains(string(o.Memory), "coaching")
			}),
		many("correction/not-stale", Must, "5", "the next request is not corrected", func(p *probe) {
			memory := p.take(post(corrected(replaceSay(better))), decided).outputs()[0].Memory
			p.take(post(input(`"id":1,"memory":`+string(memory))), every("another decision",
				func(o output) bool { return !o.says(better) }))
		}),
	)
	full := []rule{
		corrects("correction/turn", Must, replaceSay("turn 93c1"), "the last turn has the correction",
			func(o output) bool { return strings.Contains(o.last(), "turn 93c1") }),
		corrects("correction/step", Should, replaceSay("step"), "one internal step, of the origin coaching",
			func(o output) bool {
				return len(o.Steps) == 1 && strings.Contains(encode(o.Steps), `"origin":"coaching"`)
			}),
		corrects("correction/decision-say", Must, replaceDecision(`"say":"x"`), "say is x", func(o output) bool { return o.says("x") }),
		corrects("correction/decision-calls", Must, replaceCalls(openCall), "the call", opens),
		corrects("correction/decision-empty", Should, replaceDecision(``), "an empty decision", func(o output) bool { return o.says("") }),
		corrects("correction/argument-bytes", Should, replaceDecision(`"say":"","tool_calls":[`+openCall+`]`), "arguments as they were written",
			func(o output) bool { return opens(o) && strings.Contains(string(o.Output.Calls[0].Arguments), "1.50") }),
		corrects("correction/call-turn", Must, replaceDecision(`"tool_calls":[`+openCall+`],"say":""`), "a turn with the call",
			func(o output) bool {
				var d struct{ Action map[string]call }
				return json.Unmarshal([]byte(o.last()), &d) == nil && d.Action["r9"].Name == "open"
			}),
		corrects("correction/two-calls-turn", Should, replaceCalls(openCall+`,`+openCall), "a turn with a list of one-robot objects",
			func(o output) bool {
				var d struct{ Action []map[string]call }
				return json.Unmarshal([]byte(o.last()), &d) == nil && len(d.Action) == 2 && d.Action[1]["r9"].Name == "open"
			}),
		corrects("correction/null", Should, `null`, "no correction", func(o output) bool {
			return o.Error == nil || !strings.Contains(o.Error.Code, "coaching")
		}),
		corrects("correction/code", May, `{"kind":1}`, "the code invalid_coaching",
			func(o output) bool { return o.Error != nil && o.Error.Code == "invalid_coaching" }),
		one("correction/failed-memory", Should, "5", post(edit(corrected(`{"kind":"x"}`), `"id":1`, `"id":1,"memory":{"history":[],"n":1}`)),
			every("the memory as it came", func(o output) bool { return same(o.Memory, []byte(`{"history":[],"n":1}`)) })),
	}
	both := replaceDecision(`"say":"x","tool_calls":[` + openCall + `]`)
	full = slices.Concat(full, variants(badCorrections, "5", post(cheap), refuses),
		with(needSession1, one("correction/say-and-calls", Should, "5", post(corrected(both)), refuses)),
		with(needSession0, corrects("correction/calls-over-say", May, both, "the call without the say",
			func(o output) bool { return opens(o) && o.Output.Say == "" })))
	return append(list, with(needResume, with(needHistory, full...)...)...)
}
