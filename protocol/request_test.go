package protocol

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeAgentRequestRules(t *testing.T) {
	instruction := func(s string) string { return requestOf(`{"id":1,"instruction":` + s + `}`) }
	id := func(s string) string { return requestOf(`{"id":` + s + `,` + instructionJSON + `}`) }
	checkRules(t, DecodeAgentRequest, []row{
		{"minimal", inputWith(""), nil},
		{"whitespace around tokens", " {\t\"request_id\" :\r\n\"r\" , \"inputs\": [ {\"id\": 1 , " + instructionJSON + " } ] } \n", nil},
		{"every field", inputWith(`"tools":[{},{"name":"a"}],"attributes":{"a":1},"memory":{"b":[]},"num_outputs":256,"extra_keys":{"c":null}`), nil},

		{"request_id missing", `{"inputs":[{"id":1,` + instructionJSON + `}]}`, problems("missing body.request_id")},
		{"request_id not a string", `{"request_id":7,"inputs":[{"id":1,` + instructionJSON + `}]}`, problems("string_type body.request_id")},
		{"request_id null", `{"request_id":null,"inputs":[{"id":1,` + instructionJSON + `}]}`, problems("string_type body.request_id")},
		{"inputs empty", `{"request_id":"r","inputs":[]}`, problems("too_short body.inputs")},
		{"inputs not a list", `{"request_id":"r","inputs":{}}`, problems("list_type body.inputs")},
		{"inputs null", `{"request_id":"r","inputs":null}`, problems("list_type body.inputs")},
		{"input not an object", requestOf(`1`), problems("dict_type body.inputs[0]")},
		{"body not an object", `[]`, problems("dict_type body")},
		{"body null", `null`, problems("dict_type body")},

		{"names are case-sensitive", `{"Request_id":"r","inputs":[{"id":1,` + instructionJSON + `}]}`,
			problems("extra_forbidden body.Request_id", "missing body.request_id")},
		{"unknown field at every level", `{"request_id":"r","x":1,"inputs":[{"id":1,"y":2,"instruction":{"type":"user","content":"","z":3}}]}`,
			problems("extra_forbidden body.x", "extra_forbidden body.inputs[0].y", "extra_forbidden body.inputs[0].instruction.z")},
		{"escaped name is the same name", `{"\u0072equest_id":"r","inputs":[{"id":1,` + instructionJSON + `}]}`, nil},

		{"id missing", requestOf(`{` + instructionJSON + `}`), problems("missing body.inputs[0].id")},
		{"id at the ends of int64", requestOf(`{"id":9223372036854775807,`+instructionJSON+`}`, `{"id":-9223372036854775808,`+instructionJSON+`}`), nil},
		{"id above int64", id(`9223372036854775808`), problems("int_parsing_size body.inputs[0].id")},
		{"id below int64", id(`-9223372036854775809`), problems("int_parsing_size body.inputs[0].id")},
		{"id 1.0", id(`1.0`), problems("int_type body.inputs[0].id")},
		{"id 1e0", id(`1e0`), problems("int_type body.inputs[0].id")},
		{"id 1E2", id(`1E2`), problems("int_type body.inputs[0].id")},
		{"id true", id(`true`), problems("int_type body.inputs[0].id")},
		{"id null", id(`null`), problems("int_type body.inputs[0].id")},
		{"missing ids are not duplicates", requestOf(`{`+instructionJSON+`}`, `{`+instructionJSON+`}`, `{"id":0,`+instructionJSON+`}`),
			problems("missing body.inputs[0].id", "missing body.inputs[1].id")},

		{"instruction missing", requestOf(`{"id":1}`), problems("missing body.inputs[0].instruction")},
		{"instruction null", instruction(`null`), problems("dict_type body.inputs[0].instruction")},
		{"instruction type unknown", instruction(`{"type":"User","content":""}`), problems("literal_error body.inputs[0].instruction.type")},
		{"instruction type not a string", instruction(`{"type":1,"content":""}`), problems("string_type body.inputs[0].instruction.type")},
		{"instruction type missing", instruction(`{"content":""}`), problems("missing body.inputs[0].instruction.type")},
		{"instruction content missing", instruction(`{"type":"user"}`), problems("missing body.inputs[0].instruction.content")},
		{"instruction content not a string", instruction(`{"type":"user","content":["a"]}`), problems("string_type body.inputs[0].instruction.content")},

		{"tools null", inputWith(`"tools":null`), problems("list_type body.inputs[0].tools")},
		{"tool not an object", inputWith(`"tools":[{},"a",null]`), problems("dict_type body.inputs[0].tools[1]", "dict_type body.inputs[0].tools[2]")},
		{"attributes null", inputWith(`"attributes":null`), problems("dict_type body.inputs[0].attributes")},
		{"attributes a list", inputWith(`"attributes":[]`), problems("dict_type body.inputs[0].attributes")},
		{"memory null", inputWith(`"memory":null`), problems("dict_type body.inputs[0].memory")},
		{"memory a string", inputWith(`"memory":"{}"`), problems("dict_type body.inputs[0].memory")},
		{"extra_keys null", inputWith(`"extra_keys":null`), problems("dict_type body.inputs[0].extra_keys")},
		{"nulls inside raw JSON are the agent's", inputWith(`"memory":{"a":null},"extra_keys":{"coaching":null}`), nil},

		{"num_outputs zero", inputWith(`"num_outputs":0`), problems("greater_than_equal body.inputs[0].num_outputs")},
		{"num_outputs 2.0", inputWith(`"num_outputs":2.0`), problems("int_type body.inputs[0].num_outputs")},
		{"num_outputs null", inputWith(`"num_outputs":null`), problems("int_type body.inputs[0].num_outputs")},
		{"num_outputs true", inputWith(`"num_outputs":true`), problems("int_type body.inputs[0].num_outputs")},

		{"every problem of a body", `{"inputs":[{"id":"a","instruction":{},"num_outputs":0},7]}`, problems(
			"int_type body.inputs[0].id", "missing body.inputs[0].instruction.type", "missing body.inputs[0].instruction.content",
			"greater_than_equal body.inputs[0].num_outputs", "dict_type body.inputs[1]", "missing body.request_id")},
	})
}

func TestDecodeAgentRequestBounds(t *testing.T) {
	inputs := func(n, outputs int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"id":%d,%s,"num_outputs":%d}`, i, instructionJSON, outputs)
		}
		return requestOf(list...)
	}
	checkRules(t, DecodeAgentRequest, []row{
		{"4097 candidates", inputs(16, 256)[:len(inputs(16, 256))-2] + `,{"id":99,` + instructionJSON + `}]}`, problems("value_error body.inputs")},
		{"depth 65", inputWith(`"memory":{"a":` + nested(61) + `}`), problems(fmt.Sprintf("json_invalid body[%d]", strings.Index(inputWith(`"memory":{"a":`+nested(61)+`}`), "[[")+60))},
		{"brackets in strings are no depth", inputWith(`"memory":{"a":"` + strings.Repeat("[", 100) + `\"` + strings.Repeat("{", 100) + `"}`), nil},
		{"too many list elements", inputWith(`"tools":[` + strings.Repeat("{},", MaxElements) + `{}]`), problems("too_long body.inputs[0].tools[1048575]")},
		{"elements of raw lists are free", inputWith(`"memory":{"a":[` + strings.Repeat("1,", MaxElements) + `1]}`), nil},
	})
	for _, c := range []struct {
		body, says string
	}{
		{inputs(1025, 1), "1024"},
		{inputs(17, 256), "4096"},
		{inputWith(`"num_outputs":300`), "256"},
		{inputWith(`"memory":{"a":` + nested(70) + `}`), "64"},
	} {
		if _, err := DecodeAgentRequest([]byte(c.body)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("problem %v does not name the bound %s", err, c.says)
		}
	}
}

func TestDecodeBoundsMembersOfOpenObjects(t *testing.T) {
	var b strings.Builder
	for i := range MaxObjectMembers {
		fmt.Fprintf(&b, `"%x":1,`, i)
	}
	_, err := DecodeAgentRequest([]byte(inputWith(`"memory":{` + b.String() + `"last":1}`)))
	if got := summary(t, err); len(got) != 1 || !strings.HasPrefix(got[0], "json_invalid") {
		t.Errorf("got %v, want one json_invalid", got)
	}
	// Closed objects do not count: a long history of small ones is fine.
	turns := strings.Repeat(`{"author":"USER","content":"x"},`, MaxObjectMembers/2) + `{}`
	if _, err := DecodeAgentRequest([]byte(inputWith(`"memory":{"history":[` + turns + `]}`))); err != nil {
		t.Error(err)
	}
}

func TestDecodeAgentRequestDefaults(t *testing.T) {
	r, err := DecodeAgentRequest([]byte(inputWith("")))
	if err != nil {
		t.Fatal(err)
	}
	want := &AgentRequest{RequestID: "r", Inputs: []AgentInput{{
		ID: 1, Instruction: AgentInstruction{Type: InstructionUser, Content: "x"},
		Attributes: Raw("{}"), Memory: Raw("{}"), NumOutputs: 1, ExtraKeys: Raw("{}"),
	}}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	if n := r.Candidates(); n != 1 {
		t.Errorf("Candidates() = %d, want 1", n)
	}
}

func TestDecodeDefaultsAreNotShared(t *testing.T) {
	r, err := DecodeAgentRequest([]byte(inputWith("")))
	if err != nil {
		t.Fatal(err)
	}
	_ = append(r.Inputs[0].Memory, "garbage"...)
	if string(emptyObject) != "{}" || string(emptyObject[:2]) != "{}" {
		t.Errorf("appending to a default changed it to %s", emptyObject)
	}
}

func TestRawSurvivesByteForByte(t *testing.T) {
	for _, raw := range []string{
		`{"z":1,"a":2}`,
		`{"n":[1.0,1e400,-0,0.10,1E+2,12345678901234567890123,-1.5e-7]}`,
		`{"s":"\u00e9\/\n\ud83d\ude00 \u003c b\\ \" "}`,
		`{"é":"日本","":{"":[]}}`,
		`{"a":{"b":[[],{}],"c":[null,true,false]}}`,
	} {
		t.Run(raw, func(t *testing.T) {
			r, err := DecodeAgentRequest([]byte(inputWith(`"memory":` + raw)))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.Inputs[0].Memory); got != raw {
				t.Errorf("memory became %s", got)
			}
			spaced := strings.NewReplacer(":", " :\n", ",", "\t, ").Replace(raw)
			if strings.ContainsAny(raw, "\\") {
				return // the replacer knows nothing of strings
			}
			r, err = DecodeAgentRequest([]byte(inputWith(`"memory": ` + spaced)))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.Inputs[0].Memory); got != raw {
				t.Errorf("memory without its whitespace became %s", got)
			}
		})
	}
}

func TestRawFieldsSurviveEverywhere(t *testing.T) {
	const raw = `{"b":1.0,"a":1e400}`
	r, err := DecodeAgentRequest([]byte(inputWith(`"tools":[` + raw + `],"attributes":` + raw + `,"memory":` + raw + `,"extra_keys":` + raw)))
	if err != nil {
		t.Fatal(err)
	}
	in := r.Inputs[0]
	for name, got := range map[string]Raw{"tools": in.Tools[0], "attributes": in.Attributes, "memory": in.Memory, "extra_keys": in.ExtraKeys} {
		if string(got) != raw {
			t.Errorf("%s became %s", name, got)
		}
	}
}

func TestProblemsAreCapped(t *testing.T) {
	_, err := DecodeAgentRequest([]byte(requestOf(strings.Repeat(`{},`, 5000) + `{}`)))
	got := summary(t, err)
	if len(got) != MaxProblems {
		t.Fatalf("got %d problems, want %d", len(got), MaxProblems)
	}
	if last := got[MaxProblems-1]; last != "too_many_problems body" {
		t.Errorf("the last problem is %q", last)
	}
}

func TestReturnedBytesAreBounded(t *testing.T) {
	memory := `"memory":{"x":"` + strings.Repeat("m", MaxRepeated/MaxNumOutputs) + `"}`
	for _, tc := range []struct {
		rule, members string
		fine          bool
	}{
		{"few candidates of a large memory", memory + `,"num_outputs":255`, true},
		{"many candidates of a large memory", memory + `,"num_outputs":256`, false},
		{"many candidates of large tools", strings.Replace(memory, `"memory":{`, `"tools":[{`, 1) + `],"num_outputs":256`, false},
		{"many candidates of a long correction", strings.Replace(memory, `"memory":{`, `"extra_keys":{"coaching":{`, 1) + `},"num_outputs":256`, false},
		{"other extra keys are not returned", strings.Replace(memory, "memory", "extra_keys", 1) + `,"num_outputs":256`, true},
		{"many candidates of large attributes", strings.Replace(memory, "memory", "attributes", 1) + `,"num_outputs":256`, false},
	} {
		_, err := DecodeAgentRequest([]byte(inputWith(tc.members)))
		if tc.fine != (err == nil) || err != nil && !strings.Contains(err.Error(), "body.inputs: has 5368") {
			t.Errorf("%s: %v", tc.rule, err)
		}
	}
	long := requestOf(`{"id":1,"instruction":{"type":"user","content":"` + strings.Repeat("i", MaxRepeated/MaxNumOutputs) + `"},"num_outputs":256}`)
	if _, err := DecodeAgentRequest([]byte(long)); err == nil {
		t.Error("many candidates of a long instruction are accepted")
	}
}

func TestLongRequestIDIsAccepted(t *testing.T) {
	request := func(members, id string, idFirst bool) string {
		inputs, first, last := `"inputs":[{"id":1,`+instructionJSON+members+`}]`, `"request_id":"`+id+`",`, ""
		if !idFirst {
			first, last = "", `,"request_id":"`+id+`"`
		}
		return "{" + first + inputs + last + "}"
	}
	const escaped = 6 // bytes of a control character in JSON
	for name, test := range map[string]struct {
		body string
		fine bool
	}{
		"a megabyte":                          {request("", strings.Repeat("i", 1<<20), true), true},
		"as many candidates as it lets":       {request(`,"num_outputs":255`, strings.Repeat("i", MaxRepeated/256), true), true},
		"too many candidates return it":       {request(`,"num_outputs":256`, strings.Repeat("i", MaxRepeated/256), true), false},
		"too many, and it comes last":         {request(`,"num_outputs":256`, strings.Repeat("i", MaxRepeated/256), false), false},
		"together with the memory":            {request(`,"num_outputs":256,"memory":{"x":"`+strings.Repeat("m", MaxRepeated/512)+`"}`, strings.Repeat("i", MaxRepeated/512), true), false},
		"as many as are escaped in an answer": {request(`,"num_outputs":256`, strings.Repeat(`\u0001`, MaxRepeated/256/escaped), true), false},
	} {
		req, err := DecodeAgentRequest([]byte(test.body))
		switch {
		case test.fine && (err != nil || req.RequestID == ""):
			t.Errorf("%s: %v", name, err)
		case !test.fine && (err == nil || !strings.Contains(err.Error(), "body.inputs: has ") || !strings.Contains(err.Error(), "request_id") || !strings.Contains(err.Error(), strconv.Itoa(MaxRepeated))):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProblemsQuoteLittleOfTheBody(t *testing.T) {
	long := strings.Repeat("é", 1<<16)
	for _, body := range []string{
		`{"` + long + `":1}`,
		inputWith(`"num_outputs":` + strings.Repeat("1", 1<<16)),
		requestOf(`{"id":1,"instruction":{"type":"` + long + `","content":""}}`),
		inputWith(`"memory":{"` + long + `":1,"` + long + `":2}`),
		inputWith(`"memory":{"` + long + `":nul}`),
	} {
		_, err := DecodeAgentRequest([]byte(body))
		var ps Problems
		if !errors.As(err, &ps) {
			t.Fatalf("error is %v", err)
		}
		if n := len(ps.AppendBody(nil)); n > 2000 {
			t.Errorf("a body of %d bytes gives an error body of %d bytes", len(body), n)
		}
	}
}
