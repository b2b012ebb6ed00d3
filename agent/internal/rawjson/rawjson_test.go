package rawjson

import (
	"testing"

	"agentd/protocol"
)

func TestStrictIsJSONThatEveryReaderTakes(t *testing.T) {
	for _, test := range []struct{ name, json, want string }{
		{"what is right keeps its bytes", `{"a":1.50,"b":["\u00e9",{}],"c":-0}`, `{"a":1.50,"b":["\u00e9",{}],"c":-0}`},
		{"white space goes", ` { "a" : [ 1 , "x y" ] } `, `{"a":[1,"x y"]}`},
		{"of one name, the last in the place of the first", `{"a":1,"b":2,"a":{"x":1,"x":[3,3]}}`, `{"a":{"x":[3,3]},"b":2}`},
		{"a name may be written in two ways", `{"a":1,"\u0061":2}`, `{"a":2}`},
		{"half of a surrogate pair, in a value and a name", `{"\ud800":["\udc00a","\ud83d\ude00"]}`, "{\"\ufffd\":[\"\ufffda\",\"\\ud83d\\ude00\"]}"},
		{"empty ones", `[[],{}]`, `[[],{}]`},
	} {
		got := Strict(protocol.Raw(test.json))
		if string(got) != test.want || !got.IsValid() {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestIndentedAsPythonDoes(t *testing.T) {
	const in, want = `{"a":{},"b":[],"c":[1.50,{"d":"é, \u0022"}]}`, `{
    "a": {},
    "b": [],
    "c": [
        1.50,
        {
            "d": "é, \""
        }
    ]
}`
	if got := string(AppendIndented([]byte("x"), protocol.Raw(in))); got != "x"+want {
		t.Errorf("got %s", got)
	}
}
