package check

import (
	"fmt"
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

// variant is a rule about a body in which a part is replaced. Neighbors with the same id are one rule.
type variant struct{ id, level, old, replacement string }

// variants are the rules of a table about the body of a request.
func variants(table []variant, section string, sent request, r right) (list []rule) {
	body := sent.text.head
	for i, v := range table {
		sent.text.head = edit(body, v.old, v.replacement)
		if i == 0 || table[i-1].id != v.id {
			list = append(list, one(v.id, v.level, section, sent, r))
			continue
		}
		last := &list[len(list)-1]
		last.steps = append(last.steps, step{sent, r})
		last.about += "; also with " + shown(v.replacement)
	}
	return list
}

// badRequests make plain invalid.
var badRequests = []variant{
	{"request/truncated", Must, `}]}`, ``},
	{"request/trailing-data", Must, `}]}`, `}]} {}`},
	{"request/not-json", Must, `}]}`, `}],}`},
	{"request/not-json", Must, `}]}`, `},]}`},
	{"request/not-json", Must, `"id":1`, `/* one */"id":1`},
	{"request/not-json", Must, plain, plain + ` // end`},
	{"request/not-json", Must, `"hi"`, `'hi'`},
	{"request/not-json", Must, `"request_id"`, `request_id`},
	{"request/not-json", Must, `"id":1`, `"id" 1`},
	{"request/not-json", Must, `"hi"`, `"\x41"`},
	{"request/not-json", Must, `"hi"`, `"\u12"`},
	{"request/not-json", Must, `"id":1`, `"id":1,"memory":{"x":True}`},
	{"request/not-json", Must, `"id":1`, `"id":1,"memory":{"x":undefined}`},
	{"request/number", Must, `"id":1`, `"id":01`},
	{"request/number", Must, `"id":1`, `"id":+1`},
	{"request/number", Must, `"id":1`, `"id":0x1`},
	{"request/number", Must, `"id":1`, `"id":1,"memory":{"x":.5}`},
	{"request/number", Must, `"id":1`, `"id":1,"memory":{"x":1.}`},
	{"request/control-character", Must, `"hi"`, "\"h\ti\""},
	{"request/control-character", Must, `"hi"`, "\"h\ni\""},
	{"request/control-character", Must, `"hi"`, "\"h\x00i\""},
	{"request/control-character", Must, `"hi"`, "\"h\x1fi\""},
	{"request/nan", Must, `"id":1`, `"id":1,"memory":{"x":NaN}`},
	{"request/nan", Must, `"id":1`, `"id":1,"memory":{"x":Infinity}`},
	{"request/nan", Must, `"id":1`, `"id":1,"memory":{"x":-Infinity}`},
	{"request/utf-8", Must, `"hi"`, "\"\xff\""},
	{"request/utf-8", Must, `"hi"`, "\"\xc0\x80\""},
	{"request/utf-8", Must, `"hi"`, "\"\xed\xa0\x80\""},
	{"request/utf-8", Must, `"hi"`, "\"\xe6\x9c\""},
	{"request/lone-surrogate", Should, `"hi"`, `"\ud800"`},
	{"request/lone-surrogate", Should, `"hi"`, `"\udc00\ud800"`},
	{"request/lone-surrogate", Should, `"id":1`, `"id":1,"memory":{"\udfff":1}`},
	{"request/name-twice", Should, `"id":1`, `"id":1,"id":1`},
	{"request/name-twice", Should, `"id":1`, `"id":1,"\u0069d":1`},
	{"request/name-twice", Should, `"RULE"`, `"RULE","request_id":"RULE"`},
	{"request/name-twice", Should, `"hi"`, `"hi","content":"hi"`},
	{"request/name-twice-in-memory", Should, `"id":1`, `"id":1,"memory":{"x":{"y":1,"y":1}}`},
	{"request/name-twice-in-memory", Should, `"id":1`, `"id":1,"memory":{"x":[{"y":1,"\u0079":1}]}`},
	{"request/name-twice-in-memory", Should, `"id":1`, `"id":1,"tools":[{"name":"a","name":"b"}]`},
	{"request/name-twice-in-memory", Should, `"id":1`, `"id":1,"attributes":{"x":1,"x":1}`},
	{"request/name-twice-in-memory", Should, `"id":1`, `"id":1,"extra_keys":{"x":1,"x":1}`},
	{"request/array", Must, plain, `["RULE"]`},
	{"request/array", Must, plain, `[` + plain + `]`},
	{"request/array", Must, plain, `"RULE"`},
	{"request/array", Must, plain, `null`},
	{"request/array", Must, plain, `7`},
	{"request/unknown-field", Must, `"inputs"`, `"stream":true,"inputs"`},
	{"request/unknown-field", Must, `"inputs"`, `"model":null,"inputs"`},
	{"request/letter-case", Must, `"inputs"`, `"Inputs"`},
	{"request/letter-case", Must, `"id"`, `"ID"`},
	{"request/id-missing", Must, `"request_id":"RULE",`, ``},
	{"request/id-empty", Must, `"RULE"`, `""`},
	{"request/id-number", Must, `"RULE"`, `5`},
	{"request/id-number", Must, `"RULE"`, `null`},
	{"request/id-number", Must, `"RULE"`, `["RULE"]`},
	{"request/inputs-missing", Must, plain, `{"request_id":"RULE"}`},
	{"request/inputs-empty", Must, plain, `{"request_id":"RULE","inputs":[]}`},
	{"request/inputs-object", Must, plain, `{"request_id":"RULE","inputs":{}}`},
	{"request/inputs-object", Must, plain, `{"request_id":"RULE","inputs":null}`},
	{"request/inputs-object", Must, plain, `{"request_id":"RULE","inputs":"hi"}`},
	{"request/inputs-object", Must, plain, `{"request_id":"RULE","inputs":{"id":1,"instruction":{"type":"user","content":"hi"}}}`},
	{"request/inputs-object", Must, plain, `{"request_id":"RULE","inputs":[null]}`},
	{"request/inputs-object", Must, plain, `{"request_id":"RULE","inputs":["hi"]}`},
	{"request/inputs-object", Must, `}]}`, `},null]}`},
	{"input/unknown-field", Must, `"id":1`, `"id":1,"temperature":1`},
	{"input/unknown-field", Must, `"id":1`, `"id":1,"coaching":{}`},
	{"input/id-missing", Must, `"id":1,`, ``},
	{"input/id-text", Must, `"id":1`, `"id":"1"`},
	{"input/id-text", Must, `"id":1`, `"id":true`},
	{"input/id-text", Must, `"id":1`, `"id":false`},
	{"input/id-text", Must, `"id":1`, `"id":null`},
	{"input/id-text", Must, `"id":1`, `"id":[1]`},
	{"input/id-float", Must, `"id":1`, `"id":1.0`},
	{"input/id-float", Must, `"id":1`, `"id":1e0`},
	{"input/id-float", Must, `"id":1`, `"id":10E-1`},
	{"input/id-float", Must, `"id":1`, `"id":1.5`},
	{"input/id-too-large", Should, `"id":1`, `"id":9223372036854775808`},
	{"input/id-twice", Must, `}}]`, `}},{"id":1,"instruction":{"type":"user","content":"hi"}}]`},
	{"input/id-twice", Must, `}}]`, `}},{"id":2,"instruction":{"type":"env","content":"a"}},{"id":1,"instruction":{"type":"env","content":"b"}}]`},
	{"input/instruction-missing", Must, `,"instruction":{"type":"user","content":"hi"}`, ``},
	{"input/instruction-text", Must, `{"type":"user","content":"hi"}`, `"hi"`},
	{"input/instruction-text", Must, `{"type":"user","content":"hi"}`, `null`},
	{"input/instruction-text", Must, `{"type":"user","content":"hi"}`, `[{"type":"user","content":"hi"}]`},
	{"input/instruction-field", Must, `"content":"hi"`, `"content":"hi","role":"user"`},
	{"input/type-other", Must, `"type":"user",`, ``},
	{"input/type-other", Must, `"user"`, `"system"`},
	{"input/type-other", Must, `"user"`, `"assistant"`},
	{"input/type-other", Must, `"user"`, `""`},
	{"input/type-other", Must, `"user"`, `null`},
	{"input/type-other", Must, `"user"`, `1`},
	{"input/type-letter-case", Must, `"user"`, `"User"`},
	{"input/content-missing", Must, `,"content":"hi"`, ``},
	{"input/content-null", Must, `"hi"`, `null`},
	{"input/content-null", Must, `"hi"`, `1`},
	{"input/content-null", Must, `"hi"`, `["hi"]`},
	{"input/content-null", Must, `"hi"`, `{"text":"hi"}`},
	{"input/content-null", Must, `"hi"`, `true`},
	{"input/tool-text", Must, `"id":1`, `"id":1,"tools":["move"]`},
	{"input/tool-text", Must, `"id":1`, `"id":1,"tools":[null]`},
	{"input/tool-text", Must, `"id":1`, `"id":1,"tools":[{"name":"move"},["move"]]`},
	{"input/tools-object", Must, `"id":1`, `"id":1,"tools":{"name":"move"}`},
	{"input/tools-object", Must, `"id":1`, `"id":1,"tools":null`},
	{"input/tools-object", Must, `"id":1`, `"id":1,"tools":"move"`},
	{"input/attributes-list", Must, `"id":1`, `"id":1,"attributes":[]`},
	{"input/attributes-list", Must, `"id":1`, `"id":1,"attributes":null`},
	{"input/attributes-list", Must, `"id":1`, `"id":1,"attributes":"cup"`},
	{"input/memory-list", Must, `"id":1`, `"id":1,"memory":[]`},
	{"input/memory-list", Must, `"id":1`, `"id":1,"memory":"{}"`},
	{"input/memory-null", Must, `"id":1`, `"id":1,"memory":null`},
	{"input/extra-keys-list", Must, `"id":1`, `"id":1,"extra_keys":[]`},
	{"input/extra-keys-list", Must, `"id":1`, `"id":1,"extra_keys":null`},
	{"input/extra-keys-list", Must, `"id":1`, `"id":1,"extra_keys":"coaching"`},
	{"input/outputs-zero", Must, `"id":1`, `"id":1,"num_outputs":0`},
	{"input/outputs-zero", Must, `"id":1`, `"id":1,"num_outputs":-1`},
	{"input/outputs-text", Must, `"id":1`, `"id":1,"num_outputs":"1"`},
	{"input/outputs-text", Must, `"id":1`, `"id":1,"num_outputs":true`},
	{"input/outputs-text", Must, `"id":1`, `"id":1,"num_outputs":null`},
	{"input/outputs-text", Must, `"id":1`, `"id":1,"num_outputs":1.5`},
	{"input/outputs-float", Should, `"id":1`, `"id":1,"num_outputs":1.0`},
	{"input/outputs-float", Should, `"id":1`, `"id":1,"num_outputs":1e0`},
}

// goodRequests keep cheap valid.
var goodRequests = []variant{
	{"input/all-fields", Must, `"id":1`, `"id":1,"tools":[{"name":"move","description":"Moves.",` +
		`"parameters":{"x":{"description":"Metres.","type":"int"}}}],` +
		`"attributes":{"objects":["cup"],"known_robots":["arm"]},"memory":{},"num_outputs":1`},
	{"input/all-fields", Must, `"id":1`, `"id":1,"tools":[],"attributes":{},"memory":{},"num_outputs":1`},
	{"input/content-empty", Must, `"hi"`, `""`},
	{"input/content-unicode", Must, `"hi"`, `"\ud83e\udd16 \"é\" \u0000 \\ 机器人"`},
	{"input/extra-keys-unknown", Must, `"extra_keys":{`, `"extra_keys":{"top_k":3,"x":{"y":[1]},`},
	{"request/spelling", Must, cheap, "\r\n\t " + strings.NewReplacer(`{"`, "{ \n\t\"", `":`, `" : `, `,"`, " ,\r\n \"").Replace(cheap) + "\n"},
	{"request/spelling", Must, `"request_id"`, `"\u0072equest_id"`},
	{"request/spelling", Must, `"hi"`, `"\u0068\/i"`},
	{"request/member-order", Must, cheap, `{"inputs":[{` + replaced + `,"instruction":{"content":"hi","type":"user"},"id":1}],"request_id":"RULE"}`},
}

// ids are a request for 36 candidates of inputs in no order. One has the id 0.
func ids() string {
	list := []string{`{"id":0,"num_outputs":12` + rest}
	for i := range 24 {
		list = append(list, fmt.Sprintf(`{"id":%d%s`, []int{1000 - i, -i - 1}[i%2], rest))
	}
	return beforeInputs + strings.Join(list, ",") + "]}"
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
	one("bound/body-within", Should, "8", long(beforeInputs+`{"id":1,"attributes":{"x":"`, strings.Repeat("x", 1024), 4096, `"}`+rest+`]}`), ok),
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
