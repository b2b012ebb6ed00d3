package check

import (
	"net/http"
	"net/url"
	"strings"
)

const (
	// session is a configuration with one backend, which corrects.
	session = `{"backends":{"b":{"type":"ollama","endpoint":"COACH/correct/RULE/v1/chat/completions","default_model":"m",` +
		`"max_retry":0,"headers":{"Authorization":"Bearer ` + coachKey + `"}}}}`
	// person is one with a person.
	person = `{"provider":"human","endpoint":"COACH/completed/RULE"}`
)

// coached is a session's configuration whose coach does something else.
func coached(does string) string { return edit(session, coachCorrects, does) }

// put configures the session of a run.
func put(run, config string) request {
	return request{method: http.MethodPut, path: sessionPath(run), text: text{head: config}}
}

func sessionPath(run string) string { return "/v1/coaching/sessions/" + url.PathEscape(run) }

func del(run string) request { return request{method: http.MethodDelete, path: sessionPath(run)} }

// open configures a session, which the end of the rule closes.
func (p *probe) open(run, config string) {
	x := p.send(put(run, config))
	p.sessions = append(p.sessions, x.request.path)
	if x.status == http.StatusServiceUnavailable && len(p.kit.coach.questions(p.rule.id)) == 0 {
		p.unexercised("the server does not reach the kit's coach: %s", x)
	}
	p.expect(x, status(http.StatusNoContent))
}

// puts is a rule about a second PUT of the same run.
func puts(id, level, about, before, after string, code int) rule {
	return many(id, level, "6", about, func(p *probe) {
		p.open(ruleName, before)
		p.expect(p.send(put(ruleName, after)), status(code))
	})
}

const (
	twoBackends = `{"backends":{"a":{"type":"ollama","endpoint":"COACH/correct/RULE/v1/chat/completions","model":"m"},` +
		`"b":{"type":"ollama","endpoint":"COACH/correct/RULE/v1/chat/completions","model":"m"}}}`
	twoReversed = `{"backends":{"b":{"model":"m","type":"ollama","endpoint":"COACH/correct/RULE/v1/chat/completions"},` +
		`"a":{"type":"ollama","model":"m","endpoint":"COACH/correct/RULE/v1/chat/completions"}}}`
)

// badSessions are edits of session that make it invalid. Those of the provider need version 1.
var badSessions = []struct {
	id, level        string
	needs            need
	old, replacement string
}{
	{"session/empty", Must, 0, session, `{}`},
	{"session/list", Must, 0, session, `[]`},
	{"session/truncated", Must, 0, `}}}}`, `}`},
	{"session/no-backends", Must, 0, session, `{"backends":{}}`},
	{"session/backends-text", Must, 0, session, `{"backends":"b"}`},
	{"session/unknown-field", Must, 0, `{"backends"`, `{"coach":1,"backends"`},
	{"session/backend-field", Must, 0, `"type"`, `"temperature":1,"type"`},
	{"session/logs-text", Must, 0, `{"backends"`, `{"capture_logs":"no","backends"`},
	{"session/type-unknown", Should, 0, `"ollama"`, `"telepathy"`},
	{"session/type-missing", Must, 0, `"type":"ollama",`, ``},
	{"session/endpoint-missing", Must, 0, `"endpoint":"COACH/correct/RULE/v1/chat/completions",`, ``},
	{"session/endpoint-scheme", Should, 0, `COACH/correct/RULE`, `ftp://127.0.0.1/RULE`},
	{"session/endpoint-text", Should, 0, `COACH/correct/RULE`, `RULE`},
	{"session/model-missing", Must, 0, `"default_model":"m",`, ``},
	{"session/model-twice", May, 0, `"max_retry"`, `"model":"m","max_retry"`},
	{"session/headers-number", Must, 0, `"Bearer ` + coachKey + `"`, `1`},
	{"session/header-lines", Should, 0, coachKey, `a\nX-B: b`},
	{"session/header-host", May, 0, `"Authorization"`, `"Host"`},
	{"session/timeout-zero", Should, 0, `"max_retry"`, `"timeout":0,"max_retry"`},
	{"session/timeout-text", Must, 0, `"max_retry"`, `"timeout":"30","max_retry"`},
	{"session/retry-negative", Should, 0, `"max_retry":0`, `"max_retry":-1`},
	{"session/retry-fraction", Must, 0, `"max_retry":0`, `"max_retry":1.5`},
	{"session/metadata-address", May, 0, `COACH/correct/RULE`, `http://169.254.169.254/RULE`},
	{"session/provider-unknown", Must, needSession1, `{"backends"`, `{"provider":"oracle","backends"`},
	{"session/human-without-endpoint", Must, needSession1, session, `{"provider":"human"}`},
	{"session/connect-timeout-zero", Must, needSession1, `{"backends"`, `{"connect_timeout":0,"backends"`},
	{"session/connect-timeout-text", Must, needSession1, `{"backends"`, `{"connect_timeout":"5","backends"`},
}

// sessionRules are about the life of coaching sessions and their configurations.
func sessionRules() []rule {
	list := []rule{
		many("session/put", Must, "6", "a session is configured with 204", func(p *probe) { p.open(ruleName, session) }),
		puts("session/put-same", Should, "the same configuration again is a 204", session, session, http.StatusNoContent),
		puts("session/put-defaults", Should, "a configuration with the defaults written out is the same",
			session, edit(edit(session, `{"backends"`, `{"capture_logs":true,"backends"`), `"max_retry":0`, `"timeout":30.0,"max_retry":0`), http.StatusNoContent),
		puts("session/put-other", Must, "another configuration is a 409", session, edit(session, `"m"`, `"n"`), http.StatusConflict),
		puts("session/put-logs-other", Must, "other capture_logs are another configuration",
			session, edit(session, `{"backends"`, `{"capture_logs":false,"backends"`), http.StatusConflict),
		puts("session/order-of-backends", May, "backends in another order are another configuration", twoBackends, twoReversed, http.StatusConflict),
		many("session/conflict-form", Should, "3", "a 409 has a sentence", func(p *probe) {
			p.open(ruleName, session)
			p.expect(p.send(put(ruleName, edit(session, `"m"`, `"o"`))), sentence)
		}),
		many("session/conflict-changes-nothing", Must, "6", "after a 409 the first configuration holds", func(p *probe) {
			p.open(ruleName, session)
			p.send(put(ruleName, edit(session, `"m"`, `"p"`)))
			p.expect(p.send(put(ruleName, session)), status(http.StatusNoContent))
		}),
		many("session/delete", Must, "6", "a session is closed with 204", func(p *probe) {
			p.open(ruleName, session)
			p.expect(p.send(del(ruleName)), status(http.StatusNoContent))
		}),
		many("session/delete-frees", Must, "6", "after DELETE the run may have another configuration", func(p *probe) {
			p.open(ruleName, session)
			p.send(del(ruleName))
			p.expect(p.send(put(ruleName, edit(session, `"m"`, `"q"`))), status(http.StatusNoContent))
		}),
		many("session/post-after-delete", Must, "6", "a request of a closed session is a 404", func(p *probe) {
			p.open(ruleName, session)
			p.send(del(ruleName))
			p.expect(p.send(postCoaching(coachingBody)), status(http.StatusNotFound))
		}),
		many("session/others-stay", Must, "6", "closing a session leaves others", func(p *probe) {
			p.open(ruleName, session)
			p.open(ruleName+"/2", session)
			p.send(del(ruleName + "/2"))
			p.expect(p.send(put(ruleName, edit(session, `"m"`, `"r"`))), status(http.StatusConflict))
		}),
		many("session/run-escaped", Should, "6", "a run_id is percent-encoded: slash, space, percent, é", func(p *probe) {
			p.open(ruleName+"/a b%2Fé?", session)
			p.expect(p.send(del(ruleName+"/a b%2Fé?")), status(http.StatusNoContent))
		}),
		many("session/run-exact", Should, "6", "a run_id of other letter case is another run", func(p *probe) {
			p.open(ruleName+"/a", session)
			p.open(ruleName+"/A", edit(session, `"m"`, `"s"`))
		}),
		one("session/run-long", May, "8", put(strings.Repeat("x", 1025), session), refused),
		one("session/run-longest", May, "8", del(strings.Repeat("x", 1024)), status(http.StatusNoContent, http.StatusNotFound)),
		many("session/backend-list", Should, "6", "backends may be a list", func(p *probe) {
			p.open(ruleName, edit(edit(session, `{"b":{`, `[{`), `}}}}`, `}}]}`))
		}),
		many("session/content-type-header", Should, "6", "a backend's header Content-Type: application/json is accepted", func(p *probe) {
			p.open(ruleName, edit(session, `"Authorization"`, `"Content-type":"application/json","Authorization"`))
		}),
	}
	for _, bad := range badSessions {
		bad.replacement = strings.ReplaceAll(bad.replacement, session, bad.replacement)
		list = append(list, with(bad.needs, one(bad.id, bad.level, "6", put(bad.id, edit(session, bad.old, bad.replacement)), refused))...)
	}
	list = append(list, one("session/backends-beyond", May, "8", request{
		method: http.MethodPut, path: sessionPath(ruleName),
		text: text{`{"backends":{`, `"b#":{"type":"ollama","endpoint":"http://127.0.0.1:9/v1","model":"m"},`, 64,
			`"b":{"type":"ollama","endpoint":"http://127.0.0.1:9/v1","model":"m"}}}`},
	}, refused))
	list = append(list, with(needSession1,
		one("session/delete-unknown", Must, "6", del(ruleName), status(http.StatusNotFound)),
		one("session/delete-unknown-form", Should, "3", del(ruleName), sentence),
		many("session/delete-twice", Must, "6", "closing again is a 404", func(p *probe) {
			p.open(ruleName, session)
			p.send(del(ruleName))
			p.expect(p.send(del(ruleName)), status(http.StatusNotFound))
		}),
		many("session/human", Must, "6", "the provider may be human", func(p *probe) { p.open(ruleName, person) }),
		puts("session/human-other", Must, "another provider is another configuration", person, session, http.StatusConflict),
	)...)
	return append(with(needCoaching, list...), with(needNoCoaching,
		one("session/unavailable", Should, "6", put(ruleName, session), status(http.StatusServiceUnavailable)),
		one("coaching/unavailable", Should, "6", postCoaching(coachingBody), status(http.StatusServiceUnavailable)),
		many("coaching/unavailable-reason", Should, "6", "the 503 has the reason of /v1/info", func(p *probe) {
			if x := p.send(postCoaching(coachingBody)); !strings.Contains(x.String(), shown(p.kit.info.Reason)[:min(20, len(p.kit.info.Reason))]) {
				p.fail("got %s, and /v1/info says %q", x, p.kit.info.Reason)
			}
		}),
	)...)
}
