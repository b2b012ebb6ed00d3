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

// lastTurn is the content of the last turn of a history.
func (p *probe) lastTurn(memory json.RawMessage) string {
	turns := p.history(memory)
	if len(turns) == 0 {
		p.fail("memory is %s", shown(string(memory)))
	}
	return turns[len(turns)-1].Content
}

// correctionRules are about corrections under extra_keys.coaching.
func correctionRules() []rule {
	list := with(needResume,
		many("correction/say", Must, "5", "replace_say is the decision", func(p *probe) {
			if o := p.first(corrected(replaceSay(better))); o.Output == nil || o.Output.Say != better || len(o.Output.Calls) > 0 {
				p.fail("got %s", o.said())
			}
		}),
		many("correction/candidates", Must, "5", "each of num_outputs candidates is corrected", func(p *probe) {
			for _, o := range p.outputs(p.send(post(edit(corrected(replaceSay(better)), `"id":1`, `"id":1,"num_outputs":3`)))) {
				if o.Output == nil || o.Output.Say != better {
					p.fail("candidate %d: %s", o.Index, o.said())
				}
			}
		}),
		many("correction/own-input", Must, "5", "a correction is applied to its own input only", func(p *probe) {
			outs := p.outputs(p.send(post(edit(corrected(replaceSay(better)), `[{`, `[{"id":2,"instruction":{"type":"user","content":"hi"}},{`))))
			if len(outs) != 2 || outs[0].Output != nil && outs[0].Output.Say == better || outs[1].Output == nil || outs[1].Output.Say != better {
				p.fail("got %s", p.last)
			}
		}),
		many("correction/again", Must, "5", "the same correction gives the same answer again", func(p *probe) {
			body := corrected(replaceSay("again"))
			first, second := p.first(body), p.first(body)
			if first.said() != second.said() || !same(first.Memory, second.Memory) {
				p.fail("got %s, then %s", first.said(), second.said())
			}
		}),
		many("correction/no-trace", Must, "5", "the memory holds nothing of the correction but its turn", func(p *probe) {
			if memory := string(p.first(corrected(replaceSay("trace"))).Memory); strings.Contains(memory, "replace_say") || strings.Contains(memory, "coaching") {
				p.fail("memory is %s", shown(memory))
			}
		}),
		many("correction/not-stale", Must, "5", "the next request is not corrected", func(p *probe) {
			memory := p.first(corrected(replaceSay(better))).Memory
			if o := p.first(edit(plain, `"id":1`, `"id":1,"memory":`+string(memory))); o.Output != nil && o.Output.Say == better {
				p.fail("got %s", o.said())
			}
		}),
	)
	list = append(list, with(needResume|needHistory,
		many("correction/turn", Must, "5", "the last turn of the history is the correction", func(p *probe) {
			if last := p.lastTurn(p.first(corrected(replaceSay("turn 93c1"))).Memory); !strings.Contains(last, "turn 93c1") {
				p.fail("it is %s", last)
			}
		}),
		many("correction/step", Should, "5", "one internal step tells the origin coaching", func(p *probe) {
			o := p.first(corrected(replaceSay("step")))
			var step struct{ Origin string }
			if len(o.Steps) != 1 || json.Unmarshal(o.Steps[0], &step) != nil || step.Origin != "coaching" {
				p.fail("it has %d steps, of the origin %q", len(o.Steps), step.Origin)
			}
		}),
		many("correction/decision-say", Must, "5", "replace_decision may say something", func(p *probe) {
			if o := p.first(corrected(replaceDecision(`"say":"x"`))); o.Output == nil || o.Output.Say != "x" {
				p.fail("got %s", o.said())
			}
		}),
		many("correction/decision-calls", Must, "5", "replace_decision may call tools and robots that no input has", func(p *probe) {
			x := p.send(post(corrected(replaceDecision(`"tool_calls":[` + openCall + `]`))))
			o := p.outputs(x)[0]
			if o.Output == nil || len(o.Output.Calls) != 1 || o.Output.Calls[0].Name != "open" || o.Output.Calls[0].Robot != "r9" {
				p.fail("got %s", o.said())
			}
			if err := problemsOf(x, "calls"); err != nil {
				p.fail("%v", err)
			}
		}),
		many("correction/argument-bytes", Should, "5", "arguments return as they were written", func(p *probe) {
			o := p.first(corrected(replaceDecision(`"say":"","tool_calls":[` + openCall + `]`)))
			if o.Output == nil || len(o.Output.Calls) != 1 || !strings.Contains(string(o.Output.Calls[0].Arguments), "1.50") {
				p.fail("got %s", o.said())
			}
		}),
		many("correction/call-turn", Must, "5", "the turn of a call has it under its robot's name", func(p *probe) {
			last := p.lastTurn(p.first(corrected(replaceDecision(`"tool_calls":[` + openCall + `],"say":""`))).Memory)
			var d struct {
				Action map[string]struct{ Name string }
			}
			if err := json.Unmarshal([]byte(last), &d); err != nil || d.Action["r9"].Name != "open" {
				p.fail("it is %s", last)
			}
		}),
		many("correction/two-calls-turn", Should, "5", "two calls of one robot are a list of one-robot objects", func(p *probe) {
			last := p.lastTurn(p.first(corrected(replaceDecision(`"tool_calls":[` + openCall + `,` + openCall + `]`))).Memory)
			var d struct {
				Action []map[string]struct{ Name string }
			}
			if err := json.Unmarshal([]byte(last), &d); err != nil || len(d.Action) != 2 || d.Action[1]["r9"].Name != "open" {
				p.fail("it is %s", last)
			}
		}),
		many("correction/decision-empty", Should, "5", "an empty decision is valid", func(p *probe) {
			if o := p.first(corrected(replaceDecision(``))); o.Output == nil || o.Output.Say != "" || len(o.Output.Calls) > 0 {
				p.fail("got %s", o.said())
			}
		}),
		many("correction/null", Should, "5", "a correction that is null counts as absent", func(p *probe) {
			if o := p.first(corrected(`null`)); o.Error != nil && strings.Contains(o.Error.Code, "coaching") {
				p.fail("got %s", o.said())
			}
		}),
		many("correction/code", May, "5", "the code of an invalid correction is invalid_coaching", func(p *probe) {
			if o := p.first(corrected(`{"kind":1}`)); o.Error == nil || o.Error.Code != "invalid_coaching" {
				p.fail("got %s", o.said())
			}
		}),
		many("correction/failed-memory", Should, "5", "an invalid correction changes no memory", func(p *probe) {
			if o := p.first(edit(corrected(`{"kind":"x"}`), `"id":1`, `"id":1,"memory":{"history":[],"n":1}`)); !same(o.Memory, []byte(`{"history":[],"n":1}`)) {
				p.fail("memory is %s", o.Memory)
			}
		}),
	)...)
	for _, bad := range badCorrections {
		list = append(list, with(needResume|needHistory, invalidCorrection(bad.id, Should, bad.payload))...)
	}
	const mixed = "correction/say-and-calls"
	return append(list, with(needResume|needHistory|needSession1, invalidCorrection(mixed, Should, replaceDecision(`"say":"x","tool_calls":[`+openCall+`]`)))...)
}

// invalidCorrection is a rule about a correction that becomes an error of its candidate.
func invalidCorrection(id, level, payload string) rule {
	return many(id, level, "5", payload+" is an error of its candidate", func(p *probe) {
		if o := p.first(corrected(payload)); o.Error == nil || o.Output != nil {
			p.fail("got %s", o.said())
		}
	})
}
