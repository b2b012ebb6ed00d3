package check

import (
	"net/http"
	"slices"
	"strings"
)

const (
	// plain is the smallest valid request.
	plain = `{"request_id":"RULE","inputs":[{"id":1,"instruction":{"type":"user","content":"hi"}}]}`
	// okSay is a correction, and replaced is what makes a server that knows corrections decide without its model.
	okSay    = `{"kind":"replace_say","text":"ok"}`
	replaced = `"extra_keys":{"coaching":` + okSay + `}`
	// cheap is a valid request that needs no model where corrections are known.
	cheap = `{"request_id":"RULE","inputs":[{"id":1,"instruction":{"type":"user","content":"hi"},` + replaced + `}]}`
)

// edit replaces a part of a body, which must be there.
func edit(body, old, replacement string) string {
	if !strings.Contains(body, old) {
		panic("the body lacks " + old)
	}
	return strings.Replace(body, old, replacement, 1)
}

// input is plain with other members of its input in place of the id.
func input(members string) string { return edit(plain, `"id":1`, members) }

// variant is a rule about a body in which a part is replaced.
type variant struct{ id, level, old, replacement string }

// variants are the rules of a table about the body of a request.
func variants(table []variant, section string, sent request, r right) (list []rule) {
	body := sent.text.head
	for _, v := range table {
		sent.text.head = edit(body, v.old, v.replacement)
		list = append(list, one(v.id, v.level, section, sent, r))
	}
	return list
}

// badRequests make plain invalid.
var badRequests = []variant{
	{"request/truncated", Must, `}]}`, ``},
	{"request/trailing-data", Must, `}]}`, `}]} {}`},
	{"request/nan", Should, `"id":1`, `"id":1,"memory":{"x":NaN}`},
	{"request/utf-8", Should, `"hi"`, "\"\xff\""},
	{"request/lone-surrogate", Should, `"hi"`, `"\ud800"`},
	{"request/name-twice", Should, `"id":1`, `"id":1,"id":1`},
	{"request/name-twice-in-memory", Should, `"id":1`, `"id":1,"memory":{"x":{"y":1,"y":1}}`},
	{"request/array", Must, plain, `["RULE"]`},
	{"request/unknown-field", Must, `"inputs"`, `"stream":true,"inputs"`},
	{"request/letter-case", Must, `"inputs"`, `"Inputs"`},
	{"request/id-missing", Must, `"request_id":"RULE",`, ``},
	{"request/id-empty", Must, `"RULE"`, `""`},
	{"request/id-number", Must, `"RULE"`, `5`},
	{"request/inputs-missing", Must, plain, `{"request_id":"RULE"}`},
	{"request/inputs-empty", Must, plain, `{"request_id":"RULE","inputs":[]}`},
	{"request/inputs-object", Must, plain, `{"request_id":"RULE","inputs":{}}`},
	{"input/unknown-field", Must, `"id":1`, `"id":1,"temperature":1`},
	{"input/id-missing", Must, `"id":1,`, ``},
	{"input/id-text", Must, `"id":1`, `"id":"1"`},
	{"input/id-float", Must, `"id":1`, `"id":1.0`},
	{"input/id-too-large", Should, `"id":1`, `"id":9223372036854775808`},
	{"input/id-twice", Must, `}}]`, `}},{"id":1,"instruction":{"type":"user","content":"hi"}}]`},
	{"input/instruction-missing", Must, `,"instruction":{"type":"user","content":"hi"}`, ``},
	{"input/instruction-field", Must, `"content":"hi"`, `"content":"hi","role":"user"`},
	{"input/type-letter-case", Must, `"user"`, `"User"`},
	{"input/content-missing", Must, `,"content":"hi"`, ``},
	{"input/content-null", Must, `"hi"`, `null`},
	{"input/tool-text", Must, `"id":1`, `"id":1,"tools":["move"]`},
	{"input/attributes-list", Must, `"id":1`, `"id":1,"attributes":[]`},
	{"input/memory-list", Must, `"id":1`, `"id":1,"memory":[]`},
	{"input/memory-null", Should, `"id":1`, `"id":1,"memory":null`},
	{"input/extra-keys-list", Must, `"id":1`, `"id":1,"extra_keys":[]`},
	{"input/outputs-zero", Must, `"id":1`, `"id":1,"num_outputs":0`},
	{"input/outputs-text", Must, `"id":1`, `"id":1,"num_outputs":"1"`},
	{"input/outputs-float", Should, `"id":1`, `"id":1,"num_outputs":1.0`},
}

// goodRequests keep cheap valid.
var goodRequests = []variant{
	{"input/all-fields", Must, `"id":1`, `"id":1,"tools":[{"name":"move","description":"Moves.",` +
		`"parameters":{"x":{"description":"Metres.","type":"int"}}}],` +
		`"attributes":{"objects":["cup"],"known_robots":["arm"]},"memory":{},"num_outputs":1`},
	{"input/content-empty", Should, `"hi"`, `""`},
	{"input/content-unicode", Must, `"hi"`, `"\ud83e\udd16 \"é\" \u0000 \\ 机器人"`},
	{"input/extra-keys-unknown", Must, `"extra_keys":{`, `"extra_keys":{"top_k":3,"x":{"y":[1]},`},
}

// requestRules are about one body and whether it is valid.
var requestRules = slices.Concat([]rule{
	one("request/empty", Must, "1", post(""), refused),
	one("request/type-absent", Should, "1", post(cheap, "Content-Type: "), ok),
	one("request/type-parameters", Must, "1", post(cheap, "Content-Type: application/json; charset=utf-8"), ok),
	one("request/type-form", Should, "1", post(cheap, "Content-Type: application/x-www-form-urlencoded"), both(unsupported, sentence)),
}, variants(badRequests, "1", post(plain), refused), variants(goodRequests, "4", post(cheap), ok))

// long is a request with a part that is repeated.
func long(head, unit string, n int, tail string) request {
	return request{method: http.MethodPost, path: "/v1/responses", text: text{head, unit, n, tail}}
}

const (
	beforeInputs = `{"request_id":"RULE","inputs":[`
	rest         = `,"instruction":{"type":"user","content":"hi"},` + replaced + `}`
	lastInput    = `{"id":0` + rest + `]}`
	beforeMemory = beforeInputs + `{"id":1` + `,"instruction":{"type":"user","content":"hi"},` + replaced + `,"memory":`
)

// boundRules are about the limits of a request.
var boundRules = slices.Concat([]rule{
	one("bound/request-id", Should, "4", long(`{"request_id":"`, "0123456789", 1000, edit(cheap, `{"request_id":"RULE`, ``)), ok),
	one("bound/depth", Should, "8", long(beforeMemory+`{"d":`, "[", 60, strings.Repeat("]", 60)+`}}]}`), ok),
	one("bound/depth-beyond", Should, "8", long(beforeMemory+`{"d":`, "[", 61, strings.Repeat("]", 61)+`}}]}`), refused),
	one("bound/body", May, "8", long(`{"request_id":"`, strings.Repeat("x", 1024), 65536, edit(plain, `{"request_id":"RULE`, ``)),
		status(http.StatusRequestEntityTooLarge)),
	one("bound/inputs-beyond", May, "8", long(beforeInputs, `{"id":#`+rest+`,`, 1024, lastInput), problem("too_long", "body.inputs")),
	one("bound/outputs-beyond", May, "8", post(input(`"id":1,"num_outputs":257`)), problem("less_than_equal", "body.inputs[0].num_outputs")),
	one("bound/candidates-beyond", May, "8", long(beforeInputs, `{"id":#,"num_outputs":256`+rest+`,`, 16, lastInput), refused),
	one("bound/problems", May, "8", long(`{"request_id":"RULE",`, `"x#":0,`, 300, `"inputs":[]}`), problem("too_many_problems", "")),
}, with(needResume,
	one("bound/inputs", May, "8", long(beforeInputs, `{"id":#`+rest+`,`, 1023, lastInput), ok),
	one("bound/outputs", May, "8", post(edit(cheap, `"id":1`, `"id":1,"num_outputs":256`)), ok),
	one("bound/candidates", May, "8", long(beforeInputs, `{"id":#,"num_outputs":256`+rest+`,`, 15,
		edit(lastInput, `"id":0`, `"id":0,"num_outputs":256`)), ok),
), with(needHistory,
	one("bound/history-beyond", May, "8", long(beforeMemory+`{"history":[`, `{"content":""},`, 131072, `{"content":""}]}}]}`), refused),
))
