package check

import (
	"net/http"
	"slices"
	"strings"

	"agentd/protocol"
)

// secondInput adds an input to plain.
func secondInput(input string) string { return edit(plain, `}}]`, `}},`+input+`]`) }

// errorRules are about the form of what is refused.
var errorRules = slices.Concat([]rule{
	one("error/place", Should, "3", post(secondInput(`{"id":{},"instruction":{"type":"user","content":"hi"}}`)), problem("", "body.inputs[1].id")),
	one("error/every-problem", Should, "3", post(edit(input(`"id":[1]`), `"hi"`, `2`)),
		both(problem("", "body.inputs[0].id"), problem("", "body.inputs[0].instruction.content"))),
	one("error/type-json", May, "3", post(`{"request_id":"RULE"`), problem("json_invalid", "")),
	one("error/type-missing", May, "3", post(`{"request_id":"RULE","more":1}`), problem("missing", "body.inputs")),
	one("error/type-unknown", May, "3", post(input(`"seed":1,"id":1`)), problem("extra_forbidden", "body.inputs[0].seed")),
	one("error/type-integer", May, "3", post(input(`"id":"one"`)), problem("int_type", "body.inputs[0].id")),
	one("error/type-string", May, "3", post(edit(plain, `"hi"`, `true`)), problem("string_type", "body.inputs[0].instruction.content")),
	one("error/type-literal", May, "3", post(edit(plain, `"user"`, `"system"`)), problem("literal_error", "body.inputs[0].instruction.type")),
	one("error/type-empty", May, "3", post(edit(edit(plain, `"RULE"`, `""`), `"hi"`, `"RULE"`)), problem("string_too_short", "body.request_id")),
	one("error/type-low", May, "3", post(input(`"id":1,"num_outputs":-7`)), problem("greater_than_equal", "body.inputs[0].num_outputs")),
	one("error/type-value", May, "3", post(secondInput(`{"id":1,"instruction":{"type":"env","content":"x"}}`)), problem("value_error", "body.inputs[1].id")),
	one("path/unknown", Should, "3", get("/v1/RULE"), both(notFound, sentence)),
	one("path/slash", May, "2", get("/v1/info/"), notFound),
	one("path/letter-case", May, "2", get("/V1/info"), notFound),
	one("method/get", Should, "3", get("/v1/responses"), both(notAllowed, sentence)),
	chain("method/other", Should, "3", "other methods are a 405",
		step{request{method: http.MethodPut, path: "/v1/responses", text: text{head: plain}}, status(http.StatusMethodNotAllowed)},
		step{request{method: http.MethodPost, path: "/v1/info", text: text{head: `{}`}}, both(status(http.StatusMethodNotAllowed), header("Allow", http.MethodGet))}),
	one("method/head", May, "2", request{method: http.MethodHead, path: "/v1/responses"}, notAllowed),
	one("header/request-id", May, "2", get("/v1/info?id", "X-Request-Id: check-1"), header("X-Request-Id", "check-1")),
}, with(needOpen,
	one("error/origin", May, "3", post(plain, "Origin: http://page.example"), status(http.StatusForbidden)),
))

// sentence is an error whose body has a sentence.
var sentence = right{text: `{"detail": "a sentence"}`, judge: func(x *exchange) string {
	detail, _ := protocol.DecodeErrorBody(x.body) // a body of another form is a detail itself
	return when(equal(x.body, []byte(encode(map[string]string{"detail": detail}))))
}}

// problem is a 422 with a problem of a type at a path such as body.inputs[0].id; "" is any.
func problem(typ, path string) right {
	return both(refused, right{text: strings.TrimSpace(typ + " at " + path), judge: func(x *exchange) string {
		_, problems := protocol.DecodeErrorBody(x.body)
		return when(slices.ContainsFunc(problems, func(p protocol.Problem) bool {
			return (typ == "" || p.Type == typ) && (path == "" || p.Path() == path) &&
				p.Type != "" && p.Msg != "" && strings.HasPrefix(p.Path(), "body")
		}))
	}})
}
