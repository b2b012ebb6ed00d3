//go:build !race

package format_test

import (
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
)

// written is an answer in a form, with how it reads. The grammar admits it where it is constrained text.
type written struct {
	name, answer, form string // form "": it is a reply
	loose              bool   // only parsers take it
}

const grasped = `"arguments": {"object": "cup", "target_robot": "base"}}`

var graspWritten = []written{
	{"bare", `{"name": "grasp", ` + grasped, format.FormBare, false},
	{"bare, pretty", "{\n  \"name\": \"grasp\", " + grasped[:len(grasped)-1] + "\n}", format.FormBare, false},
	{"a bare list", `[{"name": "grasp", ` + grasped + `]`, format.FormBare, false},
	{"a bare list without its end", `[{"name": "grasp", ` + grasped, format.FormBare, true},
	{"fenced", "```json\n{\"name\": \"grasp\", " + grasped + "\n```", format.FormFenced, false},
	{"fenced, no language", "```\n{\"name\": \"grasp\", " + grasped + "\n```", format.FormFenced, false},
	{"fenced, a space before the language", "``` json\n{\"name\": \"grasp\", " + grasped + "\n```", format.FormFenced, false},
	{"fenced, another language", "```tool_code\n[{\"name\": \"grasp\", " + grasped + "]\n```", format.FormFenced, false},
	{"fenced, open", "```json\n{\"name\": \"grasp\", " + grasped, format.FormFenced, true},
	{"named with an object", `grasp({"object": "cup", "target_robot": "base"})`, format.FormNamed, false},
	{"named with keys", `grasp(object='cup', target_robot="base")`, format.FormNamed, true},
	{"named in a list", `[grasp(object="cup", target_robot="base")]`, format.FormNamed, true},
	{"in marks of the prompt", "<tools>\n{\"name\": \"grasp\", " + grasped + "\n</tools>", format.FormBare, true},
	{"two fences", "```json\n{\"name\": \"grasp\", " + grasped + "\n```\n\n```json\n```", format.FormFenced, true},
	{"named in a fence", "```python\ngrasp(object=\"cup\", target_robot=\"base\")\n```", format.FormNamed, true},
	{"parameters", `{"name": "grasp", "parameters": {"object": "cup", "target_robot": "base"}}`, format.FormBare, true},
	{"args", `{"args": {"object": "cup", "target_robot": "base"}, "name": "grasp"}`, format.FormBare, true},
	{"a function", `{"type": "function", "function": {"name": "grasp", ` + grasped + `}`, format.FormBare, true},
	{"the robot beside", `{"name": "grasp", "arguments": {"object": "cup"}, "target_robot": "base"}`, format.FormBare, true},
	{"the robot before", `{"base": {"name": "grasp", "arguments": {"object": "cup"}}}`, format.FormBare, true},

	{"another tool", `{"name": "fly", "arguments": {"target_robot": "base"}}`, "", false},
	{"a person", `{"name": "grasp me", "age": 3}`, "", false},
	{"JSON that is no call", `{"place": "kitchen", "cups": [1, 2]}`, "", false},
	{"JSON that is no call in a fence", "```json\n{\"place\": \"kitchen\"}\n```", "", false},
	{"a list of numbers", `[1, 2, 3]`, "", false},
	{"a mention", `I would send {"name": "grasp", ` + grasped, "", false},
	{"a mention with a name", "grasp is what I would call.", "", false},
	{"code", "```python\nprint(1)\n```", "", false},
	{"text before a fence", "Here:\n```json\n{\"name\": \"grasp\", " + grasped + "\n```", "", false},
	{"a call and another tool", `[{"name": "grasp", ` + grasped + `, {"name": "fly", "arguments": {}}]`, "", true},
}

// ofForm is an answer as the format's models write it.
func ofForm(s setup, w written) string {
	answer := w.answer
	switch s.name {
	case "hermes, thinking":
		answer = "<think>\nx</think>\n\n" + answer
	case "tagged, thinking":
		answer = "x</think>\n\n" + answer
	case "blocks":
		answer = "<think>\nx</think>\n\n" + answer
	case "gpt-oss":
		answer = "<|channel|>final<|message|>" + answer
	}
	return answer
}

// TestCallsInOtherFormsAreCalls holds grammars and parsers of all formats against calls in each form, and against
// replies that only look like calls.
func TestCallsInOtherFormsAreCalls(t *testing.T) {
	want := tools.Call{Name: "grasp", Arguments: protocol.Raw(`{"object":"cup"}`), TargetRobotName: "base"}
	for _, s := range setups {
		if s.name == "json" { // its decisions are objects
			continue
		}
		f, k := s.open(t)
		c := catalogOf(t, f, sampleTools, "arm", "base")
		grammar, err := c.Grammar()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range graspWritten {
			t.Run(s.name+", "+w.name, func(t *testing.T) {
				d, err := f.Parse(ofForm(s, w), c)
				switch {
				case err != nil:
					t.Error(err)
				case w.form == "" && (len(d.ToolCalls) > 0 || d.Say != w.answer || d.CallForm != ""):
					t.Errorf("%+v, want a reply", d)
				case w.form != "" && (len(d.ToolCalls) != 1 || !equal(d.ToolCalls[0], want) || d.Say != ""):
					t.Errorf("%+v, want the call", d)
				case w.form != "" && d.CallForm != w.form && s.name != "llama": // whose own form is bare
					t.Errorf("form %q, want %q", d.CallForm, w.form)
				}
				if w.loose || w.form != "" && !sameGrammar(s) {
					return
				}
				if prefix, ok := admits(t, k, grammar, ofForm(s, w)); !ok {
					t.Errorf("the grammar stops after %q", prefix)
				}
			})
		}
	}
}

func TestToolWithAParenthesisInItsNameIsCalled(t *testing.T) {
	f, k := setupOf("hermes").open(t)
	c := catalogOf(t, f, []protocol.Raw{simpleTool("f(x", "a")}, "arm")
	grammar, err := c.Grammar()
	if err != nil {
		t.Fatal(err)
	}
	const answer = `f(x({"value": "a", "target_robot": "arm"})`
	if prefix, ok := admits(t, k, grammar, answer); !ok {
		t.Errorf("the grammar stops after %q", prefix)
	}
	if d, err := f.Parse(answer, c); err != nil || len(d.ToolCalls) != 1 || d.CallForm != format.FormNamed {
		t.Errorf("%+v, %v", d, err)
	}
}

func equal(a, b tools.Call) bool {
	return a.Name == b.Name && string(a.Arguments) == string(b.Arguments) && a.TargetRobotName == b.TargetRobotName
}

// TestRepliesDoNotBeginAsCalls: once an answer has begun as a call, only a valid call follows.
func TestRepliesDoNotBeginAsCalls(t *testing.T) {
	for _, s := range setups {
		if s.name == "json" || s.format == format.Template || s.format == format.Llama {
			continue
		}
		f, k := s.open(t)
		c := catalogOf(t, f, sampleTools, "arm", "base")
		grammar, err := c.Grammar()
		if err != nil {
			t.Fatal(err)
		}
		for _, answer := range []string{
			`{"name": "grasp", "arguments": {"object": "fork", "target_robot": "base"}}`,
			`{"name": "grasp", "arguments": {"target_robot": "base"}}`,
			`{"name": "grasp", "arguments": {"object": "cup", "target_robot": "leg"}}`,
			`{"name": "grasp", and so on`, `[ {"name":"look"`, `grasp(it)`,
			"```json\n{\"name\": \"grasp\", \"arguments\": {\"object\": \"cup\", \"target_robot\": \"leg\"}}\n```",
			"``` json\n{\"name\": \"grasp\", \"arguments\": {\"object\": \"cup\", \"target_robot\": \"leg\"}}\n```",
			`{"name": "grasp", ` + grasped + " ok",
		} {
			if _, ok := admits(t, k, grammar, ofForm(s, written{answer: answer})); ok {
				t.Errorf("%s: the grammar admits %q", s.name, answer)
			}
		}
	}
}

func TestCallsThatDoNotFitAreNeverGivenOut(t *testing.T) {
	for _, s := range setups {
		f, _ := s.open(t)
		c := catalogOf(t, f, sampleTools, "arm", "base")
		for _, answer := range []string{
			`{"name": "fly", "arguments": {"target_robot": "base"}}`,
			`{"name": "grasp", "arguments": {"object": "cup", "target_robot": "leg"}}`,
			`{"name": "grasp", "arguments": {"object": "fork", "target_robot": "base"}}`,
			`{"name": "grasp", "arguments": {"object": "cup", "target_robot": "arm"}, "target_robot": "base"}`,
			`grasp(object="fork", target_robot="base")`, `grasp(object="cup", object="cup")`,
			"```\n[{\"name\": \"grasp\", \"arguments\": {\"target_robot\": \"base\"}}]\n```",
			`[{"name": "grasp", ` + grasped + `, {"name": "grasp", ` + grasped + `]`,
		} {
			if d, _ := f.Parse(ofForm(s, written{answer: answer}), c); len(d.ToolCalls) > 0 {
				t.Errorf("%s: %q became %+v", s.name, answer, d.ToolCalls)
			}
		}
	}
}

// TestModelsThatCallInJSONWriteLists: where several calls are possible, answers of such a model are lists, or else text.
func TestModelsThatCallInJSONWriteLists(t *testing.T) {
	s := setupOf("hermes")
	s.o.OutputStyle = format.FormFenced
	f, k := s.open(t)
	look := `{"name": "look", "arguments": {"target_robot": "arm"}}`
	for _, test := range []struct {
		name, answer string
		robots       []string
		want         bool
	}{
		{"a list of one", "```json\n[" + look + "]\n```", []string{"arm", "base"}, true},
		{"an indented list", "```json\n  [\n    " + strings.Replace(look, "{", "{\n      ", 1) + "\n  ]\n```", []string{"arm", "base"}, true},
		{"a list of two", "```json\n[" + look + ", " + strings.Replace(look, "arm", "base", 1) + "]\n```", []string{"arm", "base"}, true},
		{"the same robot twice", "```json\n[" + look + ", " + look + "]\n```", []string{"arm", "base"}, false},
		{"an object, two robots", "```json\n" + look + "\n```", []string{"arm", "base"}, false},
		{"an object, one robot", "```json\n" + look + "\n```", []string{"arm"}, true},
		{"an object, no robot known", "```json\n" + look + "\n```", nil, true},
		{"a list of two, no robot known", "```json\n[" + look + ", " + strings.Replace(look, "arm", "base", 1) + "]\n```", nil, false},
		{"native", "<tool_call>\n" + look + "\n</tool_call>", []string{"arm", "base"}, true},
		{"text", "Hello", []string{"arm", "base"}, true},
		{"a call without braces", "```json\n\"name\": <look>,", []string{"arm", "base"}, false},
		{"a call without braces, other quotes", "```json\n'name': 'look',", []string{"arm", "base"}, false},
		{"a call without braces or quotes", "```json\nname: look\narguments: {}\n```", []string{"arm", "base"}, false},
		{"a fence in a fence", "```json\n```json\n" + look + "\n```", []string{"arm", "base"}, false},
		{"a call after a quote", "```json\nname\": \"look\",", []string{"arm", "base"}, false},
		{"a list of a name and arguments", "```json\n[\"look\", {\"target_robot\": \"arm\"}]\n```", []string{"arm", "base"}, false},
		{"a list of another tool's call", "```json\n[ " + strings.Replace(look, "look", "fly", 1) + "]\n```", []string{"arm", "base"}, true},
		{"an empty list", "```json\n[]\n```", []string{"arm", "base"}, true},
		{"a fence of JSON that ends at once", "```json\n```", []string{"arm", "base"}, false},
		{"code in JavaScript", "```javascript\nlet x = 1\n```", []string{"arm", "base"}, true},
		{"a fence like JSON's", "```jsonc\nx\n```", []string{"arm", "base"}, true},
		{"an object in a fence like JSON's", "```jsonc\n" + look, []string{"arm", "base"}, false},
		{"a call beyond two spaces", "```json\n  name: look", []string{"arm", "base"}, false},
		{"text in a fence of JSON, one robot", "```json\nnothing\n```", []string{"arm"}, true},
		{"code with a variable called name", "```python\nname = 1\n```", []string{"arm", "base"}, true},
		{"a call without braces or fence", "\"name\": look", []string{"arm", "base"}, false},
		{"code", "```python\nprint(\"Hello\")\n```", []string{"arm", "base"}, true},
		{"a quotation", "\"Hello\", it says.", []string{"arm", "base"}, true},
		{"in marks of the prompt", "<tools>\n[" + look + "]\n</tools>", []string{"arm", "base"}, true},
		{"an object in marks of the prompt", "<tools>\n" + look + "\n</tools>", []string{"arm"}, true},
		{"marks of the prompt alone", "<tools></tools>", []string{"arm"}, false},
		{"a result", "<tool_response>\nok\n</tool_response>", []string{"arm"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			grammar, err := catalogOf(t, f, sampleTools, test.robots...).Grammar()
			if err != nil {
				t.Fatal(err)
			}
			if prefix, ok := admits(t, k, grammar, test.answer); ok != test.want {
				t.Errorf("admitted: %t, up to %q", ok, prefix)
			}
		})
	}
}

// TestToolsMayHaveNamesOfAnyScript: a mark of a unit needs an ASCII character after it.
func TestToolsMayHaveNamesOfAnyScript(t *testing.T) {
	for _, s := range setups {
		f, k := s.open(t)
		set, err := tools.NormaliseFunctions(&tools.Functions{Raw: []protocol.Raw{protocol.Raw(`{"name": "öffne"}`), protocol.Raw(`{"name": "look"}`)}})
		if err != nil {
			t.Fatal(err)
		}
		grammar, err := f.Catalog(set).Grammar()
		if err != nil {
			t.Fatal(err)
		}
		for answer, want := range map[string]bool{`[{"name": "öffne", "arguments": {}}]`: s.format != format.Llama && s.name != "json", "öffne({})": false} {
			if prefix, ok := admits(t, k, grammar, ofForm(s, written{answer: answer})); ok != want {
				t.Errorf("%s: %q is admitted: %t, up to %q", s.name, answer, ok, prefix)
			}
		}
	}
}

// TestEqualCallsAreNotAdmittedTwice: in a chat no robot distinguishes calls.
func TestEqualCallsAreNotAdmittedTwice(t *testing.T) {
	for _, name := range []string{"hermes", "tagged", "llama", "blocks"} {
		s := setupOf(name)
		f, k := s.open(t)
		set, err := tools.NormaliseFunctions(&tools.Functions{Raw: sampleTools})
		if err != nil {
			t.Fatal(err)
		}
		c := f.Catalog(set)
		grammar, err := c.Grammar()
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []struct{ open, between, end string }{{"[", ", ", "]"}, {"```json\n[", ", ", "]\n```"}} {
			cup := `{"name": "grasp", "arguments": {"object": "cup"}}`
			if name == "llama" {
				cup = strings.Replace(cup, "arguments", "parameters", 1)
			}
			for second, want := range map[string]bool{cup: false, strings.Replace(cup, "cup", "plate", 1): true} {
				answer := ofForm(s, written{answer: form.open + cup + form.between + second + form.end})
				if prefix, ok := admits(t, k, grammar, answer); ok != want {
					t.Errorf("%s: %q is admitted: %t, up to %q", name, answer, ok, prefix)
				}
				if d, err := f.Parse(answer, c); (err == nil) != want {
					t.Errorf("%s: %q: %+v, %v", name, answer, d, err)
				}
			}
		}
	}
}

// TestStringsInCallsMayHaveMarks, of fences, blocks and other formats.
func TestStringsInCallsMayHaveMarks(t *testing.T) {
	for _, s := range setups {
		if s.name == "json" {
			continue
		}
		f, k := s.open(t)
		c := catalogOf(t, f, sampleTools, "arm")
		grammar, err := c.Grammar()
		if err != nil {
			t.Fatal(err)
		}
		const place = "```\\n``` <tool_call> </tool_call> <|python_tag|> [{()}], ; "
		for _, around := range [][2]string{{"", ""}, {"[", "]"}, {"```json\n", "\n```"}} {
			call := `{"name": "move_to", "arguments": {"place": "` + place + `", "speed": 1, "target_robot": "arm"}}`
			if s.format == format.Llama {
				call = strings.Replace(call, "arguments", "parameters", 1)
			}
			answer := ofForm(s, written{answer: around[0] + call + around[1]})
			d, err := f.Parse(answer, c)
			if err != nil || len(d.ToolCalls) != 1 || !strings.Contains(string(d.ToolCalls[0].Arguments), place) {
				t.Errorf("%s: %q: %+v, %v", s.name, answer, d, err)
			}
			if s.format == format.Template {
				continue // the robot stands elsewhere
			}
			if prefix, ok := admits(t, k, grammar, answer); !ok {
				t.Errorf("%s: the grammar stops after %q of %q", s.name, prefix, answer)
			}
		}
	}
}

// TestTextBesideFencedCallsIsDropped where --mixed-output says so.
func TestTextBesideFencedCallsIsDropped(t *testing.T) {
	s := setupOf("hermes")
	s.o.MixedOutput = format.MixedTools
	f, _ := s.open(t)
	c := catalogOf(t, f, sampleTools, "arm", "base")
	d, err := f.Parse("I take it.\n```json\n{\"name\": \"grasp\", "+grasped+"\n```\nDone.", c)
	if err != nil || len(d.ToolCalls) != 1 || d.CallForm != format.FormFenced || d.Say != "" {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := f.Parse("Here:\n```json\n{\"place\": 1}\n```", c); err != nil || d.Say == "" {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestGrammarsAdmitTextBeforeCallsWhereItIsDropped(t *testing.T) {
	for mixed, want := range map[string]bool{format.MixedReject: false, format.MixedTools: true} {
		s := setupOf("hermes")
		s.o.MixedOutput = mixed
		f, k := s.open(t)
		grammar, err := catalogOf(t, f, sampleTools, "arm", "base").Grammar()
		if err != nil {
			t.Fatal(err)
		}
		if prefix, ok := admits(t, k, grammar, "I look.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"target_robot\": \"arm\"}}\n</tool_call>"); ok != want {
			t.Errorf("%s: admits %t after %q", mixed, ok, prefix)
		}
	}
}

// TestTextThatMayBeACallIsHeldBack from streams, also where the grammar excludes no beginning from replies.
func TestTextThatMayBeACallIsHeldBack(t *testing.T) {
	for _, s := range setups {
		f, _ := s.open(t)
		c := catalogOf(t, f, sampleTools, "arm", "base")
		for text, want := range map[string]bool{`{"`: true, "Hello": false, "{": true} {
			if got := c.MayBeCall(text); got != want {
				t.Errorf("%s: %q before the grammar: %t", s.name, text, got)
			}
		}
		if _, err := c.Grammar(); err != nil {
			t.Fatal(err)
		}
		if !c.MayBeCall("{") || !c.MayBeCall("<tools>\n{\"name") || c.MayBeCall("Hello") || c.MayBeCall("<table>") {
			t.Errorf("%s: with the grammar", s.name)
		}
	}
}
