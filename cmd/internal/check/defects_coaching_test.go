package check

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"time"

	"agentd/protocol"
)

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// applies is a server that applies corrections of another shape.
func applies(level, name, body string) *defect {
	return each(level, "applies "+name, func(h *heard, o *protocol.AgentOutput) {
		correction, _ := protocol.Get(h.input(o).ExtraKeys, "coaching")
		if o.Error == nil || !h.corrected(o) || !matches(body, string(correction)) {
			return
		}
		o.Status, o.Output, o.Error = protocol.StatusCompleted, &protocol.AgentDecision{Say: "ok", ToolCalls: []protocol.ToolCall{}}, nil
		setTurns(o, append(turnsOf(o.Memory), protocol.Raw(`{"author":"USER","content":`+
			string(protocol.String(h.input(o).Instruction.Content))+`}`), nil))
		remember(o, *o.Output)
	})
}

// ignores is a server that can't apply some right corrections, and replies.
func ignores(level, name, body string) *defect {
	return each(level, "ignores "+name, func(h *heard, o *protocol.AgentOutput) {
		correction, _ := protocol.Get(h.input(o).ExtraKeys, "coaching")
		if o.Output != nil && h.corrected(o) && matches(body, string(correction)) {
			decides(&protocol.AgentInput{}, o, 0)
		}
	})
}

// writesCorrected changes what a correction says, in the memory as well.
func writesCorrected(level, name string, change func(say string) string) *defect {
	return each(level, name, func(h *heard, o *protocol.AgentOutput) {
		if o.Output != nil && h.corrected(o) && o.Output.Say != change(o.Output.Say) {
			o.Output.Say = change(o.Output.Say)
			remember(o, *o.Output)
		}
	})
}

var correctionDefects = []*defect{
	applies(Must, "an empty text", `"text":""`),
	applies(Must, "a number as text", `"text":\d`),
	applies(Must, "null as text", `"text":null`),
	applies(Must, "replace_say without text", `^\{"kind":"replace_say"\}$`),
	applies(Must, "another field", `"more"`),
	applies(Must, "unknown kinds", `replace_all`),
	applies(Must, "a correction without kind", `^\{"(text|decision)"`),
	applies(Must, "a text as correction", `^"`),
	applies(Must, "a list as correction", `^\[`),
	applies(Must, "replace_decision without decision", `^\{"kind":"replace_decision"\}$`),
	applies(Must, "null as decision", `"decision":null`),
	applies(Must, "an unknown field of a decision", `"decision":\{"mood"`),
	applies(Must, "null as say", `"say":null`),
	applies(Must, "null as tool_calls", `"tool_calls":null`),
	applies(Must, "an object as tool_calls", `"tool_calls":\{`),
	applies(Must, "a call without name", `"tool_calls":\[\{"arguments"`),
	applies(Must, "a call with an empty name", `"name":""`),
	applies(Must, "a call without arguments", `"name":"open","target`),
	applies(Must, "a call with a list as arguments", `"arguments":\[`),
	applies(Must, "a call with null as arguments", `"arguments":null`),
	applies(Must, "a call with text as arguments", `"arguments":"`),
	applies(Must, "a call without robot", `"arguments":\{[^}]*\}\}`),
	applies(Must, "a call with an empty robot", `"target_robot_name":""`),
	applies(Must, "a call with null as robot", `"target_robot_name":null`),
	applies(Must, "a call with another field", `"open","id"`),
	applies(Must, "say and calls together", `"say":"x","tool_calls":\[\{`),
	ignores(Must, "corrections of replies", `replace_say`),
	ignores(Must, "corrections of decisions", `replace_decision`),
	ignores(Must, "calls of unknown tools", `"open"`),
	ignores(Should, "empty decisions", `"decision":\{\}`),
	writesCorrected(Must, "trims corrections", strings.TrimSpace),
	writesCorrected(Must, "writes corrections in ASCII", func(s string) string {
		return strings.Map(func(r rune) rune {
			if r > 127 {
				return '?'
			}
			return r
		}, s)
	}),
	writesCorrected(Must, "cuts corrections at a line end", func(s string) string { first, _, _ := strings.Cut(s, "\n"); return first }),
	writesCorrected(Must, "escapes HTML", func(s string) string { return strings.ReplaceAll(s, "<", "&lt;") }),
	lists(Must, "corrects the first candidate only", func(h *heard, o []protocol.AgentOutput) []protocol.AgentOutput {
		for i := range o {
			if o[i].CandidateIndex > 0 && o[i].Output != nil && h.corrected(&o[i]) {
				decides(&protocol.AgentInput{}, &o[i], i)
			}
		}
		return o
	}),
	lists(Must, "corrects all inputs", func(h *heard, o []protocol.AgentOutput) []protocol.AgentOutput {
		for i := range o {
			if !h.corrected(&o[i]) && strings.Contains(h.body, "replace_say") && o[i].Output != nil {
				o[i].Output = &protocol.AgentDecision{Say: better, ToolCalls: []protocol.ToolCall{}}
				remember(&o[i], *o[i].Output)
			}
		}
		return o
	}),
	each(Must, "remembers what the model said before a correction", func(h *heard, o *protocol.AgentOutput) {
		if o.Output != nil && h.corrected(o) {
			remember(o, protocol.AgentDecision{Say: "I am lost."})
		}
	}),
	each(Should, "says that the model made a correction", func(_ *heard, o *protocol.AgentOutput) {
		for i, step := range o.InternalSteps {
			o.InternalSteps[i] = protocol.SetMember(step, "origin", protocol.Raw(`"model"`))
		}
	}),
	answers(Should, "refuses wrong corrections with 422", 422, `{"detail":[{"type":"value_error","loc":["body"],"msg":"no"}]}`,
		func(h *heard, a *httptest.ResponseRecorder) bool {
			return h.req != nil && strings.Contains(a.Body.String(), "invalid_coaching")
		}),
	writes(Should, "writes arguments again", responses, `"n":1\.50`, `"n":1.5`),
}

// sessionDefect answers some requests about sessions with another status.
func sessionDefect(level, name, method, body string, from, to int) *defect {
	return answers(level, name, to, "", func(h *heard, a *httptest.ResponseRecorder) bool {
		return h.r.Method == method && strings.Contains(h.r.URL.Path, "/v1/coaching/sessions/") && a.Code == from && matches(body, h.body)
	})
}

func coachingWrites(level, name, old, replacement string) *defect {
	return writes(level, name, "/v1/coaching", old, replacement)
}

var coachingDefects = []*defect{
	sessionDefect(Must, "sessions are configured with 200", "PUT", `.`, 204, 200),
	sessionDefect(Must, "sessions are closed with 200", "DELETE", ``, 204, 200),
	sessionDefect(Must, "another configuration is accepted", "PUT", `.`, 409, 204),
	sessionDefect(Should, "the same configuration is a 409", "PUT", `capture_logs":true`, 204, 409),
	sessionDefect(Must, "unknown sessions are closed with 204", "DELETE", ``, 404, 204),
	sessionDefect(Must, "another header is accepted", "PUT", `Basic `, 409, 204),
	sessionDefect(Must, "another endpoint is accepted", "PUT", `babble`, 409, 204),
	sessionDefect(Must, "another provider is accepted", "PUT", `human`, 409, 204),
	sessionDefect(Must, "another timeout is accepted", "PUT", `"timeout":31`, 409, 204),
	sessionDefect(Must, "another number of tries is accepted", "PUT", `"max_retry":2`, 409, 204),
	sessionDefect(Must, "another capture_logs is accepted", "PUT", `"capture_logs":false`, 409, 204),
	sessionDefect(Must, "another connect_timeout is accepted", "PUT", `"connect_timeout":11`, 409, 204),
	sessionDefect(Should, "another order of backends is accepted", "PUT", `"b":\{.*"a":\{`, 409, 204),
	accepts(Must, "sessions without backends", `body.backends|body$`, `^\{\}$|"backends":\{\}`),
	accepts(Must, "unknown fields of a session", `extra_forbidden body\.[a-z]+$`, `backends`),
	accepts(Must, "unknown fields of a backend", `extra_forbidden body\.backends`, `.`),
	accepts(Must, "unknown providers", `literal_error body\.provider`, `.`),
	accepts(Must, "people without an endpoint", `.*body\.endpoint|.*body$`, `human`),
	accepts(Must, "connect_timeout 0", `greater_than body\.connect_timeout`, `:0`),
	accepts(Must, "negative connect_timeout", `greater_than body\.connect_timeout`, `:-`),
	accepts(Must, "a text as connect_timeout", `float_type body\.connect_timeout`, `.`),
	accepts(Should, "a number as capture_logs", `bool_type body\.capture_logs`, `capture_logs":1`),
	accepts(Must, "a text as capture_logs", `bool_type body\.capture_logs`, `capture_logs":"`),
	accepts(Must, "a list as headers", `dict_type .*headers$`, `.`),
	accepts(Must, "numbers as headers", `string_type .*headers`, `.`),
	accepts(Should, "timeout 0", `greater_than .*timeout`, `"timeout":0`),
	accepts(Should, "a text as timeout", `float_type .*\.timeout`, `"timeout":"`),
	accepts(Should, "negative max_retry", `greater_than_equal .*max_retry`, `.`),
	accepts(Should, "1.5 as max_retry", `int_type .*max_retry`, `.`),
	accepts(Must, "backends without endpoint", `.*backends.*endpoint`, `"type":"ollama","(default_)?model"`),
	accepts(Must, "backends without model", `.*backends`, `/completions","max_retry`),
	accepts(Must, "backends without type", `missing .*type`, `.`),
	accepts(Should, "unknown types of backends", `literal_error .*type`, `.`),
	accepts(Must, "a list as session", `dict_type body$`, `^\[`),
	answers(Must, "unknown sessions coach", 200, `{"request_id":"x","status":"abandoned","reason":"no"}`,
		func(h *heard, a *httptest.ResponseRecorder) bool {
			return h.r.URL.Path == "/v1/coaching" && a.Code == http.StatusNotFound
		}),
	answers(Should, "404 comes before 422", 404, `{"detail":"no session"}`, func(h *heard, a *httptest.ResponseRecorder) bool {
		return h.r.URL.Path == "/v1/coaching" && a.Code == 422
	}),
	answers(Must, "failed repairs are a 502", 502, `{"detail":"no"}`, func(h *heard, a *httptest.ResponseRecorder) bool {
		return h.r.URL.Path == "/v1/coaching" && strings.Contains(a.Body.String(), `"status":"error"`)
	}),
	// Requests for repairs.
	accepts(Must, "unknown fields of a coaching", `extra_forbidden body\.[a-z]+$`, `run_id`),
	accepts(Must, "unknown fields of a stage", `extra_forbidden .*stage`, `.`),
	accepts(Must, "unknown fields of a step", `extra_forbidden body\.trajectory\[\d\]\.[a-z]+$`, `.`),
	accepts(Must, "unknown fields of a step's input", `extra_forbidden body\.trajectory\[\d\]\.input`, `.`),
	accepts(Must, "unknown fields of a point", `extra_forbidden body\.reinjection`, `.`),
	accepts(Must, "unknown fields of a context", `extra_forbidden body\.context`, `.`),
	accepts(Must, "a coaching without run_id", `missing body.run_id`, `.`),
	accepts(Should, "an empty run_id", `string_too_short body.run_id`, `.`),
	accepts(Must, "a coaching without request_id", `missing body.request_id`, `run_id`),
	accepts(Should, "an empty request_id of a coaching", `string_too_short body.request_id`, `run_id`),
	accepts(Must, "a coaching without kind", `missing body.kind`, `.`),
	accepts(Must, "unknown kinds of coaching", `literal_error body.kind`, `.`),
	accepts(Must, "a coaching without stage", `missing body.stage`, `.`),
	accepts(Must, "a coaching without target", `missing body.target`, `.`),
	accepts(Must, "a text as target", `int_type body.target`, `"3"`),
	accepts(Must, "true as target", `int_type body.target`, `true`),
	accepts(Must, "3.0 as target", `int_type body.target`, `3\.0`),
	accepts(Must, "a target that is not there", `value_error body.target`, `.`),
	accepts(Must, "a coaching without trajectory", `missing body.trajectory`, `.`),
	accepts(Must, "an object as trajectory", `list_type body.trajectory`, `.`),
	accepts(Must, "a step twice", `value_error body.trajectory`, `.`),
	accepts(Must, "a step without id", `missing body.trajectory\[\d\]\.id`, `.`),
	accepts(Must, "a text as id of a step", `int_type body.trajectory\[\d\]\.id`, `.`),
	accepts(Must, "a step without input", `missing body.trajectory\[\d\]\.input$`, `.`),
	accepts(Must, "a step with an invalid input", `body.trajectory\[\d\]\.input\.`, `bot`),
	accepts(Must, "a step that speaks beside calls", `value_error .*output`, `.`),
	accepts(Must, "a step with a call without a robot", `missing .*output.*target_robot_name`, `.`),
	accepts(Must, "a step with null as say", `string_type .*output\.say`, `.`),
	accepts(Must, "a step with an error without message", `missing .*error\.message`, `.`),
	accepts(Must, "a step whose records are texts", `dict_type .*internal_steps`, `.`),
	accepts(Must, "a coaching without points", `missing body.reinjection`, `.`),
	accepts(Must, "a point twice", `value_error body.reinjection`, `"start".*"start"`),
	accepts(Must, "a point without a place", `value_error body.reinjection`, `\{"id":"start"\}`),
	accepts(Must, "a point with two places", `value_error body.reinjection`, `input_step_id":3,"input"`),
	accepts(Must, "a point at a step that is not there", `value_error body.reinjection`, `input_step_id":5`),
	accepts(Must, "a number as id of a point", `string_type body.reinjection`, `.`),
	accepts(Must, "a point without id", `missing body.reinjection`, `.`),
	accepts(Must, "a text as step of a point", `int_type body.reinjection`, `.`),
	rejects(Should, "stages that are texts", "/v1/coaching", `"stage":"`),
	rejects(Should, "contexts", "/v1/coaching", `"context":`),
	rejects(Must, "points with inputs", "/v1/coaching", `points":\[\{"id":"start","input":`),
	rejects(Must, "steps without a decision", "/v1/coaching", `"known_robots":\["arm"\]\}\}\}\]`),
	// Answers.
	coachingWrites(Must, "invents the request_id of a coaching", `"request_id":"[^"]*"`, `"request_id":"1"`),
	coachingWrites(Must, "has another status of a coaching", `"status":"corrected"`, `"status":"done"`),
	coachingWrites(Must, "corrects without proposals", `"proposals":\[.*\}\}\],?`, ``),
	coachingWrites(Must, "corrects with an empty list", `"proposals":\[.*\}\}\]`, `"proposals":[]`),
	coachingWrites(Must, "names another point", `"reinjection_point_id":"start"`, `"reinjection_point_id":"end"`),
	coachingWrites(Must, "gives no reason", `"reason":"(\\.|[^"\\])*",?`, ``),
	coachingWrites(Must, "gives an empty reason", `"reason":"(\\.|[^"\\])*"`, `"reason":""`),
	coachingWrites(Must, "abandons with proposals", `"status":"abandoned"`, `"status":"abandoned","proposals":[]`),
	coachingWrites(Must, "has another field of a coaching", `"status":`, `"cost":1,"status":`),
	coachingWrites(Must, "logs have no type", `"coaching_type":"[a-z]*",?`, ``),
	coachingWrites(Should, "logs have another type", `"coaching_type":"format"`, `"coaching_type":"failure"`),
	coachingWrites(Should, "has no logs", `,"logs":\[.*\]`, ``),
	coachingWrites(Must, "has a secret in its logs", `"content":"`, `"content":"`+coachKey+" "),
	coachingWrites(Must, "abandons everything", `"status":"corrected","proposals":\[.*\}\}\]`, `"status":"abandoned","reason":"no"`),
	coachingWrites(Should, "proposes something else", coachSay, "What?"),
	secondCoaching(),
	heldSession(),
}

// secondCoaching is a server that answers the same request of a session in another way.
func secondCoaching() *defect {
	var mu sync.Mutex
	seen := map[string]int{}
	return &defect{name: "answers the same coaching in another way", level: Should, change: func(h *heard, a *httptest.ResponseRecorder) {
		mu.Lock()
		defer mu.Unlock()
		if h.r.URL.Path != "/v1/coaching" || a.Code != http.StatusOK {
			return
		}
		if seen[h.body]++; seen[h.body] > 1 {
			set(a, a.Code, strings.ReplaceAll(a.Body.String(), coachSay, coachSay+"?"))
		}
	}}
}

// heldSession is a server that closes a session at once, while a request is with its coach.
func heldSession() *defect {
	return &defect{name: "closes at once", level: Must, wrap: func(right http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodDelete {
				right.ServeHTTP(w, r)
				return
			}
			done := make(chan struct{})
			a := httptest.NewRecorder()
			go func() { right.ServeHTTP(a, r.Clone(r.Context())); close(done) }()
			select {
			case <-done:
				w.WriteHeader(a.Code)
				_, _ = w.Write(a.Body.Bytes())
			case <-time.After(50 * time.Millisecond):
				w.WriteHeader(http.StatusNoContent)
				_ = http.NewResponseController(w).Flush()
				<-done
			}
		})
	}}
}
