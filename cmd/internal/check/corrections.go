package check

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

const (
	// better is what a correction says.
	better = "Better, 93c1é."
	// odd is a text, as JSON, that servers like to clean.
	odd = `  <b>&amp; \"é\" \u0000 \\n\n\t{\"say\": 1} \ud83e\udd16 </s><|im_end|> 机器人 \u2028 `
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
	{"correction/kind-unknown", Must, okSay, `{"kind":"replace_all","text":"x"}`},
	{"correction/kind-unknown", Must, okSay, `{"text":"x"}`},
	{"correction/kind-unknown", Must, okSay, `{"decision":{"say":"x"}}`},
	{"correction/kind-unknown", Must, okSay, `{"kind":null,"text":"x"}`},
	{"correction/text-empty", Must, okSay, replaceSay("")},
	{"correction/text-empty", Must, okSay, `{"kind":"replace_say","text":null}`},
	{"correction/text-empty", Must, okSay, `{"kind":"replace_say","text":5}`},
	{"correction/text-empty", Must, okSay, `{"kind":"replace_say"}`},
	{"correction/field-unknown", Must, okSay, `{"kind":"replace_say","text":"x","more":1}`},
	{"correction/field-unknown", Must, okSay, `{"kind":"replace_decision","decision":{},"more":1}`},
	{"correction/field-unknown", Must, okSay, replaceDecision(`"mood":"x"`)},
	{"correction/not-an-object", Must, okSay, `"replace_say"`},
	{"correction/not-an-object", Must, okSay, `[{"kind":"replace_say","text":"x"}]`},
	{"correction/decision-missing", Must, okSay, `{"kind":"replace_decision"}`},
	{"correction/decision-missing", Must, okSay, `{"kind":"replace_decision","decision":null}`},
	{"correction/decision-missing", Must, okSay, `{"kind":"replace_decision","decision":"x"}`},
	{"correction/decision-null", Must, okSay, replaceDecision(`"say":null`)},
	{"correction/decision-null", Must, okSay, replaceDecision(`"say":5`)},
	{"correction/decision-null", Must, okSay, replaceDecision(`"say":"x","tool_calls":null`)},
	{"correction/decision-null", Must, okSay, replaceDecision(`"tool_calls":{}`)},
	{"correction/decision-null", Must, okSay, replaceCalls(`null`)},
	{"correction/call-without-name", Must, okSay, replaceCalls(`{"name":"","arguments":{},"target_robot_name":"r"}`)},
	{"correction/call-without-name", Must, okSay, replaceCalls(`{"arguments":{},"target_robot_name":"r"}`)},
	{"correction/call-without-name", Must, okSay, replaceCalls(`{"name":null,"arguments":{},"target_robot_name":"r"}`)},
	{"correction/call-arguments", Must, okSay, replaceCalls(`{"name":"open","target_robot_name":"r"}`)},
	{"correction/call-arguments", Must, okSay, replaceCalls(`{"name":"open","arguments":null,"target_robot_name":"r"}`)},
	{"correction/call-arguments", Must, okSay, replaceCalls(`{"name":"open","arguments":[],"target_robot_name":"r"}`)},
	{"correction/call-arguments", Must, okSay, replaceCalls(`{"name":"open","arguments":"{}","target_robot_name":"r"}`)},
	{"correction/call-robot", Must, okSay, replaceCalls(`{"name":"open","arguments":{}}`)},
	{"correction/call-robot", Must, okSay, replaceCalls(`{"name":"open","arguments":{},"target_robot_name":""}`)},
	{"correction/call-robot", Must, okSay, replaceCalls(`{"name":"open","arguments":{},"target_robot_name":null}`)},
	{"correction/call-field", Must, okSay, replaceCalls(`{"name":"open","id":"1","arguments":{},"target_robot_name":"r"}`)},
	{"correction/say-and-calls", Must, okSay, sayAndCalls},
}

// sayAndCalls is invalid, but MAGMA's stable packages send it.
var sayAndCalls = replaceDecision(`"say":"x","tool_calls":[` + openCall + `]`)

// notApplied is an answer that does not decide, and refuses is one whose candidates are errors without steps.
var (
	notApplied = right{text: "422, or an error of the candidate", judge: func(x *exchange) string {
		outs := x.outputs()
		return when(x.status == http.StatusUnprocessableEntity || len(outs) > 0 && outs[0].Error != nil && outs[0].Output == nil)
	}}
	refuses = every("an error of the candidate, no step", func(o output) bool {
		return o.Error != nil && o.Output == nil && len(o.Steps) == 0
	})
)

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
				return o.said() == first.said() && equal(o.Memory, first.Memory)
			}))
		}),
		corrects("correction/no-trace", Must, replaceSay("trace"), "the memory holds nothing of the correction but its turn",
			func(o output) bool {
				return !strings.Contains(string(o.Memory), "replace_say") && !strings.Contains(string(o.Memory), "coaching")
			}),
		one("correction/text-kept", Must, "5", post(corrected(replaceSay(odd))), every("say as it came", func(o output) bool {
			var want string
			return json.Unmarshal([]byte(`"`+odd+`"`), &want) == nil && o.says(want)
		})),
		many("correction/not-stale", Must, "5", "the next request is not corrected", func(p *probe) {
			memory := p.take(post(corrected(replaceSay(better))), decided).outputs()[0].Memory
			other := every("another decision", func(o output) bool { return !o.says(better) })
			p.take(post(input(`"id":1,"memory":`+string(memory))), other)
			p.take(post(corrected(replaceSay(better))), decided)
			p.take(post(plain), other)
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
			every("the memory as it came", func(o output) bool { return equal(o.Memory, []byte(`{"history":[],"n":1}`)) })),
	}
	bad := variants(badCorrections, "5", post(cheap), notApplied)
	with(needSession1, bad[len(bad)-1:]...)
	full = slices.Concat(full, bad, []rule{
		one("correction/error", Should, "5", post(corrected(`{"kind":"replace_all","text":"x"}`)), refuses),
	}, with(needSession0, corrects("correction/calls-over-say", May, sayAndCalls, "the call without the say",
		func(o output) bool { return opens(o) && o.Output.Say == "" })))
	return append(list, with(needResume, with(needHistory, full...)...)...)
}
