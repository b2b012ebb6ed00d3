package check

import (
	"encoding/json"
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
	return edit(cheap, `{"kind":"replace_say","text":"ok"}`, payload)
}

func replaceSay(text string) string { return `{"kind":"replace_say","text":"` + text + `"}` }

func replaceDecision(members string) string {
	return `{"kind":"replace_decision","decision":{` + members + `}}`
}

// badCorrections are corrections that no agent may apply.
var badCorrections = []struct{ id, payload string }{
	{"correction/kind-unknown", `{"kind":"replace_all","text":"x"}`},
	{"correction/kind-missing", `{"text":"x"}`},
	{"correction/text-empty", replaceSay("")},
	{"correction/text-missing", `{"kind":"replace_say"}`},
	{"correction/text-number", `{"kind":"replace_say","text":1}`},
	{"correction/field-unknown", `{"kind":"replace_say","text":"x","more":1}`},
	{"correction/not-an-object", `"replace_say"`},
	{"correction/decision-missing", `{"kind":"replace_decision"}`},
	{"correction/call-without-name", replaceDecision(`"tool_calls":[{"name":"","arguments":{},"target_robot_name":"r"}]`)},
	{"correction/call-without-robot", replaceDecision(`"tool_calls":[{"name":"n","arguments":{}}]`)},
	{"correction/arguments-list", replaceDecision(`"tool_calls":[{"name":"n","arguments":[],"target_robot_name":"r"}]`)},
}

// opens reports whether the candidate is openCall.
func opens(_ *probe, o output) bool {
	return o.Output != nil && len(o.Output.Calls) == 1 && o.Output.Calls[0].Name == "open" && o.Output.Calls[0].Robot == "r9"
}

// invalidCorrection is a rule about a correction that becomes an error of its candidate.
func invalidCorrection(id, payload string) rule {
	return each(id, Should, "an error of the candidate for "+payload, corrected(payload), func(_ *probe, o output) bool {
		return o.Error != nil && o.Output == nil
	})
}

// correctionRules are about corrections under extra_keys.coaching.
func correctionRules() []rule {
	list := with(needResume,
		each("correction/say", Must, "replace_say is the decision", corrected(replaceSay(better)), func(_ *probe, o output) bool {
			return o.says(better)
		}),
		each("correction/candidates", Must, "each candidate is corrected", edit(corrected(replaceSay(better)), `"id":1`, `"id":1,"num_outputs":3`),
			func(_ *probe, o output) bool { return o.says(better) }),
		each("correction/own-input", Must, "a correction is applied to its own input only",
			edit(corrected(replaceSay(better)), `[{`, `[{"id":2,"instruction":{"type":"user","content":"hi"}},{`),
			func(_ *probe, o output) bool { return o.says(better) == (o.Source == 1) }),
		many("correction/again", Must, "5", "the same correction gives the same answer again", func(p *probe) {
			first, second := p.first(corrected(replaceSay("again"))), p.first(corrected(replaceSay("again")))
			if first.said() != second.said() || !same(first.Memory, second.Memory) {
				p.fail("got %s, then %s", first.said(), second.said())
			}
		}),
		each("correction/no-trace", Must, "the memory holds nothing of the correction but its turn", corrected(replaceSay("trace")), func(_ *probe, o output) bool {
			return !strings.Contains(string(o.Memory), "replace_say") && !strings.Contains(string(o.Memory), "coaching")
		}),
		many("correction/not-stale", Must, "5", "the next request is not corrected", func(p *probe) {
			memory := p.first(corrected(replaceSay(better))).Memory
			if o := p.first(edit(plain, `"id":1`, `"id":1,"memory":`+string(memory))); o.says(better) {
				p.fail("got %s", o.said())
			}
		}),
	)
	full := []rule{
		each("correction/turn", Must, "the last turn of the history is the correction", corrected(replaceSay("turn 93c1")), func(_ *probe, o output) bool {
			return strings.Contains(o.last(), "turn 93c1")
		}),
		each("correction/step", Should, "one internal step tells the origin coaching", corrected(replaceSay("step")), func(_ *probe, o output) bool {
			return len(o.Steps) == 1 && strings.Contains(encode(o.Steps), `"origin":"coaching"`)
		}),
		each("correction/decision-say", Must, "replace_decision may say something", corrected(replaceDecision(`"say":"x"`)), func(_ *probe, o output) bool {
			return o.says("x")
		}),
		each("correction/decision-calls", Must, "replace_decision may call any tools and robots", corrected(replaceDecision(`"tool_calls":[`+openCall+`]`)), opens),
		each("correction/decision-empty", Should, "an empty decision is valid", corrected(replaceDecision(``)), func(_ *probe, o output) bool { return o.says("") }),
		each("correction/argument-bytes", Should, "arguments return as they were written", corrected(replaceDecision(`"say":"","tool_calls":[`+openCall+`]`)),
			func(p *probe, o output) bool {
				return opens(p, o) && strings.Contains(string(o.Output.Calls[0].Arguments), "1.50")
			}),
		each("correction/call-turn", Must, "the turn of a call has it under its robot's name", corrected(replaceDecision(`"tool_calls":[`+openCall+`],"say":""`)),
			func(_ *probe, o output) bool {
				var d struct{ Action map[string]call }
				return json.Unmarshal([]byte(o.last()), &d) == nil && d.Action["r9"].Name == "open"
			}),
		each("correction/two-calls-turn", Should, "two calls of one robot are a list of one-robot objects",
			corrected(replaceDecision(`"tool_calls":[`+openCall+`,`+openCall+`]`)), func(_ *probe, o output) bool {
				var d struct{ Action []map[string]call }
				return json.Unmarshal([]byte(o.last()), &d) == nil && len(d.Action) == 2 && d.Action[1]["r9"].Name == "open"
			}),
		each("correction/null", Should, "a correction that is null counts as absent", corrected(`null`), func(_ *probe, o output) bool {
			return o.Error == nil || !strings.Contains(o.Error.Code, "coaching")
		}),
		each("correction/code", May, "the code of an invalid correction is invalid_coaching", corrected(`{"kind":1}`), func(_ *probe, o output) bool {
			return o.Error != nil && o.Error.Code == "invalid_coaching"
		}),
		each("correction/failed-memory", Should, "an invalid correction changes no memory",
			edit(corrected(`{"kind":"x"}`), `"id":1`, `"id":1,"memory":{"history":[],"n":1}`),
			func(_ *probe, o output) bool { return same(o.Memory, []byte(`{"history":[],"n":1}`)) }),
	}
	for _, bad := range badCorrections {
		full = append(full, invalidCorrection(bad.id, bad.payload))
	}
	both := invalidCorrection("correction/say-and-calls", replaceDecision(`"say":"x","tool_calls":[`+openCall+`]`))
	return append(append(list, with(needResume|needHistory, full...)...), with(needResume|needHistory|needSession1, both)...)
}
