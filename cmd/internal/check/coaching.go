package check

import (
	"net/http"
	"slices"
	"strings"

	"agentd/protocol"
)

// coachingBody asks for the repair of a step.
const coachingBody = `{"run_id":"RUNID","request_id":"RULE","kind":"failure","stage":{"id":1,"goal":"The pantry is open."},` +
	`"target_step_id":3,"trajectory":[{"id":3,` + stepInput + `,` + stepOutput + `}],"reinjection_points":` + points + `}`

const (
	points     = `[{"id":"start","input_step_id":3}]`
	anInput    = `"input":{"id":1,"instruction":{"type":"user","content":"x"}}`
	stepOutput = `"output":{"say":"There is no pantry."}`
	stepInput  = `"input":{"id":7,"instruction":{"type":"user","content":"Open the pantry."},` +
		`"tools":[{"name":"open","description":"Opens a door.","parameters":{"door":{"description":"Which","type":"str"}}}],` +
		`"attributes":{"known_robots":["arm"]}}`
)

// postCoaching asks for a repair.
func postCoaching(body string, header ...string) request {
	return request{method: http.MethodPost, path: "/v1/coaching", header: header, text: text{head: body}}
}

// badCoaching make coachingBody invalid.
var badCoaching = []variant{
	{"coaching/unknown-field", Must, `"kind"`, `"more":1,"kind"`},
	{"coaching/unknown-field-within", Must, `"goal"`, `"more":1,"goal"`},
	{"coaching/unknown-field-within", Must, `[{"id":3`, `[{"more":1,"id":3`},
	{"coaching/unknown-field-within", Must, `{"id":7`, `{"more":1,"id":7`},
	{"coaching/unknown-field-within", Must, `{"id":"start"`, `{"more":1,"id":"start"`},
	{"coaching/unknown-field-within", Must, `"kind"`, `"context":{"more":1},"kind"`},
	{"coaching/unknown-field-within", Must, stepOutput, `"output":{"say":"x","more":1}`},
	{"coaching/unknown-field-within", Must, stepOutput, `"error":{"code":"c","message":"m","more":1}`},
	{"coaching/run-missing", Must, `"run_id":"RUNID",`, ``},
	{"coaching/run-missing", Must, `"RUNID"`, `5`},
	{"coaching/run-empty", Should, `"RUNID"`, `""`},
	{"coaching/run-empty", Should, `"RULE"`, `""`},
	{"coaching/request-missing", Must, `"request_id":"RULE",`, ``},
	{"coaching/request-missing", Must, `"RULE"`, `null`},
	{"coaching/kind-unknown", Must, `"failure"`, `"boredom"`},
	{"coaching/kind-unknown", Must, `"failure"`, `"Failure"`},
	{"coaching/kind-unknown", Must, `"kind":"failure",`, ``},
	{"coaching/stage-missing", Must, `"stage":{"id":1,"goal":"The pantry is open."},`, ``},
	{"coaching/stage-missing", Must, `{"id":1,"goal":"The pantry is open."}`, `5`},
	{"coaching/stage-missing", Should, `"id":1,"goal":"The pantry is open."`, `"id":"1","goal":"The pantry is open."`},
	{"coaching/target-text", Must, `"target_step_id":3`, `"target_step_id":"3"`},
	{"coaching/target-text", Must, `"target_step_id":3`, `"target_step_id":3.0`},
	{"coaching/target-text", Must, `"target_step_id":3`, `"target_step_id":true`},
	{"coaching/target-text", Must, `"target_step_id":3`, `"target_step_id":null`},
	{"coaching/target-absent", Must, `"target_step_id":3`, `"target_step_id":4`},
	{"coaching/target-absent", Must, `"target_step_id":3,`, ``},
	{"coaching/trajectory", Must, `"trajectory":[{"id":3,` + stepInput + `,` + stepOutput + `}],`, ``},
	{"coaching/trajectory", Must, `[{"id":3,` + stepInput + `,` + stepOutput + `}]`, `{"id":3,` + stepInput + `}`},
	{"coaching/trajectory", Must, `[{"id":3,` + stepInput + `,` + stepOutput + `}]`, `[]`},
	{"coaching/trajectory", Must, `[{"id":3`, `[null,{"id":3`},
	{"coaching/step-twice", Must, `"trajectory":[`, `"trajectory":[{"id":3,` + anInput + `},`},
	{"coaching/step-id", Must, `[{"id":3,`, `[{` + anInput + `},{"id":3,`},
	{"coaching/step-id", Must, `[{"id":3,`, `[{"id":"2",` + anInput + `},{"id":3,`},
	{"coaching/step-id", Must, `[{"id":3,`, `[{"id":true,` + anInput + `},{"id":3,`},
	{"coaching/step-input-invalid", Must, `"type":"user"`, `"type":"bot"`},
	{"coaching/step-input-invalid", Must, `{"id":7`, `{"id":"7"`},
	{"coaching/step-input-invalid", Must, stepInput + `,`, ``},
	{"coaching/step-input-invalid", Must, stepInput, `"input":null`},
	{"coaching/step-decision-invalid", Must, `"output":{"say"`, `"output":{"tool_calls":[` + openCall + `],"say"`},
	{"coaching/step-decision-invalid", Must, stepOutput, `"output":{"say":null}`},
	{"coaching/step-decision-invalid", Must, stepOutput, `"output":{"tool_calls":null}`},
	{"coaching/step-decision-invalid", Must, stepOutput, `"output":{"tool_calls":[{"name":"open","arguments":{}}]}`},
	{"coaching/step-decision-invalid", Must, stepOutput, `"output":{"tool_calls":[{"name":"open","target_robot_name":"r"}]}`},
	{"coaching/step-decision-invalid", Must, stepOutput, `"output":{"tool_calls":[{"name":"","arguments":{},"target_robot_name":"r"}]}`},
	{"coaching/step-decision-invalid", Must, stepOutput, `"output":"There is no pantry."`},
	{"coaching/step-error-invalid", Must, stepOutput, `"error":{"code":"c"}`},
	{"coaching/step-error-invalid", Must, stepOutput, `"error":{"message":"m"}`},
	{"coaching/step-error-invalid", Must, stepOutput, `"error":{"code":1,"message":"m"}`},
	{"coaching/step-error-invalid", Must, stepOutput, `"error":"m"`},
	{"coaching/step-records-invalid", Must, `[{"id":3`, `[{"internal_steps":["x"],"id":3`},
	{"coaching/step-records-invalid", Must, `[{"id":3`, `[{"internal_steps":{},"id":3`},
	{"coaching/step-records-invalid", Should, `[{"id":3`, `[{"execution":[],"id":3`},
	{"coaching/points-missing", Must, `,"reinjection_points":` + points, ``},
	{"coaching/points-missing", Must, points, `{"id":"start","input_step_id":3}`},
	{"coaching/points-missing", Must, points, `null`},
	{"coaching/point-twice", Must, points, `[{"id":"start","input_step_id":3},{"id":"start","input_step_id":3}]`},
	{"coaching/point-twice", Must, points, `[{"id":"start","input_step_id":3},{"id":"b","input_step_id":3},{"id":"start",` + anInput + `}]`},
	{"coaching/point-id", Must, points, `[{"input_step_id":3}]`},
	{"coaching/point-id", Must, points, `[{"id":1,"input_step_id":3}]`},
	{"coaching/point-without-place", Must, points, `[{"id":"start"}]`},
	{"coaching/point-without-place", Must, points, `[{"id":"start","input":null,"input_step_id":null}]`},
	{"coaching/point-two-places", Must, `"input_step_id":3`, `"input_step_id":3,` + anInput},
	{"coaching/point-step-absent", Must, `"input_step_id":3`, `"input_step_id":5`},
	{"coaching/point-step-text", Must, `"input_step_id":3`, `"input_step_id":"3"`},
	{"coaching/point-step-text", Must, `"input_step_id":3`, `"input_step_id":3.0`},
}

// goodCoaching keep coachingBody valid.
var goodCoaching = []variant{
	{"coaching/stage-text", Should, `{"id":1,"goal":"The pantry is open."}`, `"The pantry is open."`},
	{"coaching/errors", Must, `"kind"`, `"active_errors":[{"code":"c","description":"d","details":{}}],` +
		`"diagnosis":{"explanation":"e","expected_decision":null},"additional_info":{"x":1},"kind"`},
	{"coaching/context", Should, `"kind"`, `"context":{"additional_info":{"x":1}},"kind"`},
	{"coaching/step-error", Must, `"output":{"say":"There is no pantry."}`, `"error":{"code":"c","message":"m"}`},
	{"coaching/step-without-decision", Must, `,` + stepOutput, ``},
	{"coaching/step-records", Must, `[{"id":3`, `[{"internal_steps":[{"id":"step-0"}],"execution":{"took":1.5},"id":3`},
	{"coaching/point-input", Must, `"input_step_id":3`, anInput},
}

// repaired is an answer that is valid for its request and of which something else is right.
func repaired(about string, judge func(r *protocol.SpecializedCoachingResponse, x *exchange) bool) right {
	return both(ok, right{text: "a valid answer: " + about, judge: func(x *exchange) string {
		response, err := protocol.DecodeSpecializedCoachingResponse(x.body)
		request, bad := protocol.DecodeSpecializedCoachingRequest([]byte(x.request.text.head))
		_, proposes := protocol.Get(protocol.Raw(x.body), "proposals")
		return when(err == nil && bad == nil && response.Validate(request) == nil && judge(response, x) &&
			(proposes == (response.Status == protocol.CoachingCorrected)))
	}})
}

// ends is a valid answer with one of some statuses.
func ends(statuses ...string) right {
	return repaired(strings.Join(statuses, " or "), func(r *protocol.SpecializedCoachingResponse, _ *exchange) bool {
		return slices.Contains(statuses, r.Status)
	})
}

// asked is an answer that depends on the kit's coach.
func asked(r right) right {
	r.coached = true
	return r
}

// valid is any valid answer.
var valid = ends(protocol.CoachingCorrected, protocol.CoachingAbandoned, protocol.CoachingFailed)

// repairs is a rule about a coaching with a configuration.
func repairs(id, level, config, body string, r right) rule {
	return chain(id, level, "6", "PUT "+config+", POST "+body+" -> "+r.text,
		step{put(runName, config), noContent}, step{postCoaching(body), r})
}

// backendRules are about how the backends of a session are asked.
func backendRules() []rule {
	const a, b = `"a":{"type":"ollama","endpoint":"COACH`, `/RULE/v1/chat/completions","model":"m","max_retry":0}`
	two := func(first, second string) string {
		return `{"backends":{` + a + strings.TrimSuffix(first, "/") + b + `,` + edit(a, `"a"`, `"z"`) + strings.TrimSuffix(second, "/") + b + `}}`
	}
	asking := func(id, level, about, config string, r right, judge func(list []question) bool) rule {
		return many(id, level, "6", about, func(p *probe) {
			p.take(put(runName, config), noContent)
			p.take(postCoaching(coachingBody), asked(r))
			if list := p.kit.coach.questions(p.rule.id); !judge(list) {
				var does []string
				for _, q := range list {
					does = append(does, q.does)
				}
				p.fail("the coaches were asked %d times: %s", len(list), shown(encode(does)))
			}
		})
	}
	const fixed = protocol.CoachingCorrected
	return []rule{
		asking("coaching/backend", Must, "the backend is asked with its model and headers", session, valid, func(list []question) bool {
			return len(list) > 0 && strings.Contains(list[0].body, `"m"`) && list[0].key == "Bearer "+coachKey
		}),
		with1(asking("coaching/proposal", Should, "a model's correction is proposed at its point", session,
			repaired("the coach's decision", func(r *protocol.SpecializedCoachingResponse, _ *exchange) bool {
				return r.Status == fixed && strings.Contains(string(r.Proposals[0].ExtraKeys), coachSay)
			}), func([]question) bool { return true }), needHistory),
		asking("coaching/next-backend", Should, "after a backend that fails the next is asked", two(coachFails, coachCorrects), ends(fixed),
			func(list []question) bool { return list[len(list)-1].does == coachCorrects }),
		with1(asking("coaching/first-backend", Should, "backends are asked in their order", two(coachCorrects, coachBabbles), ends(fixed),
			func(list []question) bool { return len(list) == 1 && list[0].does == coachCorrects }), needSession1),
		with1(asking("coaching/tries", Should, "max_retry counts the tries after the first one", coachedBy(coachBabbles), valid,
			func(list []question) bool { return len(list) <= 2 }), needSession1),
		many("coaching/again", Should, "6", "the same request of a session gets the same answer", func(p *probe) {
			p.take(put(runName, session), noContent)
			first := p.take(postCoaching(coachingBody), valid)
			p.take(postCoaching(coachingBody), sameJSON(string(first.body)))
		}),
	}
}

// coachingRules are about requests for a repair and their answers.
func coachingRules() []rule {
	const fixed, abandoned, failed = protocol.CoachingCorrected, protocol.CoachingAbandoned, protocol.CoachingFailed
	format := edit(coachingBody, `"failure"`, `"format"`)
	rules := []rule{
		one("coaching/unknown-run", Must, "6", postCoaching(coachingBody), notFound),
		one("coaching/body-first", Should, "6", postCoaching(edit(coachingBody, `"failure"`, `"x"`)), problem("", "body.kind")),
		one("coaching/type-text", Should, "1", postCoaching(coachingBody, "Content-Type: text/plain"), unsupported),
		repairs("coaching/no-points", Should, session, edit(coachingBody, points, `[]`), ends(abandoned)),
		repairs("coaching/babble", Must, coachedBy(coachBabbles), coachingBody, asked(ends(abandoned, failed))),
		repairs("coaching/logs", Should, coachedBy(coachBabbles), format, repaired("one that was not corrected has a log",
			func(r *protocol.SpecializedCoachingResponse, _ *exchange) bool {
				return r.Status == fixed || len(r.Logs) > 0 && r.Logs[0].CoachingType == "format"
			})),
		repairs("coaching/logs-off", Should, edit(coachedBy(coachBabbles), `{"backends"`, `{"capture_logs":false,"backends"`), coachingBody,
			repaired("no log", func(r *protocol.SpecializedCoachingResponse, _ *exchange) bool { return len(r.Logs) == 0 })),
		repairs("coaching/secrets", Must, session, coachingBody, repaired("no header of the session",
			func(_ *protocol.SpecializedCoachingResponse, x *exchange) bool {
				return !strings.Contains(string(x.body), coachKey)
			})),
		many("coaching/reinjection", Must, "6", "a proposal becomes the decision at its point", func(p *probe) {
			p.take(put(runName, session), noContent)
			r, _ := protocol.DecodeSpecializedCoachingResponse(p.take(postCoaching(coachingBody), valid).body) // which is valid
			if r.Status != fixed {
				p.end(Unexercised, "nothing was corrected: %s", r.Reason)
			}
			proposed := r.Proposals[0].ExtraKeys
			correction, err := protocol.DecodeCorrection(proposed)
			p.take(post(corrected(string(proposed))), every("the decision of "+string(proposed), func(o output) bool {
				// A proposal may have a form that only the agent reads.
				return o.Output != nil && (err != nil || o.Output.Say == correction.Corrected().Say)
			}))
		}),
	}
	rules = append(rules, backendRules()...)
	for _, kind := range protocol.CoachingKinds() {
		rules = append(rules, repairs("coaching/kind-"+kind, Must, session, edit(coachingBody, `"failure"`, `"`+kind+`"`), valid))
	}
	for _, good := range goodCoaching {
		rules = append(rules, repairs(good.id, good.level, session, edit(coachingBody, good.old, good.replacement), valid))
	}
	rules = append(rules, variants(badCoaching, "6", postCoaching(coachingBody), refused)...)
	return with(needCoaching, append(rules, with(needSession1,
		repairs("coaching/fault", Must, coachedBy(coachFails), coachingBody, asked(ends(failed, abandoned))),
		repairs("human/completed", Must, person, coachingBody, asked(ends(fixed))),
		repairs("human/skipped", Must, edit(person, humanCorrects, humanSkips), coachingBody, asked(ends(abandoned))),
		repairs("human/aborted", Must, edit(person, humanCorrects, humanAborts), coachingBody, asked(ends(failed))),
		many("human/task", Must, "7", "a task has the fields of the protocol", func(p *probe) {
			p.take(put(runName, person), noContent)
			p.take(postCoaching(coachingBody), valid)
			for _, task := range p.kit.coach.questions(p.rule.id) {
				if _, err := protocol.DecodeHumanCoachingRequest([]byte(task.body)); err != nil {
					p.fail("%v in %s", err, shown(task.body))
				}
			}
		}),
	)...)...)
}
