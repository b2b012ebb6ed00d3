package memory

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/tools"
	"agentd/protocol"
)

// TestAppend states what a turn does to a memory, byte for byte.
func TestAppend(t *testing.T) {
	const turn = `{"author":"USER","content":"Go \"é\"\n"},{"author":"MODEL","content":"{\"say\": \"ok\", \"action\": {}}"}`
	for _, test := range []struct {
		name, before, after string
		change              Change
	}{
		{"an empty memory gets a history and nothing else", `{}`, `{"history":[` + turn + `]}`, Change{}},
		{"a history grows at its end", `{"history":[{"author":"USER","content":"a","x":1.0}]}`,
			`{"history":[{"author":"USER","content":"a","x":1.0},` + turn + `]}`, Change{}},
		{"everything else keeps its place and bytes", `{"a":1.50,"history":[],"b":"\u0041\/","\u0063":{"c":[1E5,{}]}}`,
			`{"a":1.50,"history":[` + turn + `],"b":"\u0041\/","\u0063":{"c":[1E5,{}]}}`, Change{}},
		{"a null history counts as absent, in its place", `{"history":null,"z":0}`, `{"history":[` + turn + `],"z":0}`, Change{}},
		{"null rules and summary stay", `{"memory_list":null,"summary":null}`, `{"memory_list":null,"summary":null,"history":[` + turn + `]}`, Change{}},
		{"reasoning comes under the index of the decision", `{"history":[]}`,
			`{"history":[` + turn + `],"_qwen":{"version":1,"turns":{"1":{"kind":"tool_call","reasoning":"I \"think\""}}}}`,
			Change{Reasoning: []string{`I "think"`}}},
		{"beside the reasoning that is there", `{"_qwen":{"version":1,"turns":{"0":{"kind":"tool_call","reasoning":"\u0041"}},"more":1.0},"history":[{"author":"MODEL","content":"x"}]}`,
			`{"_qwen":{"version":1,"turns":{"0":{"kind":"tool_call","reasoning":"\u0041"},"2":{"kind":"tool_call","reasoning":"B"}},"more":1.0},"history":[{"author":"MODEL","content":"x"},` + turn + `]}`,
			Change{Reasoning: []string{"B"}}},
		{"a new task drops earlier reasoning", `{"_qwen":{"version":1,"turns":{"0":{"kind":"tool_call","reasoning":"A"}}},"history":[{"author":"MODEL","content":"x"}]}`,
			`{"_qwen":{"version":1,"turns":{"2":{"kind":"tool_call","reasoning":"B"}}},"history":[{"author":"MODEL","content":"x"},` + turn + `]}`,
			Change{Reasoning: []string{"B"}, NewTask: true}},
		{"even when it has none itself", `{"_qwen":{"version":1,"turns":{}},"history":[]}`, `{"history":[` + turn + `]}`, Change{NewTask: true}},
		{"a call without reasoning leaves the state", `{"_qwen":{"version":1,"turns":{}},"history":[]}`,
			`{"_qwen":{"version":1,"turns":{}},"history":[` + turn + `]}`, Change{}},
		{"a final say takes it out", `{"x":1,"_qwen":{"version":1,"turns":{}},"history":[]}`, `{"x":1,"history":[` + turn + `]}`, Change{Final: true}},
		{"also a null one", `{"_qwen":null}`, `{"history":[` + turn + `]}`, Change{Final: true}},
		{"another format's state is not ours", `{"_gpt_oss":{"version":7}}`, `{"_gpt_oss":{"version":7},"history":[` + turn + `]}`, Change{Final: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := protocol.Raw(test.before)
			m, problems := Parse(before.Clone(), QwenKey)
			if len(problems) > 0 {
				t.Fatal(problems.All())
			}
			a := m.Prepare(User, "Go \"é\"\n")
			for range 2 { // candidates share what is prepared
				got := a.Decision(WriteDecision("ok", nil, false), test.change)
				if diff := cmp.Diff(test.after, string(got)); diff != "" {
					t.Error(diff)
				}
			}
			if string(m.raw) != test.before {
				t.Error("the input's memory was changed")
			}
		})
	}
}

func TestGPTOSSState(t *testing.T) {
	m, problems := Parse(protocol.Raw(`{"history":[{"author":"ASSISTANT","content":"x"}],"_gpt_oss":{"version":1,"turns":{"0":{"kind":"tool_call","analysis":["a","b"]}}}}`), GPTOSSKey)
	if len(problems) > 0 {
		t.Fatal(problems.All())
	}
	if diff := cmp.Diff(map[int]Turn{0: {Kind: KindToolCall, Reasoning: []string{"a", "b"}}}, m.State.Turns); diff != "" {
		t.Error(diff)
	}
	got := m.Prepare(System, "r").Decision([]byte("d"), Change{Reasoning: []string{"c", "d"}})
	want := `"_gpt_oss":{"version":1,"turns":{"0":{"kind":"tool_call","analysis":["a","b"]},"2":{"kind":"tool_call","analysis":["c","d"]}}}`
	if !strings.Contains(string(got), want) {
		t.Errorf("%s lacks %s", got, want)
	}
}

// TestProblems states what is invalid input, and where.
func TestProblems(t *testing.T) {
	const model = `{"history":[{"author":"MODEL","content":"x"},{"content":"u"}],"_qwen":`
	for _, test := range []struct{ name, memory, want string }{
		{"a history that is an object", `{"history":{}}`, "body.history: it must be a list"},
		{"an entry that is a string", `{"history":[{"content":""},"x"]}`, "body.history[1]: it must be an object"},
		{"an entry without content", `{"history":[{"author":"USER"}]}`, "body.history[0].content: the entry needs a content"},
		{"content that is a number", `{"history":[{"content":5}]}`, "body.history[0].content: it must be a string, not a number"},
		{"an unknown author", `{"history":[{"author":"GOD","content":""}]}`, `body.history[0].author: the author "GOD" is unknown`},
		{"an author that is a list", `{"history":[{"author":[],"content":""}]}`, "body.history[0].author: it must be a string"},
		{"rules that are a string", `{"memory_list":"x"}`, "body.memory_list: it must be a list of strings"},
		{"a rule that is a number", `{"memory_list":["x",5]}`, "body.memory_list[1]: it must be a string"},
		{"a history of more entries than any model reads", `{"history":[` + strings.Repeat(`{"content":""},`, MaxEntries) + `{"content":""}]}`, "body.history: has more than 131072 entries"},
		{"more rules than any model reads", `{"memory_list":[` + strings.Repeat(`"",`, MaxEntries) + `""]}`, "body.memory_list: has more than 131072 entries"},
		{"a summary that is a list", `{"summary":[]}`, "body.summary: it must be a string, not a list"},
		{"a state of another version", model + `{"version":2,"turns":{}}}`, "body._qwen: it must be an object with version 1"},
		{"a state that is a list", model + `[]}`, "body._qwen: it must be an object with version 1"},
		{"turns that are a list", model + `{"version":1,"turns":[]}}`, "body._qwen.turns: turns must be an object"},
		{"a turn without a number", model + `{"version":1,"turns":{"x":{}}}}`, "body._qwen.turns.x: a turn's name must be a decimal index"},
		{"a turn outside of the history", model + `{"version":1,"turns":{"2":{}}}}`, "body._qwen.turns.2: the index is outside of history, which has 2 entries"},
		{"a turn of a user", model + `{"version":1,"turns":{"1":{}}}}`, "body._qwen.turns.1: the index names an entry that is not MODEL's"},
		{"a turn of an unknown kind", model + `{"version":1,"turns":{"0":{"kind":"x","reasoning":""}}}}`, "must be tool_call or clarification"},
		{"reasoning that is a list", model + `{"version":1,"turns":{"0":{"kind":"tool_call","reasoning":[]}}}}`, "reasoning must be a string"},
		{"a clarification that asks nothing", `{"history":[{"author":"MODEL","content":"{\"say\":\"\"}"}],"_qwen":{"version":1,"turns":{"0":{"kind":"clarification","reasoning":""}}}}`, "says nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, problems := Parse(protocol.Raw(test.memory), QwenKey)
			if !strings.Contains(problems.All(), test.want) {
				t.Errorf("problems %q, want one with %q", problems.All(), test.want)
			}
		})
	}
	if _, problems := Parse(protocol.Raw(`{"history":[{"content":5},{"author":"x","content":""}],"summary":1,"memory_list":1}`), QwenKey); len(problems) != 4 {
		t.Errorf("every problem must be found, not %d:\n%s", len(problems), problems.All())
	}
}

func TestAuthors(t *testing.T) {
	for written, want := range map[string]Author{
		`"USER"`: User, `"user"`: User, `"System"`: System, `"STATUS"`: System, `"model"`: Model, `"Assistant"`: Model, `""`: User, `null`: User,
	} {
		m, problems := Parse(protocol.Raw(`{"history":[{"author":`+written+`,"content":"x"}]}`), "")
		if len(problems) > 0 || m.History[0].Author != want {
			t.Errorf("%s: %v, %s; want %s", written, m.History, problems.All(), want)
		}
	}
}

// TestReadDecision states what a MODEL entry may look like.
func TestReadDecision(t *testing.T) {
	call := func(name, arguments, robot string) tools.Call {
		return tools.Call{Name: name, Arguments: protocol.Raw(arguments), TargetRobotName: robot}
	}
	nested := func(depth int) string {
		return `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}"
	}
	in := func(arguments string) string { return `{"action":[{"r":{"name":"x","arguments":` + arguments + `}}]}` }
	deepest, tooDeep := in(nested(tools.MaxDepth)), in(nested(tools.MaxDepth+1))
	for _, test := range []struct {
		name, content, say string
		calls              []tools.Call
	}{
		{"text", " Hello ", "Hello", nil},
		{"a say", `{"say": "Hello", "action": {}}`, "Hello", nil},
		{"an action for each robot", `{"say":"","action":{"a":{"name":"x","arguments":{"n":1.0}},"b":{"name":"y"}}}`, "",
			[]tools.Call{call("x", `{"n":1.0}`, "a"), call("y", `{}`, "b")}},
		{"a list of actions", `{"action":[{"a":{"name":"x","arguments":{}}},{"a":{"name":"y","arguments":{}}}]}`, "",
			[]tools.Call{call("x", `{}`, "a"), call("y", `{}`, "a")}},
		{"a flat action", `{"action":{"name":"x","arguments":{},"target_robot":"a"}}`, "", []tools.Call{call("x", `{}`, "a")}},
		{"a flat action alone", `{"name":"x","arguments":null,"target_robot_name":"a"}`, "", []tools.Call{call("x", `{}`, "a")}},
		{"a list alone", `[{"a":{"name":"x","arguments":{"n":1}}}]`, "", []tools.Call{call("x", `{"n":1}`, "a")}},
		{"a name alone is text", `{"name":"Anna"}`, `{"name":"Anna"}`, nil},
		{"names alone are text", `[{"a":{"name":"x"}},{"b":{"name":"y","arguments":{}}}]`, `[{"a":{"name":"x"}},{"b":{"name":"y","arguments":{}}}]`, nil},
		{"an object that is no decision is text", `{"a":1}`, `{"a":1}`, nil},
		{"broken JSON is text", `{"say": "a`, `{"say": "a`, nil},
		{"an action of another form", `{"thought":"a","action":"go(hall)"}`, `{"thought":"a","action":"go(hall)"}`, nil},
		{"a say beside an action of another form", `{"say":"a","action":{"r":{"tool":"x"}}}`, `{"say":"a","action":{"r":{"tool":"x"}}}`, nil},
		{"a say beside an empty action with a space", `{"say":"a","action":{ }}`, "a", nil},
		{"nothing but an empty action", `{"action":{}}`, "", nil},
		{"calls of an output", `{"say":"","tool_calls":[{"name":"x"}]}`, `{"say":"","tool_calls":[{"name":"x"}]}`, nil},
		{"an output without calls", `{"say":"a","tool_calls":[]}`, "a", nil},
		{"an action beside a say", `{"say":"a","b":{"name":"x","arguments":{}}}`, `{"say":"a","b":{"name":"x","arguments":{}}}`, nil},
		{"a null action", `{"say":"a","action":null}`, "a", nil},
		{"a null say", `{"say":null,"action":{"a":{"name":"x"}}}`, "", []tools.Call{call("x", `{}`, "a")}},
		{"a say that is no string", `{"say":5}`, "5", nil},
		{"a name that counts where it stands last", `{"say":"","action":{"r":{"name":"x","arguments":{"a":1,"a":2}}}}`, "",
			[]tools.Call{call("x", `{"a":2}`, "r")}},
		{"half of a surrogate pair", `{"say":"","action":{"r":{"name":"x","arguments":{"a":"\ud800"}}}}`, "",
			[]tools.Call{call("x", "{\"a\":\"\ufffd\"}", "r")}},
		{"arguments as deep as those of a call can be", deepest, "", []tools.Call{call("x", nested(tools.MaxDepth), "r")}},
		{"deeper ones are text", tooDeep, tooDeep, nil},
		{"so is a nested list", strings.Repeat("[", 9000) + strings.Repeat("]", 9000), strings.Repeat("[", 9000) + strings.Repeat("]", 9000), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			say, calls := ReadDecision(test.content)
			if say != test.say {
				t.Errorf("say %q, want %q", say, test.say)
			}
			if diff := cmp.Diff(test.calls, calls); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWriteDecision pins the text that Python's json.dumps(..., ensure_ascii=False) writes.
func TestWriteDecision(t *testing.T) {
	for _, test := range []struct {
		name, say string
		calls     []tools.Call
		want      string
	}{
		{"a say", "né \"q\"\n\x01", nil, `{"say": "né \"q\"\n\u0001", "action": {}}`},
		{"a call", "", []tools.Call{{Name: "x", Arguments: protocol.Raw(`{"a":[1.50,{"b":"\u00e9"}]}`), TargetRobotName: "r"}},
			`{"say": "", "action": {"r": {"name": "x", "arguments": {"a": [1.50, {"b": "é"}]}}}}`},
		{"calls for different robots", "", []tools.Call{{Name: "x", Arguments: protocol.Raw(`{}`), TargetRobotName: "r"}, {Name: "y", Arguments: protocol.Raw(`{}`), TargetRobotName: "s"}},
			`{"say": "", "action": {"r": {"name": "x", "arguments": {}}, "s": {"name": "y", "arguments": {}}}}`},
		{"calls for one robot", "", []tools.Call{{Name: "x", Arguments: protocol.Raw(`{}`), TargetRobotName: "r"}, {Name: "y", Arguments: protocol.Raw(`{}`), TargetRobotName: "s"}, {Name: "z", Arguments: protocol.Raw(`{}`), TargetRobotName: "r"}},
			`{"say": "", "action": [{"r": {"name": "x", "arguments": {}}}, {"s": {"name": "y", "arguments": {}}}, {"r": {"name": "z", "arguments": {}}}]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, string(WriteDecision(test.say, test.calls, false))); diff != "" {
				t.Error(diff)
			}
			say, calls := ReadDecision(test.want)
			if say != test.say || len(calls) != len(test.calls) {
				t.Errorf("it reads back as %q, %v", say, calls)
			}
		})
	}
}

// FuzzParse: no memory crashes, and what is returned is JSON with the turn.
func FuzzParse(f *testing.F) {
	f.Add(`{"history":[{"author":"MODEL","content":"{\"say\":\"a\"}"}],"_qwen":{"version":1,"turns":{"0":{"kind":"tool_call","reasoning":"r"}}}}`)
	f.Add(`{"history":null,"memory_list":["a"],"summary":"s"}`)
	f.Fuzz(func(t *testing.T, text string) {
		raw := protocol.Raw(text)
		if raw.Kind() != '{' || !raw.IsValid() {
			t.Skip()
		}
		m, problems := Parse(raw, QwenKey)
		if len(problems) > 0 {
			return
		}
		for _, change := range []Change{{}, {Final: true}, {Reasoning: []string{"r"}}, {NewTask: true, Reasoning: []string{"r"}}} {
			out := m.Prepare(User, text).Decision([]byte(text), change)
			if !out.IsValid() {
				t.Fatalf("%q with %+v becomes %q, which is no JSON", text, change, out)
			}
			after, problems := Parse(out, QwenKey)
			if len(problems) > 0 || len(after.History) != len(m.History)+2 {
				t.Fatalf("%q with %+v becomes %q: %s", text, change, out, problems.All())
			}
		}
	})
}
