package target

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/protocol"
)

// TestACandidateOfAChatServerIsADecisionOrItFailed holds what a candidate says
// against the turn's tools: it has the tool go, which wants a text called to.
func TestACandidateOfAChatServerIsADecisionOrItFailed(t *testing.T) {
	calls := func(list ...string) string {
		for i, c := range list {
			name, arguments, _ := strings.Cut(c, " ")
			list[i] = fmt.Sprintf(`{"id":"%d","type":"function","function":{"name":%q,"arguments":%q}}`, i, name, arguments)
		}
		return `"content":null,"tool_calls":[` + strings.Join(list, ",") + `]`
	}
	for _, test := range []struct{ name, finish, message, failure string }{
		{"a reply", "stop", `"content":"Done."`, ""},
		{"a call", "tool_calls", calls(`go {"to":"x","target_robot":"rover"}`), ""},
		{"a call that ended as a reply", "stop", calls(`go {"to":"x"}`), ""},
		{"two calls", "tool_calls", calls(`go {"to":"x"}`, `go {"to":"y"}`), ""},
		{"text beside a call", "tool_calls", strings.Replace(calls(`go {"to":"x"}`), "null", `"I go."`, 1), ""},
		{"a call in the text", "stop", `"content":"<tool_call>\n{\"name\": \"go\", \"arguments\": {\"to\": \"x\"}}\n</tool_call>"`, ""},
		{"nothing", "stop", `"content":""`, "invalid_output"},
		{"only thoughts", "stop", `"content":" ","reasoning_content":"Hm."`, "invalid_output"},
		{"an unknown tool", "tool_calls", calls(`fly {"to":"x"}`), "invalid_output"},
		{"a second call of an unknown tool", "tool_calls", calls(`go {"to":"x"}`, `fly {}`), "invalid_output"},
		{"an unknown robot", "tool_calls", calls(`go {"to":"x","target_robot":"nobody"}`), "invalid_output"},
		{"an argument of another type", "tool_calls", calls(`go {"to":1}`), "invalid_output"},
		{"arguments that are missing", "tool_calls", calls(`go `), "invalid_output"},
		{"arguments cut off", "tool_calls", calls(`go {"to":`), "invalid_output"},
		{"a wrong call in the text", "stop", `"content":"<tool_call>\n{\"name\": \"fly\"}\n</tool_call>"`, "invalid_output"},
		{"cut off", "length", `"content":"Do"`, "truncated"},
		{"filtered", "content_filter", `"content":"Done."`, "content_filter"},
		{"another reason", "abort", `"content":"Done."`, "abort"},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := fmt.Sprintf(`{"choices":[{"index":0,"message":{%s},"finish_reason":%q}],"usage":{"prompt_tokens":5,"completion_tokens":4}}`, test.message, test.finish)
			a := openAI(t, ModeN, reply(200, body))
			got, err := a.Ask(t.Context(), turn(1), Options{MaxTokens: 9})
			if err != nil || got.Candidates[0].Failure != test.failure {
				t.Errorf("got %+v, %v, want the failure %q", got.Candidates, err, test.failure)
			}
			got, err = a.Ask(t.Context(), turn(1), Options{FixedTokens: 4})
			if test.failure == codeInvalidOutput || test.failure == codeTruncated {
				test.failure = ""
			}
			if err != nil || got.Candidates[0].Failure != test.failure {
				t.Errorf("of a fixed length: got %+v, %v, want the failure %q", got.Candidates, err, test.failure)
			}
		})
	}
}

func TestAStreamBringsCallsInParts(t *testing.T) {
	c := newChoices(1)
	for _, calls := range []string{
		`{"index":0,"function":{"name":"go","arguments":""}}`,
		`{"index":0,"function":{"arguments":"{\"to\":"}}`,
		`{"index":0,"function":{"arguments":"\"x\"}"}},{"index":1,"function":{"name":"stay"}}`,
		`{"function":{"name":"whole","arguments":"{}"}}`,
		`{"function":{"name":"another","arguments":"{}"}}`,
	} {
		if err := c.event([]byte(`{"choices":[{"index":0,"delta":{"content":"a","tool_calls":[`+calls+`]}}]}`), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	want := saying{content: []byte("aaaaa"), calls: []calling{
		{0, "go", []byte(`{"to":"x"}`)}, {1, "stay", nil}, {2, "whole", []byte("{}")}, {3, "another", []byte("{}")},
	}}
	if diff := cmp.Diff(want, c.said[0], cmp.AllowUnexported(saying{}, calling{})); diff != "" {
		t.Error(diff)
	}
}

func FuzzADecisionIsReadWhateverAServerSays(f *testing.F) {
	f.Add("Done.", "go", `{"to":"x"}`)
	f.Add("<tool_call>{", "", "")
	f.Fuzz(func(t *testing.T, content, name, arguments string) {
		c, err := newChats()
		if err != nil {
			t.Fatal(err)
		}
		chat, err := c.of(turn(1))
		if err != nil {
			t.Fatal(err)
		}
		said := &saying{content: []byte(content)}
		c.decides(said, chat.catalog)
		said.calls = []calling{{0, name, []byte(arguments)}}
		if c.decides(said, chat.catalog) {
			if _, known := chat.catalog.Set.Find(name); !known {
				t.Errorf("a call of %q is a decision", name)
			}
		}
	})
}

func TestAnInputsOwnWayOfDecodingIsKept(t *testing.T) {
	own := turn(2)
	for _, test := range []struct {
		name, own string
		greedy    bool
		want      bool
	}{
		{"sampled, where it says nothing", ``, false, false},
		{"deterministic, where the options say so", ``, true, true},
		{"its own", `,"inference_mode":true`, false, true},
		{"its own, which is the usual one", `,"inference_mode":false`, false, false},
		{"the options' over its own", `,"inference_mode":false`, true, true},
	} {
		own.Input = protocol.Raw(strings.Replace(string(turn(2).Input), `"x":1.0`, `"x":1.0`+test.own, 1))
		o := Options{Greedy: test.greedy, MaxTokens: 7}
		_, body, err := agentdRequest(own, o)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`"extra_keys":{"x":1.0,"inference_mode":%v}`, test.want); !strings.Contains(string(body), want) {
			t.Errorf("%s: no %s in %s", test.name, want, body)
		}
		llama, err := llamaRequest(own, o, 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		chat, _, err := openAI(t, ModeN, reply(200, "")).request(own, o, 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range [][]byte{llama, chat} {
			if got := strings.Contains(string(body), `"temperature":0,`); got != test.want {
				t.Errorf("%s: %s", test.name, body)
			}
		}
	}
}

func TestDeterministicCandidatesOfAgentdAreCopies(t *testing.T) {
	for _, test := range []struct {
		candidates int
		greedy     bool
	}{{2, true}, {2, false}, {1, true}} {
		got, err := agentd(t, decider(t, same)).Ask(t.Context(), turn(test.candidates), Options{Greedy: test.greedy})
		if want := test.candidates > 1 && test.greedy; err != nil || got.Copies != want {
			t.Errorf("%+v: %v, %v", test, got.Copies, err)
		}
	}
}
