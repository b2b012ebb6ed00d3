package protocol

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestSyntaxRules(t *testing.T) {
	// at is a row whose problem stands at offset bytes from the start of marker.
	at := func(name, body, marker string, offset int) row {
		return row{name, body, problems(fmt.Sprintf("json_invalid body[%d]", strings.Index(body, marker)+offset))}
	}
	checkRules(t, DecodeAgentRequest, []row{
		{"empty body", ``, problems("missing body")},
		{"only whitespace", " \n\t", problems("missing body")},
		{"not JSON", `hello`, problems("json_invalid body[0]")},
		{"cut off", `{"request_id":"r"`, problems("json_invalid body[17]")},
		{"cut off in a string", `{"request_id":"r`, problems("json_invalid body[16]")},
		{"trailing data", `{} {}`, problems("json_invalid body[3]")},
		{"trailing data without a space", `{}{}`, problems("json_invalid body[2]")},
		{"trailing comma in an object", `{"request_id":"r",}`, problems("json_invalid body[17]")},
		{"trailing comma in an array", `{"inputs":[1,]}`, problems("json_invalid body[12]")},
		{"trailing bracket", `{}]`, problems("json_invalid body[2]")},
		{"duplicate name", `{"request_id":"r","request_id":"r"}`, problems("json_invalid body[18]")},
		{"duplicate name by escape", `{"request_id":"r","\u0072equest_id":"r"}`, problems("json_invalid body[18]")},
		at("duplicate name in raw JSON", inputWith(`"memory":{"a":[{"b":1,"b":2}]}`), `"b":2`, 0),
		{"duplicate unknown name", `{"x":1,"x":2}`, problems("json_invalid body[7]")},
		{"invalid UTF-8", "{\"request_id\":\"\xff\"}", problems("json_invalid body[15]")},
		at("invalid UTF-8 in raw JSON", inputWith("\"memory\":{\"a\":\"\xc3\x28\"}"), "\xc3", 0),
		{"invalid UTF-8 in a name", "{\"\x80\":1}", problems("json_invalid body[2]")},
		{"lone surrogate", `{"request_id":"\ud800"}`, problems("json_invalid body[15]")},
		{"byte order mark", "\ufeff{}", problems("json_invalid body[0]")},
		at("NaN", inputWith(`"memory":{"a":NaN}`), "NaN", 0),
		at("Infinity", inputWith(`"memory":{"a":Infinity}`), "Infinity", 0),
		at("-Infinity", inputWith(`"memory":{"a":-Infinity}`), "Infinity", 0),
		at("leading zero", inputWith(`"num_outputs":01`), "01", 1),
		at("plus sign", inputWith(`"num_outputs":+1`), "+1", 0),
		{"single quotes", `{'a':1}`, problems("json_invalid body[1]")},
		{"comment", "{}//", problems("json_invalid body[2]")},
		{"name without quotes", `{a:1}`, problems("json_invalid body[1]")},
		{"name a number", `{1:1}`, problems("json_invalid body[1]")},
		{"control character in a string", "{\"a\":\"\n\"}", problems("json_invalid body[6]")},
		{"two numbers", `{"a":1 2}`, problems("json_invalid body[7]")},
		{"split literal", `{"a":nu ll}`, problems("json_invalid body[7]")},
		{"split number", `{"a":1 .5}`, problems("json_invalid body[7]")},
		{"offsets count the body's own whitespace", "{ \"a\" : 1 ,\n\n  \"b\" : x }", problems("json_invalid body[21]")},
		{"syntax goes before meaning", `{"x":1,"y":2,`, problems("json_invalid body[13]")},
		{"depth in an incomplete body", strings.Repeat(`[`, 1<<20), problems("json_invalid body[64]")},
	})
}

// compact promises that its result is valid JSON exactly if the body is, and
// that it is what a parser makes of the body without whitespace.
func checkCompact(t *testing.T, body []byte) {
	t.Helper()
	before := string(body)
	text, err := compact(body, MaxDepth)
	if string(body) != before {
		t.Fatalf("compact changed its argument from %q", before)
	}
	if err != nil {
		return
	}
	want := jsontext.Value(before).Clone()
	valid := want.IsValid()
	if got := jsontext.Value(text).IsValid(); got != valid {
		t.Fatalf("%q is valid: %v; its compact form %q: %v", before, valid, text, got)
	}
	if !valid {
		return
	}
	if err := want.Compact(); err != nil {
		t.Fatal(err)
	}
	if string(text) != string(want) {
		t.Fatalf("compact form of %q is %q, want %q", before, text, want)
	}
}

func TestCompact(t *testing.T) {
	for _, body := range []string{
		``, ` `, `1`, ` 1 `, `1 2`, `[1 2]`, `[1 ,2]`, `"a b"`, `{"a" : "b c" , "d":[ ] }`, `tr ue`, `"a" "b"`, `- 1`, `1 . 5`,
		`"\\" `, `"\\\" " `, `"`, `"\`, `{"a":"\"} ]"} `, "[\n\n]", "[1\f]", "\"\n\" ", `}}}{`, `[ ]]`, `"a"   1`, `1   "a"`,
	} {
		checkCompact(t, []byte(body))
	}
}

func TestCompactCopiesOnlyWhenItMust(t *testing.T) {
	body := []byte(`{"a":[1,"b c",true]}`)
	text, _ := compact(body, MaxDepth)
	if &text[0] != &body[0] {
		t.Error("a compact body was copied")
	}
}

func TestDecodedValuesKeepNoSpareMemory(t *testing.T) {
	text, _ := compact([]byte(`{"a":`+strings.Repeat(" ", 1<<20)+`1}`), MaxDepth)
	if string(text) != `{"a":1}` || cap(text) > 1<<10 {
		t.Errorf("%q takes %d bytes", text, cap(text))
	}
}

func FuzzCompact(f *testing.F) {
	for _, s := range []string{``, `{"a": [1, 2.0, "x y"]}`, `1 2`, `"\\" `, `{"a":"\"} ]"} `, " \n", `nu ll`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkCompact(t, body) })
}
