package parse

import (
	"strings"
	"testing"

	"agentd/coaching/internal/quote"
)

// shown is a decision on one line: its text, then each call as robot.name(arguments).
func shown(say string, calls []Call) string {
	list := []string{}
	if say != "" {
		list = append(list, "say "+say)
	}
	for _, c := range calls {
		text := c.Robot + "." + c.Name + "(" + string(c.Arguments) + ")"
		if c.Tagged {
			text += " tagged"
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

func TestRawOutputNotations(t *testing.T) {
	for _, c := range []struct{ name, text, want, beside string }{
		{"hermes", `<tool_call>{"name":"go","arguments":{"place":"hall"}}</tool_call>`, `.go({"place":"hall"})`, ""},
		{"hermes with text around", `On my way. <tool_call>{"name":"go"}</tool_call> Done.`, `.go({})`, "On my way.  Done."},
		{"hermes, robot in the object", `<tool_call>{"name":"go","arguments":{},"target_robot_name":"rover"}</tool_call>`, `rover.go({})`, ""},
		{"two hermes blocks, the first open", `<tool_call>{"name":"a"}<tool_call>{"name":"b"}</tool_call>`, `.a({}); .b({})`, ""},
		{"function tags", "<function=go><parameter=place>\nhall\n</parameter></function>", `.go({"place":"hall"}) tagged`, ""},
		{"function tags without parameters", `<function=look></function>`, `.look({}) tagged`, ""},
		{"invoke tags", `<function_calls><invoke name="go"><parameter name="place">a b</parameter></invoke></function_calls>`, `.go({"place":"a b"}) tagged`, ""},
		{"harmony call", `<|channel|>commentary to=functions.go<|message|>{"place":"hall"}<|call|>`, `.go({"place":"hall"})`, ""},
		{"harmony reply", `<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>`, "say Hello.", ""},
		{"history's action", `{"say":"","action":{"rover":{"name":"go","arguments":{}}}}`, `rover.go({})`, ""},
		{"several calls of a robot", `{"action":{"rover":[{"name":"a"},{"name":"b"}]}}`, `rover.a({}); rover.b({})`, ""},
		{"chat completion", `{"tool_calls":[{"type":"function","function":{"name":"go","arguments":"{\"place\":\"hall\"}"}}]}`, `.go({"place":"hall"})`, ""},
		{"near-JSON", `{'name': 'go', 'arguments': {'fast': True,}}`, `.go({"fast":true})`, ""},
		{"fenced JSON", "Sure:\n```json\n{\"name\":\"go\"}\n```", `.go({})`, "Sure:\n\n"},
		{"plain text", "Hello there.", "", "Hello there."},
		{"end tokens", "Hello.<|im_end|><|endoftext|>", "", "Hello."},
		{"thoughts", "<think>I could {\"name\":\"go\"}.</think>Hello.", "", "Hello."},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := RawOutput(c.text, quote.Quoter{})
			if err != nil {
				t.Fatal(err)
			}
			if got := shown(out.Say, out.Calls); got != c.want || strings.TrimSpace(out.Beside) != strings.TrimSpace(c.beside) {
				t.Errorf("got %q beside %q, want %q beside %q", got, out.Beside, c.want, c.beside)
			}
		})
	}
}

func TestRawOutputErrors(t *testing.T) {
	many := strings.Repeat(`{"name":"a"},`, MaxCalls+2)
	for _, c := range []struct{ name, text, want string }{
		{"too long", strings.Repeat("x", MaxBytes+1), "has more than"},
		{"open thoughts", "<think>I go", "within the model's thoughts"},
		{"hermes block without JSON", "<tool_call>go</tool_call>", "can't be read"},
		{"hermes block cut off", `<tool_call>{"name":"g`, "cut off"},
		{"open parameter", "<function=go><parameter=a>x", "is not closed"},
		{"open tag", "<function=go", "a tag is not closed"},
		{"tag without name", "<function=></function>", "has no name"},
		{"text between parameters", "<function=go>and<parameter=a>x</parameter></function>", "where a parameter or its end belongs"},
		{"same parameter twice", "<function=go><parameter=a>1</parameter><parameter=a>2</parameter></function>", "twice"},
		{"unknown channel", "<|channel|>aside<|message|>x", "unknown channel"},
		{"harmony header without message", "<|channel|>final", "has no content"},
		{"two decisions", `{"say":"a"} {"say":"b"}`, "several JSON decisions"},
		{"too many calls", "[" + strings.TrimSuffix(many, ",") + "]", "more than 64 calls"},
		{"call that is a number", `{"tool_calls":[7]}`, "must be an object"},
		{"call without name", `{"tool_calls":[{"place":"hall"}]}`, "but no name"},
		{"arguments that are a list", `{"name":"go","arguments":[1]}`, "must be an object"},
		{"arguments that are prose", `{"name":"go","arguments":"to the hall"}`, "should hold a JSON object"},
		{"nested lists", strings.Repeat("[", maxNesting+1) + strings.Repeat("]", maxNesting+1), "nested too deeply"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := RawOutput(c.text, quote.Quoter{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v; want %q", out, err, c.want)
			}
		})
	}
}

func TestModelAnswerForms(t *testing.T) {
	const go1 = `{"outcome":"corrected","why":"w","reinjection_point_id":"p","decision":{"say":"","tool_calls":[{"name":"go","arguments":{},"target_robot_name":"rover"}]}}`
	for _, c := range []struct{ name, text, want string }{
		{"plain", go1, "p w rover.go({})"},
		{"fenced after prose", "My answer:\n```json\n" + go1 + "\n```\nDone.", "p w rover.go({})"},
		{"encoded twice", `"` + strings.ReplaceAll(go1, `"`, `\"`) + `"`, "p w rover.go({})"},
		{"last of two objects", `{"note":1} ` + go1, "p w rover.go({})"},
		{"answer before other JSON", go1 + ` {"note":1}`, "p w rover.go({})"},
		{"after thoughts", "<think>{\"outcome\":\"abandoned\"}</think>" + go1, "p w rover.go({})"},
		{"missing end brackets", strings.TrimSuffix(go1, "]}}"), "p w rover.go({})"},
		{"step number as point", `{"point":3,"decision":{"say":"Hi."}}`, "3  say Hi."},
		{"other names", `{"status":"CORRECTED","reason":"w","point_id":"p","say":"Hi."}`, "p w say Hi."},
		{"decision as text", `{"decision":"{\"say\":\"Hi.\"}"}`, "  say Hi."},
		{"abandoned", `{"outcome":"declined","explanation":"no way"}`, "abandoned: no way"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := ModelAnswer(c.text, quote.Quoter{})
			if err != nil {
				t.Fatal(err)
			}
			got := a.Point + " " + a.Why + " " + shown(a.Decision.Say, a.Decision.Calls)
			if a.Abandoned {
				got = "abandoned: " + a.Why
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestModelAnswerErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", " ", "holds no JSON"},
		{"prose", "I would go.", "holds no JSON"},
		{"empty object", "{}", "it is empty"},
		{"ends within thoughts", "<think>maybe", "ends within its thoughts"},
		{"ends within harmony analysis", "<|channel|>analysis<|message|>maybe", "ends within its thoughts"},
		{"unknown outcome", `{"outcome":"fixed"}`, "outcome must be"},
		{"dots in place of content", `{"outcome":"corrected", ...}`, "left out of it with dots"},
		{"say that is a number", `{"decision":{"say":5}}`, "say must be a string"},
		{"decision that is a number", `{"decision":7}`, "the decision must be an object"},
		{"too long", strings.Repeat(" ", MaxBytes) + "{}", "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := ModelAnswer(c.text, quote.Quoter{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v; want %q", a, err, c.want)
			}
		})
	}
}

func TestNearJSONRepairs(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"valid", ` {"a": [1, 2.50]} `, `{"a":[1,2.50]}`},
		{"single quotes", `{'a': 'it\'s'}`, `{"a":"it's"}`},
		{"names without quotes", `{a: 1}`, `{"a":1}`},
		{"Python constants", `{"a": None, "b": True}`, `{"a":null,"b":true}`},
		{"trailing comma", `[1, 2,]`, `[1,2]`},
		{"missing brackets", `{"a": ["b"`, `{"a":["b"]}`},
	} {
		if got, err := newReader(quote.Quoter{}).parse(c.text); err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.name, got, err, c.want)
		}
	}
	for name, text := range map[string]string{
		"cut off in a string": `{"a": "b`, "cut off in a number": `{"a": 1`, "dots": `{"a": 1, ...}`, "no JSON": `a: 1`,
		"name twice": `{"a":1,"a":2}`, "lone surrogate": `{"a":"\ud800"}`,
	} {
		if got, err := newReader(quote.Quoter{}).parse(text); err == nil {
			t.Errorf("%s: parsed as %s", name, got)
		}
	}
}

// checkCalls fails if calls are not what later stages rely on: bounded, with valid
// objects as arguments.
func checkCalls(t *testing.T, calls []Call) {
	t.Helper()
	if len(calls) > MaxCalls+1 {
		t.Fatalf("%d calls", len(calls))
	}
	for _, c := range calls {
		if !c.Arguments.IsValid() || c.Arguments.Kind() != '{' {
			t.Fatalf("%s has the arguments %q", c.Name, c.Arguments)
		}
	}
}

func FuzzRawOutput(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"say":"a","action":{}}`, `<tool_call>{"name":"a"}</tool_call>`, "<function=a><parameter=b>c</parameter></function>",
		`<invoke name="a"><parameter name="b">c</parameter></invoke>`, "<|channel|>final<|message|>a<|return|>", "<think>a</think>b", "```json\n{'a': 1}\n```",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := RawOutput(text, quote.Quoter{})
		switch {
		case err == nil:
			checkCalls(t, out.Calls)
		case err.Error() == "":
			t.Fatal("an error without a text")
		}
	})
}

func FuzzModelAnswer(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"outcome":"abandoned","why":"no"}`, `{"decision":{"say":"a"}}`, `"{\"say\":\"a\"}"`, `[{"name":"a"}]`, "<think>{\"</think>{\"say\":\"a\"}", "x {y} {\"say\":\"a\"}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ModelAnswer(text, quote.Quoter{})
		switch {
		case err == nil:
			checkCalls(t, a.Decision.Calls)
		case err.Error() == "":
			t.Fatal("an error without a text")
		}
	})
}
