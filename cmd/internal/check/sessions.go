package check

import (
	"net/http"
	"net/url"
	"slices"
)

const (
	// session is a configuration with one backend, which corrects.
	session = `{"backends":{"b":{"type":"ollama","endpoint":"COACH/correct/RULE/v1/chat/completions","default_model":"m",` +
		`"max_retry":1,"headers":{"Authorization":"Bearer ` + coachKey + `"}}}}`
	// person is one with a person.
	person = `{"provider":"human","endpoint":"COACH/completed/RULE"}`

	backend     = `{"type":"ollama","endpoint":"COACH/correct/RULE/v1/chat/completions","model":"m"}`
	twoBackends = `{"backends":{"a":` + backend + `,"b":` + backend + `}}`
	twoReversed = `{"backends":{"b":` + backend + `,"a":` + backend + `}}`
)

// coachedBy is a session's configuration whose coach does something else.
func coachedBy(does string) string { return edit(session, coachCorrects, does) }

// other is session with another model.
var other = edit(session, `"m"`, `"n"`)

func sessionPath(run string) string { return "/v1/coaching/sessions/" + url.PathEscape(run) }

// put configures the session of a run.
func put(run, config string) request {
	return request{method: http.MethodPut, path: sessionPath(run), text: text{head: config}}
}

func del(run string) request { return request{method: http.MethodDelete, path: sessionPath(run)} }

var (
	// opened configures the session of a rule, and closed closes it.
	opened = step{put(runName, session), noContent}
	closed = step{del(runName), noContent}
)

// otherSessions differ from session in one thing.
var otherSessions = []string{
	other,
	edit(session, coachCorrects, coachBabbles),
	edit(session, `"Bearer `, `"Basic `),
	edit(session, `"max_retry":1`, `"max_retry":2`),
	edit(session, `"max_retry"`, `"timeout":31,"max_retry"`),
	edit(session, `"b":`, `"c":`),
	edit(session, `{"backends"`, `{"capture_logs":false,"backends"`),
}

// reordered is session with its members in another order.
var reordered = `{"backends":{"b":{"headers":{"Authorization":"Bearer ` + coachKey + `"},"max_retry":1,"default_model":"m",` +
	`"endpoint":"COACH/correct/RULE/v1/chat/completions","type":"ollama"}}}`

// puts is a rule about further PUTs of the same run.
func puts(id, level, about, before string, r right, after ...string) rule {
	steps := []step{{put(runName, before), noContent}}
	for _, config := range after {
		steps = append(steps, step{put(runName, config), r})
	}
	return chain(id, level, "6", about, steps...)
}

// badSessions make session invalid.
var badSessions = []variant{
	{"session/empty", Must, session, `{}`},
	{"session/empty", Must, session, `{"backends":{}}`},
	{"session/empty", Must, session, ``},
	{"session/empty", Must, session, `[` + session + `]`},
	{"session/empty", Must, session, `{"backends":null}`},
	{"session/unknown-field", Must, `{"backends"`, `{"coach":1,"backends"`},
	{"session/backend-field", Must, `"type"`, `"temperature":1,"type"`},
	{"session/logs-text", Must, `{"backends"`, `{"capture_logs":"no","backends"`},
	{"session/logs-text", Must, `{"backends"`, `{"capture_logs":1,"backends"`},
	{"session/type-missing", Must, `"type":"ollama",`, ``},
	{"session/type-unknown", Should, `"ollama"`, `"telepathy"`},
	{"session/endpoint-missing", Must, `"endpoint":"COACH/correct/RULE/v1/chat/completions",`, ``},
	{"session/endpoint-missing", Must, `"COACH/correct/RULE/v1/chat/completions"`, `5`},
	{"session/endpoint-scheme", Should, `COACH/correct/RULE`, `ftp://127.0.0.1/RULE`},
	{"session/model-missing", Must, `"default_model":"m",`, ``},
	{"session/headers-number", Must, `"Bearer ` + coachKey + `"`, `1`},
	{"session/headers-number", Must, `"headers":{"Authorization":"Bearer ` + coachKey + `"}`, `"headers":["Authorization"]`},
	{"session/timeout-zero", Should, `"max_retry"`, `"timeout":0,"max_retry"`},
	{"session/timeout-zero", Should, `"max_retry"`, `"timeout":-1,"max_retry"`},
	{"session/timeout-zero", Should, `"max_retry"`, `"timeout":"30","max_retry"`},
	{"session/timeout-zero", Should, `"max_retry"`, `"timeout":true,"max_retry"`},
	{"session/retry-negative", Should, `"max_retry":1`, `"max_retry":-1`},
	{"session/retry-negative", Should, `"max_retry":1`, `"max_retry":1.5`},
	{"session/retry-negative", Should, `"max_retry":1`, `"max_retry":"1"`},
}

// badSessions1 do so where the configuration has version 1.
var badSessions1 = []variant{
	{"session/provider-unknown", Must, `{"backends"`, `{"provider":"oracle","backends"`},
	{"session/provider-unknown", Must, `{"backends"`, `{"provider":null,"backends"`},
	{"session/human-without-endpoint", Must, session, `{"provider":"human"}`},
	{"session/human-without-endpoint", Must, session, `{"provider":"human","endpoint":null}`},
	{"session/connect-timeout-zero", Must, `{"backends"`, `{"connect_timeout":0,"backends"`},
	{"session/connect-timeout-zero", Must, `{"backends"`, `{"connect_timeout":-1,"backends"`},
	{"session/connect-timeout-zero", Must, `{"backends"`, `{"connect_timeout":"10","backends"`},
	{"session/connect-timeout-zero", Must, `{"backends"`, `{"connect_timeout":true,"backends"`},
}

// sessionRules are about the life of coaching sessions and their configurations.
func sessionRules() []rule {
	escaped := runName + "/a b%2Fé?"
	list := []rule{
		chain("session/put", Must, "6", "a session is configured with 204", opened),
		puts("session/put-same", Should, "the same configuration again is a 204", session, noContent, session, reordered),
		puts("session/put-defaults", Should, "a configuration with the defaults written out is the same",
			session, noContent, edit(edit(session, `{"backends"`, `{"capture_logs":true,"backends"`), `"max_retry":1`, `"timeout":30.0,"max_retry":1`)),
		puts("session/put-other", Must, "another configuration is a 409", session, conflict, otherSessions...),
		puts("session/put-other-order", Should, "another order of the backends is a 409", twoBackends, conflict, twoReversed),
		chain("session/conflict-changes-nothing", Must, "6", "after a 409 the first configuration holds",
			opened, step{put(runName, other), conflict}, opened),
		chain("session/delete", Must, "6", "a session is closed with 204", opened, closed),
		chain("session/delete-frees", Must, "6", "after DELETE the run may have another configuration",
			opened, closed, step{put(runName, other), noContent}),
		chain("session/post-after-delete", Must, "6", "a request of a closed session is a 404",
			opened, closed, step{postCoaching(coachingBody), notFound}),
		chain("session/others-stay", Must, "6", "closing a session leaves others",
			opened, step{put("RUNID-2", session), noContent}, step{del("RUNID-2"), noContent}, step{put(runName, other), conflict}),
		chain("session/run-escaped", Should, "6", "a run_id is percent-encoded: slash, space, percent, é",
			step{put(escaped, session), noContent}, step{del(escaped), noContent}),
		one("session/backend-list", Should, "6", put(runName, `{"backends":[`+backend+`]}`), noContent),
		one("session/content-type-header", Should, "6", put(runName, edit(session, `"Authorization"`,
			`"Content-type":"application/json","Authorization"`)), noContent),
		one("session/backends-beyond", May, "8", request{
			method: http.MethodPut, path: sessionPath(runName), text: text{`{"backends":{`, `"b#":` + backend + `,`, 64, `"b":` + backend + `}}`},
		}, refused),
	}
	list = slices.Concat(list, variants(badSessions, "6", put(runName, session), refused), with(needSession1,
		one("session/delete-unknown", Must, "6", del(runName), notFound),
		chain("session/delete-twice", Must, "6", "closing again is a 404", opened, closed, step{del(runName), notFound}),
		one("session/human", Must, "6", put(runName, person), noContent),
		puts("session/put-other-provider", Must, "another provider or time is a 409", session, conflict, person,
			edit(session, `{"backends"`, `{"connect_timeout":11,"backends"`)),
	), with(needSession1, variants(badSessions1, "6", put(runName, session), refused)...), with(needSession0,
		one("session/dead-backend", May, "10", put(runName, edit(session, "COACH", "http://127.0.0.1:9")), down),
	))
	return slices.Concat(with(needCoaching, list...), with(needNoCoaching,
		one("session/unavailable", Should, "6", put(runName, session), down),
		one("session/unavailable-body", Should, "6", put(runName, `{}`), refused),
		many("coaching/unavailable", Should, "6", "the error is the reason of /v1/info", func(p *probe) {
			p.take(postCoaching(coachingBody), both(sentence, sameJSON(encode(map[string]string{"detail": p.kit.info.Reason}))))
		}),
	))
}
