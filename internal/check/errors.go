package check

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agentd/protocol"
)

// errorRules are about the form of what is refused.
var errorRules = slices.Concat([]rule{
	one("error/form", Should, "3", post(edit(plain, `"id":1`, `"id":[]`)), both(refused, problemsForm)),
	one("error/place", Should, "3", post(edit(plain, `}}]`, `}},{"id":{},"instruction":{"type":"user","content":"hi"}}]`)), problem("", "body.inputs[1].id")),
	one("error/every-problem", Should, "3", post(edit(edit(plain, `"id":1`, `"id":[1]`), `"hi"`, `2`)),
		both(problem("", "body.inputs[0].id"), problem("", "body.inputs[0].instruction.content"))),
	one("error/short", May, "3", long(`{"request_id":"RULE","`, "x", 100_000, `":1,"inputs":[]}`), both(refused, shortAnswer)),
	one("error/type-json", May, "3", post(`{"request_id":"RULE"`), problem("json_invalid", "")),
	one("error/type-missing", May, "3", post(`{"request_id":"RULE","more":1}`), problem("missing", "body.inputs")),
	one("error/type-unknown", May, "3", post(edit(plain, `"id":1`, `"seed":1,"id":1`)), problem("extra_forbidden", "body.inputs[0].seed")),
	one("error/type-integer", May, "3", post(edit(plain, `"id":1`, `"id":"one"`)), problem("int_type", "body.inputs[0].id")),
	one("error/type-size", May, "3", post(edit(plain, `"id":1`, `"id":-9223372036854775809`)), problem("int_parsing_size", "body.inputs[0].id")),
	one("error/type-string", May, "3", post(edit(plain, `"hi"`, `true`)), problem("string_type", "body.inputs[0].instruction.content")),
	one("error/type-list", May, "3", post(`{"request_id":"RULE","inputs":"x"}`), problem("list_type", "body.inputs")),
	one("error/type-object", May, "3", post(edit(plain, `"id":1`, `"id":1,"memory":5`)), problem("dict_type", "body.inputs[0].memory")),
	one("error/type-literal", May, "3", post(edit(plain, `"user"`, `"system"`)), problem("literal_error", "body.inputs[0].instruction.type")),
	one("error/type-empty", May, "3", post(edit(edit(plain, `"RULE"`, `""`), `"hi"`, `"RULE"`)), problem("string_too_short", "body.request_id")),
	one("error/type-low", May, "3", post(edit(plain, `"id":1`, `"id":1,"num_outputs":-7`)), problem("greater_than_equal", "body.inputs[0].num_outputs")),
	one("error/type-short", May, "3", post(`{"inputs":[],"request_id":"RULE"}`), problem("too_short", "body.inputs")),
	one("error/type-value", May, "3", post(edit(plain, `}}]`, `}},{"id":1,"instruction":{"type":"env","content":"hi"}}]`)), problem("value_error", "body.inputs[1].id")),
	one("path/unknown", Should, "3", get("/v1/RULE"), status(http.StatusNotFound)),
	one("path/unknown-form", Should, "3", get("/v1/RULE/form"), both(status(http.StatusNotFound), sentence)),
	one("path/slash", May, "2", get("/v1/info/"), status(http.StatusNotFound)),
	one("path/letter-case", May, "2", get("/V1/info"), status(http.StatusNotFound)),
	one("method/get", Should, "3", get("/v1/responses"), status(http.StatusMethodNotAllowed)),
	one("method/allow", Should, "3", get("/v1/responses?allow"), header("Allow", http.MethodPost)),
	one("method/form", Should, "3", get("/v1/responses?form"), sentence),
	one("method/info", Should, "3", request{method: http.MethodPost, path: "/v1/info", text: text{head: "{}"}}, status(http.StatusMethodNotAllowed)),
	one("method/invented", May, "3", request{method: "BREW", path: "/v1/info"}, status(http.StatusMethodNotAllowed)),
	one("error/media-form", Should, "3", post(plain, "Content-Type: image/png"), both(status(http.StatusUnsupportedMediaType), sentence)),
	one("error/expect", May, "3", post(plain, "Expect: cake"), status(http.StatusExpectationFailed)),
	one("header/request-id", May, "2", get2("/v1/info?id", "X-Request-Id: check-1"), header("X-Request-Id", "check-1")),
	one("header/request-id-made", May, "2", get2("/v1/info?made", "X-Request-Id: a b"), right{"another X-Request-Id", func(x *exchange) error {
		if got := x.header.Get("X-Request-Id"); got == "" || strings.Contains(got, " ") {
			return fmt.Errorf("X-Request-Id is %q", got)
		}
		return nil
	}}),
	one("header/gzip", May, "2", get2("/openapi.json?gzip", "Accept-Encoding: gzip"), header("Content-Encoding", "gzip")),
	one("header/plain", Must, "2", get2("/v1/info?plain", "Accept-Encoding: identity"), right{"no Content-Encoding", func(x *exchange) error {
		if got := x.header.Get("Content-Encoding"); got != "" && got != "identity" {
			return fmt.Errorf("Content-Encoding is %q", got)
		}
		return nil
	}}),
}, with(needOpen,
	one("error/origin", May, "3", post(plain, "Origin: http://page.example"), status(http.StatusForbidden)),
))

// get2 is get with a header.
func get2(path string, header ...string) request {
	return request{method: http.MethodGet, path: path, header: header}
}

// problemsForm is a body with a list of problems, whose members are not empty.
var problemsForm = right{`{"detail": [{"type", "loc", "msg"}]}`, func(x *exchange) error {
	var body struct {
		Detail []struct {
			Type, Msg string
			Loc       []json.RawMessage
		}
	}
	if err := x.decode(&body); err != nil || len(body.Detail) == 0 {
		return fmt.Errorf("got %s", x)
	}
	for _, d := range body.Detail {
		if d.Type == "" || d.Msg == "" || len(d.Loc) == 0 || string(d.Loc[0]) != `"body"` {
			return fmt.Errorf("got %s", x)
		}
	}
	return nil
}}

// shortAnswer repeats little of what was sent.
var shortAnswer = right{"at most 4 KiB", func(x *exchange) error {
	if len(x.body) > 4<<10 {
		return fmt.Errorf("got %d bytes", len(x.body))
	}
	return nil
}}

// problemsOf are the problems of an answer of /v1/responses that are about a part of it: status,
// memory, steps, calls, decision, error or shape.
func problemsOf(x *exchange, part string) error {
	var problems, found protocol.Problems
	if _, err := protocol.DecodeAgentOutputs(x.body); err != nil {
		problems = err.(protocol.Problems) //nolint:errorlint // every decoder's error is one
	}
	for _, p := range problems {
		if partOf(p) == part {
			found = append(found, p)
		}
	}
	if len(found) > 0 {
		return found
	}
	return nil
}

func partOf(p protocol.Problem) string {
	path := p.Path()
	switch {
	case strings.HasSuffix(path, ".status"), p.Type == protocol.TypeValue && !strings.Contains(p.Msg, "tool_calls"):
		return "status"
	case strings.HasSuffix(path, ".memory"):
		return "memory"
	case strings.Contains(path, ".internal_steps"):
		return "steps"
	case strings.Contains(path, ".tool_calls"):
		return "calls"
	case strings.Contains(path, ".output"):
		return "decision"
	case strings.Contains(path, ".error"):
		return "error"
	}
	return "shape"
}
