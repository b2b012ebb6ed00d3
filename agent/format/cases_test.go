package format_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/agent/tools"
	"agentd/protocol"
)

// TestCases: tools of which other servers' users have reported that they are understood
// wrongly, and of which ours were. Arguments stand one a line.
func TestCases(t *testing.T) {
	const r = `, "target_robot": "rover"`
	room := func(values ...string) string {
		for i, v := range values {
			values[i] = `{"room": ` + v + r + `}`
		}
		return strings.Join(values, "\n")
	}
	long := strings.Repeat("x", 3000)
	for _, test := range []struct{ name, yes, no, checked, err string }{
		{"f01a-allof-ref-string", room(`"kitchen"`), room(`{}`, `""`, `5`), "", ""},
		{"f01d-allof-beside-properties", room(`{"floor": 1, "wing": "east"}`), room(`{}`, `{"floor": 1}`, `{"wing": "east"}`, `{"floor": 1, "wing": "south"}`), "", ""},
		{"f01e-allof-recursive", room(`{}`, `{"v": 1}`, `{"next": {}}`, `{"v": 1, "next": {"v": 1, "next": {}}}`), room(`1`, `{"next": 1}`, `{"v": 2}`), "", ""},
		{"f02a-defs-not-ascii", `{"room": "hall", "speed": 5` + r + `}`, `{"room": 3, "speed": 3` + r + `}` + "\n" + `{"room": "hall", "speed": "hall"` + r + `}`, "", ""},
		{"f03a-anyof-required-beside-properties", room(`{"name": "x"}`, `{"id": 1}`, `{"name": "x", "id": 1}`), room(`{}`, `{"name": 1}`, `{"id": "x"}`), "", ""},
		{"f04a-enum-of-large-integers", room(`100000000000000000001`, `100000000000000000003`), room(`100000000000000000000`, `1e20`), "", ""},
		{"f04b-enum-of-long-decimals", room(`3.14159265358979323846`), room(`3.141592653589793`), "", ""},
		{"f05a-maxlength-2-to-the-32", room(`"k"`, `"`+long+`"`), room(`""`), "", ""},
		{"f05b-maxlength-2-to-the-32-less-1", room(`""`, `"`+long+`"`), room(`1`), "", ""},
		{"f06a-schema-true", room(`"x"`) + "\n" + `{"room": "x", "extra": [1, {"a": null}]` + r + `}` + "\n" + `{"room": "x", "extra": "s"` + r + `}`, `{"room": "x"` + r + `, "more": 1}`, "", ""},
		{"f07a-ref-to-root", `{"room": "x", "then": {"room": "y"}` + r + `}` + "\n" + `{"room": "x", "then": {"room": "y", "then": {"room": "z"}}` + r + `}`, `{"room": "x", "then": {}` + r + `}` + "\n" + `{"room": "x", "then": 1` + r + `}`, "", ""},
		{"f09a-required-of-no-property-nested", room(`{"n": 1, "floor": "any"}`, `{"n": 1, "floor": {"a": []}}`), room(`{"n": 1}`, `{}`), "", ""},
		{"f09b-required-of-no-property", `{"room": "x", "floor": 3` + r + `}` + "\n" + `{"room": "x", "floor": {"a": 1}` + r + `}`, room(`"x"`), "", ""},
		{"f10a-minimum-and-exclusiveminimum", room(`1`), room(`0`, `2`), "", ""},
		{"f11a-nullable-enum", room(`null`, `"x"`), room(`"y"`), "", ""},
		{"f11b-enum-beside-type-list", "", "", "", "no value fits parameters.room"},
		{"f11c-enum-beside-pattern", room(`"hall"`), room(`"kitchen"`), "", ""},
		{"f12-tagged-boolean-const", `{"room": "kitchen", "fast": true` + r + `}`, `{"room": "kitchen", "fast": false` + r + `}`, "", ""},
		{"f13-tagged-string-oneof-const", room(`"kitchen_1"`, `"hall_1"`), room(`"kitchen"`), "", ""},
		{"f14a-tagged-ref-to-a-property", room(`"kitchen"`) + "\n" + `{"room": "kitchen", "then": "kitchen"` + r + `}`, `{"room": "kitchen", "then": "hall"` + r + `}`, "", ""},
		{"d01-maxlength-65536", room(`"x"`, `"`+long+`"`), room(`1`), "", ""},
		{"d02a-tuple-of-draft-07-without-schema", room(`["kitchen", 1]`), room(`["kitchen"]`, `[1, "kitchen"]`, `["kitchen", 1, 1]`), "", ""},
		{"d03a-description-null-nested", room(`"x"`), `{"target_robot": "rover"}` + "\n" + room(`1`, `null`), "", ""},
		{"d03b-required-null", `{"target_robot": "rover"}` + "\n" + `{"room": "x", "target_robot": "rover"}`, `{"room": null, "target_robot": "rover"}`, "", ""},
		{"d03c-properties-null", `{"target_robot": "rover"}`, room(`"x"`) + "\n" + `{}`, "", ""},
		{"d05-pattern-with-look-ahead", room(`"x.y"`), room(`".x"`, `"X"`), "", ""},
		{"d06-oneof-that-overlaps", room(`1.5`), room(`"x"`), "", ""},
		{"d19-inputschema-is-ignored", room(`"kitchen"`), room(`"hall"`) + "\n" + `{"target_robot": "rover"}`, "", ""},
	} {
		raw, err := os.ReadFile(filepath.Join("testdata", "cases", test.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		tool := protocol.Raw(raw)
		if err := tool.Compact(); err != nil {
			t.Fatal(err)
		}
		for _, s := range setups {
			t.Run(test.name+", "+s.name, func(t *testing.T) {
				f, k := s.open(t)
				var grammar string
				set, err := tools.Normalise([]protocol.Raw{tool}, []string{"rover", "scout"}, "robot")
				if err == nil {
					grammar, err = f.Catalog(set).Grammar()
				}
				if test.err != "" {
					if err == nil || !strings.Contains(err.Error(), test.err) {
						t.Fatalf("error %v, want one with %q", err, test.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := checkGrammar(k.model, grammar); err != nil {
					t.Fatalf("%v in\n%s", err, grammar)
				}
				if s.name != "hermes" && s.name != "gpt-oss" {
					return
				}
				before, behind := "<tool_call>\n{\"name\": \"go_to\", \"arguments\": ", "}\n</tool_call>"
				if s.name == "gpt-oss" {
					before, behind = " to=functions.go_to<|channel|>commentary json<|message|>", ""
				}
				for _, arguments := range lines(test.yes) {
					answer := before + arguments + behind
					if prefix, ok := admits(t, k, grammar, answer); !ok {
						t.Errorf("the grammar stops after %q of %.200q", prefix, answer)
					}
					if _, err := f.Parse(answer, f.Catalog(set)); err != nil {
						t.Errorf("Parse(%.200q): %v", answer, err)
					}
				}
				for _, arguments := range lines(test.no) {
					answer := before + arguments + behind
					if _, ok := admits(t, k, grammar, answer); ok {
						t.Errorf("the grammar admits %q", answer)
					}
				}
			})
		}
	}
}

func TestTaggedTextOfAnOptionalStringIsAString(t *testing.T) {
	f, _, c := toolOf(t, "tagged", `{"type":"object","properties":{"x":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`)
	for text, want := range map[string]string{"5": `"5"`, "hall": `"hall"`, `"5"`: `"5"`, "None": "null", "{}": `"{}"`} {
		d, err := f.Parse("<tool_call>\n<function=t>\n<parameter=x>\n"+text+"\n</parameter>\n</function>\n</tool_call>", c)
		if err != nil || string(d.ToolCalls[0].Arguments) != `{"x":`+want+`}` {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
	}
}

// TestTaggedValues: what may stand between tags, and how it is read.
func TestTaggedValues(t *testing.T) {
	for _, test := range []struct {
		name, schema string
		yes          map[string]string // text to the argument
		no           []string
	}{
		{"a constant that is true", `{"type":"boolean","const":true}`, map[string]string{"true": "true", "True": "true"}, []string{"false", "False", "1"}},
		{"options of a boolean", `{"type":"boolean","enum":[false]}`, map[string]string{"False": "false"}, []string{"true"}},
		{"a number or none", `{"type":["integer","null"]}`, map[string]string{"None": "null", "null": "null", "5": "5"}, []string{"True", "none"}},
		{"a string or none", `{"anyOf":[{"type":"string"},{"type":"null"}]}`, map[string]string{"5": `"5"`, "hall": `"hall"`, `"a"`: `"a"`, "None": "null"}, []string{"</parameter>"}},
		{"an option or none", `{"enum":["a","</parameter>","5</parameter>",null]}`, map[string]string{"a": `"a"`, "</parameter>": `"</parameter>"`, "5</parameter>": `"5</parameter>"`, "null": "null"}, []string{"b"}},
		{"any value", `{}`, map[string]string{"None": "null", "False": "false", `"a"`: `"a"`}, []string{"a"}},
		{"alternatives of constants", `{"type":"string","oneOf":[{"const":"a b","title":"A"},{"const":"5"}]}`, map[string]string{"a b": `"a b"`, "5": `"5"`}, []string{"a", `"a b"`}},
		{"a string behind a reference", `{"$ref":"#/$defs/s"}`, map[string]string{"5": `"5"`, "true": `"true"`, "a\nb": `"a\nb"`}, []string{""}},
		{"an option with the tag that closes it", `{"enum":["a</parameter>","a","</function>"]}`,
			map[string]string{"a</parameter>": `"a</parameter>"`, "a": `"a"`, "</function>": `"</function>"`}, []string{"</parameter>"}},
		{"a pattern", `{"type":"string","pattern":"^[a-c]+$","maxLength":2}`, map[string]string{"ab": `"ab"`}, []string{"abc", "x", ""}},
		{"a number of two digits behind the point", `{"type":"number","multipleOf":0.01}`, map[string]string{"1.25": "1.25", "-3": "-3"}, []string{"1.255", "x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, k, c := toolOf(t, "tagged", `{"type":"object","properties":{"x":`+test.schema+`},"required":["x"],"$defs":{"s":{"type":"string","minLength":1}}}`)
			grammar, err := c.Grammar()
			if err != nil {
				t.Fatal(err)
			}
			call := func(text string) string {
				return "<tool_call>\n<function=t>\n<parameter=x>\n" + text + "\n</parameter>\n<parameter=target_robot>\na\n</parameter>\n</function>\n</tool_call>"
			}
			for text, want := range test.yes {
				if prefix, ok := admits(t, k, grammar, call(text)); !ok {
					t.Errorf("the grammar stops after %q", prefix)
				}
				d, err := f.Parse(call(text), c)
				if err != nil || string(d.ToolCalls[0].Arguments) != `{"x":`+want+`}` {
					t.Errorf("%q is read as %+v, %v", text, d, err)
				}
			}
			for _, text := range test.no {
				if _, ok := admits(t, k, grammar, call(text)); ok {
					t.Errorf("the grammar admits %q", text)
				}
			}
		})
	}
}

// TestBlankReplies: what is white space for the parser is white space for the grammar.
func TestBlankReplies(t *testing.T) {
	for _, name := range []string{"hermes", "gpt-oss", "blocks", "json"} {
		f, k := setupOf(name).open(t)
		c := catalogOf(t, f, nil)
		grammar, err := c.Grammar()
		if err != nil {
			t.Fatal(err)
		}
		before, behind := "", ""
		switch name {
		case "gpt-oss":
			before = "<|channel|>final<|message|>"
		case "blocks":
			before = "<think>\nx</think>\n\n"
		case "json":
			before, behind = `{"say": "`, `", "action": {}}`
		}
		for _, space := range []string{" ", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u3000"} {
			answer := before + space + behind
			if _, ok := admits(t, k, grammar, answer); ok {
				t.Errorf("%s: the grammar admits %q", name, answer)
			}
			if d, err := f.Parse(answer, c); err == nil {
				t.Errorf("%s: Parse(%q) = %+v", name, answer, d)
			}
		}
		answer := before + "a" + "\u00a0" + behind
		if _, ok := admits(t, k, grammar, answer); !ok {
			t.Errorf("%s: the grammar refuses %q", name, answer)
		}
	}
}
