package check

import (
	"net/http"
	"slices"
	"strings"

	"agentd/protocol"
)

// coachingBody asks for the repair of a step.
const coachingBody = `{"run_id":"RULE","request_id":"RULE","kind":"failure","stage":{"id":1,"goal":"The pantry is open."},` +
	`"target_step_id":3,"trajectory":[{"id":3,"input":{"id":7,"instruction":{"type":"user","content":"Open the pantry."},` +
	`"tools":[{"name":"open","description":"Opens a door.","parameters":{"door":{"description":"Which","type":"str"}}}],` +
	`"attributes":{"known_robots":["arm"]}},"output":{"say":"There is no pantry."}}],` +
	`"reinjection_points":[{"id":"start","input_step_id":3}]}`

// postCoaching posts a body to /v1/coaching.
func postCoaching(body string) request {
	return request{method: http.MethodPost, path: "/v1/coaching", text: text{head: body}}
}

const (
	points  = `[{"id":"start","input_step_id":3}]`
	anInput = `"input":{"id":1,"instruction":{"type":"user","content":"x"}}`
)

// badCoaching are edits of coachingBody that make it invalid.
var badCoaching = []struct{ id, level, old, replacement string }{
	{"coaching/truncated", Must, points + `}`, points},
	{"coaching/unknown-field", Must, `"kind"`, `"more":1,"kind"`},
	{"coaching/run-missing", Must, `"run_id":"RULE",`, ``},
	{"coaching/run-empty", Must, `"run_id":"RULE"`, `"run_id":""`},
	{"coaching/id-missing", Must, `"request_id":"RULE",`, ``},
	{"coaching/id-empty", Must, `"request_id":"RULE"`, `"request_id":""`},
	{"coaching/kind-missing", Must, `"kind":"failure",`, ``},
	{"coaching/kind-unknown", Must, `"failure"`, `"boredom"`},
	{"coaching/stage-missing", Must, `"stage":{"id":1,"goal":"The pantry is open."},`, ``},
	{"coaching/stage-number", Must, `{"id":1,"goal":"The pantry is open."}`, `1`},
	{"coaching/target-missing", Must, `"target_step_id":3,`, ``},
	{"coaching/target-text", Must, `"target_step_id":3`, `"target_step_id":"3"`},
	{"coaching/target-absent", Must, `"target_step_id":3`, `"target_step_id":4`},
	{"coaching/trajectory-object", Must, `[{"id":3`, `{"id":[{"id":3`},
	{"coaching/step-twice", Must, `"trajectory":[`, `"trajectory":[{"id":3,` + anInput + `},`},
	{"coaching/step-without-id", Must, `"trajectory":[`, `"trajectory":[{` + anInput + `},`},
	{"coaching/step-without-input", Must, `"trajectory":[`, `"trajectory":[{"id":4},`},
	{"coaching/step-field", Must, `[{"id":3`, `[{"reward":1,"id":3`},
	{"coaching/step-input-invalid", Must, `"type":"user"`, `"type":"bot"`},
	{"coaching/step-decision-invalid", Should, `"output":{"say"`, `"output":{"tool_calls":[` + openCall + `],"say"`},
	{"coaching/execution-list", Must, `[{"id":3`, `[{"execution":[],"id":3`},
	{"coaching/points-missing", Must, `,"reinjection_points":` + points, ``},
	{"coaching/points-null", Should, points, `null`},
	{"coaching/point-twice", Must, points, `[{"id":"start","input_step_id":3},{"id":"start","input_step_id":3}]`},
	{"coaching/point-without-place", Must, points, `[{"id":"start"}]`},
	{"coaching/point-two-places", Must, `"input_step_id":3`, `"input_step_id":3,` + anInput},
	{"coaching/point-step-absent", Must, `"input_step_id":3`, `"input_step_id":5`},
	{"coaching/point-id-number", Must, `"id":"start"`, `"id":1`},
	{"coaching/errors-object", Should, `"kind"`, `"active_errors":{},"kind"`},
}

// goodCoaching are edits of coachingBody that keep it valid.
var goodCoaching = []struct{ id, level, old, replacement string }{
	{"coaching/hint", Must, `"id":1,"goal"`, `"hint":null,"id":1,"goal"`},
	{"coaching/stage-text", Should, `{"id":1,"goal":"The pantry is open."}`, `"The pantry is open."`},
	{"coaching/errors", Must, `"kind"`, `"active_errors":[{"code":"c","description":"d","details":{}}],` +
		`"diagnosis":{"explanation":"e","expected_decision":null},"additional_info":{"x":1},"kind"`},
	{"coaching/context", Should, `"kind"`, `"context":{"additional_info":{"x":1}},"kind"`},
	{"coaching/step-error", Must, `"output":{"say":"There is no pantry."}`, `"error":{"code":"c","message":"m"}`},
	{"coaching/step-records", Must, `[{"id":3`, `[{"internal_steps":[{"id":"step-0"}],"execution":{"took":1.5},"id":3`},
	{"coaching/point-input", Must, `"input_step_id":3`, anInput},
}

// coach opens a session and asks for a repair, whose answer must be valid for the request.
func (p *probe) coach(config, body string) *protocol.SpecializedCoachingResponse {
	p.open(ruleName, config)
	return p.repair(body)
}

// repair asks for a repair.
func (p *probe) repair(body string) *protocol.SpecializedCoachingResponse {
	x := p.send(postCoaching(body))
	p.expect(x, ok)
	response, err := protocol.DecodeSpecializedCoachingResponse(x.body)
	if err != nil {
		p.fail("%v in %s", err, x)
	}
	if request, err := protocol.DecodeSpecializedCoachingRequest([]byte(x.request.text.head)); err != nil {
		p.fail("%v", err)
	} else if err = response.Validate(request); err != nil {
		p.fail("%v in %s", err, x)
	}
	return response
}

// statusIs ends a rule whose coaching has another status, without a verdict if the coach was not asked.
func (p *probe) statusIs(r *protocol.SpecializedCoachingResponse, statuses ...string) {
	if len(p.kit.coach.questions(p.rule.id)) == 0 {
		p.unexercised("the kit's coach was not asked: %s", p.last)
	}
	if !slices.Contains(statuses, r.Status) {
		p.fail("status is %s (%s); right is %s", r.Status, r.Reason, strings.Join(statuses, " or "))
	}
}

// repairs is a rule about a coaching with a configuration.
func repairs(id, level, about, config, body string, judge func(p *probe, r *protocol.SpecializedCoachingResponse)) rule {
	return many(id, level, "6", about, func(p *probe) { judge(p, p.coach(config, body)) })
}

// any valid answer is right.
func valid(*probe, *protocol.SpecializedCoachingResponse) {}

// coachingRules are about requests for a repair and their answers.
func coachingRules() []rule {
	list := []rule{
		one("coaching/empty", Must, "6", postCoaching(""), refused),
		one("coaching/unknown-run", Must, "6", postCoaching(coachingBody), status(http.StatusNotFound)),
		one("coaching/unknown-run-form", Should, "3", postCoaching(coachingBody), sentence),
		one("coaching/body-first", Should, "6", postCoaching(edit(coachingBody, `"failure"`, `"x"`)), problem("", "body.kind")),
		one("coaching/type-text", Should, "1", request{
			method: http.MethodPost, path: "/v1/coaching", header: []string{"Content-Type: text/plain"}, text: text{head: coachingBody},
		}, status(http.StatusUnsupportedMediaType)),
		repairs("coaching/answer", Must, "the answer is valid for its request", session, coachingBody, valid),
		repairs("coaching/request-id", Must, "request_id returns", session, edit(coachingBody, `"request_id":"RULE"`, `"request_id":"é RULE"`), valid),
		repairs("coaching/no-points", Should, "without a point to begin again the coaching is abandoned", session,
			edit(coachingBody, points, `[]`), func(p *probe, r *protocol.SpecializedCoachingResponse) {
				if r.Status != protocol.CoachingAbandoned {
					p.fail("status is %s", r.Status)
				}
			}),
		repairs("coaching/babble", Must, "an answer without a correction is abandoned or an error, with a reason", coached(coachBabbles), coachingBody,
			func(p *probe, r *protocol.SpecializedCoachingResponse) {
				p.statusIs(r, protocol.CoachingAbandoned, protocol.CoachingFailed)
			}),
		repairs("coaching/fault", Must, "a coach that fails is an error with a reason", coached(coachFails), coachingBody,
			func(p *probe, r *protocol.SpecializedCoachingResponse) {
				p.statusIs(r, protocol.CoachingFailed, protocol.CoachingAbandoned)
			}),
		repairs("coaching/logs", Should, "a coaching that failed has a log", coached(coachBabbles), edit(coachingBody, `"failure"`, `"format"`),
			func(p *probe, r *protocol.SpecializedCoachingResponse) {
				if r.Status != protocol.CoachingCorrected && len(r.Logs) == 0 {
					p.fail("it has none")
				}
			}),
		repairs("coaching/logs-off", Should, "without capture_logs there is no log", edit(coached(coachBabbles), `{"backends"`, `{"capture_logs":false,"backends"`),
			coachingBody, func(p *probe, r *protocol.SpecializedCoachingResponse) {
				if len(r.Logs) > 0 {
					p.fail("it has %d", len(r.Logs))
				}
			}),
		repairs("coaching/secrets", Must, "the answer holds no header of the session", session, coachingBody,
			func(p *probe, _ *protocol.SpecializedCoachingResponse) {
				if strings.Contains(string(p.last.body), coachKey) {
					p.fail("it has the key")
				}
			}),
		repairs("coaching/reinjection", Must, "a proposal becomes the decision at its point", session, coachingBody,
			func(p *probe, r *protocol.SpecializedCoachingResponse) {
				if r.Status != protocol.CoachingCorrected {
					p.unexercised("nothing was corrected: %s", r.Reason)
				}
				o := p.first(corrected(string(r.Proposals[0].ExtraKeys)))
				if o.Output == nil || !strings.Contains(string(r.Proposals[0].ExtraKeys), coachSay) || o.Output.Say != coachSay {
					p.fail("got %s for %s", o.said(), r.Proposals[0].ExtraKeys)
				}
			}),
		repairs("coaching/same-again", May, "the same request again has the same answer", session, coachingBody,
			func(p *probe, _ *protocol.SpecializedCoachingResponse) {
				if first := p.last; string(p.send(postCoaching(coachingBody)).body) != string(first.body) {
					p.fail("got %s, then %s", first, p.last)
				}
			}),
	}
	for _, kind := range protocol.CoachingKinds() {
		list = append(list, many("coaching/kind-"+kind, Must, "6", "a declared kind is answered", func(p *probe) {
			if !slices.Contains(p.kit.info.Kinds, kind) {
				p.unexercised("specialized_coaching is %v", p.kit.info.Kinds)
			}
			p.coach(session, edit(coachingBody, `"failure"`, `"`+kind+`"`))
		}))
	}
	for _, bad := range badCoaching {
		body := edit(coachingBody, bad.old, bad.replacement)
		if bad.id == "coaching/trajectory-object" {
			body = edit(body, `],"reinjection`, `]},"reinjection`)
		}
		list = append(list, one(bad.id, bad.level, "6", postCoaching(body), refused))
	}
	for _, good := range goodCoaching {
		list = append(list, repairs(good.id, good.level, "it is accepted: "+good.replacement, session, edit(coachingBody, good.old, good.replacement), valid))
	}
	human := func(does string, statuses ...string) rule {
		return repairs("human"+strings.TrimSuffix(does, "/"), Must, "a task that is "+strings.Trim(does, "/")+" ends as "+statuses[0],
			edit(person, humanCorrects, does), coachingBody, func(p *probe, r *protocol.SpecializedCoachingResponse) { p.statusIs(r, statuses...) })
	}
	list = append(list, with(needSession1,
		human(humanCorrects, protocol.CoachingCorrected),
		human(humanSkips, protocol.CoachingAbandoned),
		human(humanAborts, protocol.CoachingFailed),
		repairs("human/task", Must, "a task has the fields of the protocol", person, coachingBody, func(p *probe, _ *protocol.SpecializedCoachingResponse) {
			tasks := p.kit.coach.questions(p.rule.id)
			if len(tasks) == 0 {
				p.unexercised("the kit's person was not asked")
			}
			if _, err := protocol.DecodeHumanCoachingRequest([]byte(tasks[0])); err != nil {
				p.fail("%v in %s", err, shown(tasks[0]))
			}
		}),
	)...)
	return with(needCoaching, list...)
}
