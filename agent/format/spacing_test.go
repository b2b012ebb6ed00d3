//go:build !race

package format_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/agent/internal/rawjson"
	"agentd/agent/tools"
	"agentd/llama/synth"
	"agentd/protocol"
)

// jsonTokens are the tokens of a JSON text. Tests join them with white space of
// their own, so that what they expect does not come from the code they test.
type jsonTokens []string

// dumps joins tokens as Python's json.dumps does.
func (list jsonTokens) dumps() string {
	var b strings.Builder
	for i, token := range list {
		b.WriteString(token)
		if (token == "," || token == ":") && i < len(list)-1 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// otherwise is the text with other white space at one border between tokens.
func (list jsonTokens) otherwise(at int, space string) string {
	left := list[:at].dumps()
	if last := list[at-1]; last == "," || last == ":" {
		space = strings.TrimPrefix(space, " ") // "" where a space must be, else one too many
	}
	return left + space + list[at:].dumps()
}

// valueMaker draws schemas and values that they admit.
type valueMaker struct {
	*rand.Rand
	definitions []string
}

// oddNames need care: they are spelled like punctuation, rules or other names.
var oddNames = []string{"a", "b", "space", "string", ":", ",", "{", "[", "}", "a b", `é"q\`, "value", "root", "a-kv", "object", "space0", " "}

// quoted is a JSON string as json.dumps(s, ensure_ascii=False) writes it.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

func (m *valueMaker) pick(list ...string) string { return list[m.IntN(len(list))] }

func (m *valueMaker) text() string {
	return m.pick("", " ", "a", ": ", " , ", "{ }", `"x" : 1`, "\n\t", "Küche", "日本", `\`, "</tool_call", "1,2", "[1,2]", "space")
}

// schema draws a schema and the function that draws its values.
func (m *valueMaker) schema(depth int) (schema string, value func() jsonTokens) {
	one := func(f func() string) func() jsonTokens { return func() jsonTokens { return jsonTokens{f()} } }
	kinds := 12
	if depth == 0 {
		kinds = 7
	}
	switch m.IntN(kinds) {
	case 0:
		return `{"type":"string"}`, one(func() string { return quoted(m.text()) })
	case 1:
		return `{"type":"integer"}`, one(func() string { return strconv.Itoa(m.IntN(2000) - 1000) })
	case 2:
		return `{"type":"number"}`, one(func() string { return m.pick("0.5", "-12.25", "3", "1e-05", "1e+16", "-0.0") })
	case 3:
		return `{"type":"boolean"}`, one(func() string { return m.pick("true", "false") })
	case 4:
		return `{"type":"integer","minimum":-3,"maximum":120}`, one(func() string { return strconv.Itoa(m.IntN(124) - 3) })
	case 5:
		constant := m.any(2)
		return `{"const":` + strings.Join(constant, "") + `}`, func() jsonTokens { return constant }
	case 6:
		constants := []jsonTokens{m.any(2), m.any(1), {quoted(m.text())}, {"null"}}
		list := make([]string, len(constants))
		for i, c := range constants {
			list[i] = strings.Join(c, "")
		}
		return `{"enum":[` + strings.Join(list, " , ") + `]}`, func() jsonTokens { return constants[m.IntN(len(constants))] }
	case 7:
		return m.pick(`{}`, `{"description":"anything"}`), func() jsonTokens { return m.any(2) }
	case 8:
		a, valueA := m.schema(depth - 1)
		b, valueB := m.schema(depth - 1)
		return `{"anyOf":[` + a + `,` + b + `]}`, func() jsonTokens {
			if m.IntN(2) == 0 {
				return valueA()
			}
			return valueB()
		}
	case 9:
		inner, value := m.schema(depth - 1)
		m.definitions = append(m.definitions, fmt.Sprintf(`"d%d":%s`, len(m.definitions), inner))
		return fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, len(m.definitions)-1), value
	case 10:
		return m.array(depth)
	}
	return m.object(depth)
}

func (m *valueMaker) array(depth int) (schema string, value func() jsonTokens) {
	if m.IntN(3) == 0 {
		a, valueA := m.schema(depth - 1)
		b, valueB := m.schema(depth - 1)
		return `{"type":"array","prefixItems":[` + a + `,` + b + `]}`, func() jsonTokens { return list("[", "]", valueA(), valueB()) }
	}
	items, item := m.schema(depth - 1)
	least, most := m.IntN(2), m.IntN(3)+1
	schema = `{"type":"array","items":` + items + `}`
	if m.IntN(2) == 0 {
		schema = fmt.Sprintf(`{"type":"array","items":%s,"minItems":%d,"maxItems":%d}`, items, least, most)
	}
	return schema, func() jsonTokens {
		var elements []jsonTokens
		for range least + m.IntN(most-least+1) {
			elements = append(elements, item())
		}
		return list("[", "]", elements...)
	}
}

// object draws one whose values have the required members, then the optional
// ones, then others, which is the order that grammars know. Where there may be
// others, no name has a backslash.
func (m *valueMaker) object(depth int) (schema string, value func() jsonTokens) {
	names := slices.Clone(oddNames)
	m.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var properties, required []string
	var declared []func() jsonTokens // they return nil for an optional member that is left out
	var more func() jsonTokens
	for _, name := range names[:m.IntN(4)] {
		inner, value := m.schema(depth - 1)
		member := func() jsonTokens { return slices.Concat(jsonTokens{quoted(name), ":"}, value()) }
		properties = append(properties, quoted(name)+":"+inner)
		if m.IntN(2) == 0 {
			required, declared = append(required, quoted(name)), append(declared, member)
			continue
		}
		declared = append(declared, func() jsonTokens {
			if m.IntN(2) == 0 {
				return member()
			}
			return nil
		})
	}
	schema = `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]`
	kind := m.IntN(3)
	if strings.Contains(schema, `q\\"`) {
		kind = 2
	}
	switch kind {
	case 0:
		inner, value := m.schema(depth - 1)
		schema, more = schema+`,"additionalProperties":`+inner, value
	case 1:
		schema, more = schema+`,"additionalProperties":true`, func() jsonTokens { return m.any(1) }
	}
	return schema + "}", func() jsonTokens {
		var members []jsonTokens
		for _, member := range declared {
			if made := member(); made != nil {
				members = append(members, made)
			}
		}
		if more != nil {
			for i := range m.IntN(3) {
				members = append(members, slices.Concat(jsonTokens{fmt.Sprintf(`"x%d : ,"`, i), ":"}, more()))
			}
		}
		return list("{", "}", members...)
	}
}

// any draws any value.
func (m *valueMaker) any(depth int) jsonTokens {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch m.IntN(kinds) {
	case 0:
		return jsonTokens{quoted(m.text())}
	case 1:
		return jsonTokens{m.pick("0", "-7", "2.5", "1e-07")}
	case 2:
		return jsonTokens{m.pick("true", "false")}
	case 3:
		return jsonTokens{"null"}
	case 4:
		elements := make([]jsonTokens, m.IntN(3))
		for i := range elements {
			elements[i] = m.any(depth - 1)
		}
		return list("[", "]", elements...)
	}
	members := make([]jsonTokens, m.IntN(3))
	for i, at := range m.Perm(len(oddNames))[:len(members)] {
		members[i] = slices.Concat(jsonTokens{quoted(oddNames[at]), ":"}, m.any(depth-1))
	}
	return list("{", "}", members...)
}

func list(open, closed string, elements ...jsonTokens) jsonTokens {
	out := jsonTokens{open}
	for i, e := range elements {
		if i > 0 {
			out = append(out, ",")
		}
		out = append(out, e...)
	}
	return append(out, closed)
}

// spacings are the forms whose calls have the spacing of the calls in the prompt.
var spacings = []struct {
	setup        string
	before, open string // of the call, and of its first argument
	rest, behind string // its other arguments, and the end
}{
	{"hermes", "<tool_call>\n{\"name\": \"put\", \"arguments\": ", `{"value": `, `, "target_robot": "arm"}`, "}\n</tool_call>"},
	{"llama", `{"name": "put", "parameters": `, `{"value": `, `, "target_robot": "arm"}`, "}"},
	{"tagged", "<tool_call>\n<function=put>\n", "<parameter=value>\n", "\n</parameter>\n<parameter=target_robot>\narm\n</parameter>\n", "</function>\n</tool_call>"},
}

// FuzzCallsHaveTheSpacingOfTheHistory: of what a schema admits, a grammar admits
// what json.dumps writes, and with no other spacing. The parser takes both, and
// reads the same.
func FuzzCallsHaveTheSpacingOfTheHistory(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	type opened struct {
		format.Format
		*kit
	}
	open := map[string]opened{}
	for _, s := range setups {
		format, kit := s.open(f)
		open[s.name] = opened{format, kit}
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := &valueMaker{Rand: rand.New(rand.NewPCG(seed, 3))}
		schema, draw := m.array(3)
		if m.IntN(2) == 0 {
			schema, draw = m.object(3)
		}
		parameters := `{"type":"object","properties":{"value":` + schema + `},"required":["value"],"$defs":{` + strings.Join(m.definitions, ",") + `}}`
		tool := protocol.Raw(`{"name":"put","description":"D","parameters":` + parameters + `}`)
		value := draw()
		for _, s := range spacings {
			o := open[s.setup]
			c := catalogOf(t, o, []protocol.Raw{tool}, "arm", "base")
			grammar, err := c.Grammar()
			if err != nil {
				t.Fatalf("%v for %s", err, parameters)
			}
			answer := func(value string) string { return s.before + s.open + value + s.rest + s.behind }
			want := answer(value.dumps())
			if prefix, ok := admits(t, o.kit, grammar, want); !ok {
				t.Fatalf("%s: the grammar of %s stops after %q of %q:\n%s", s.setup, parameters, prefix, want, grammar)
			}
			first, err := o.Parse(want, c)
			if err != nil {
				t.Fatalf("%s: Parse(%q): %v", s.setup, want, err)
			}
			for range 4 {
				at := 1 + m.IntN(len(value)-1)
				other := answer(value.otherwise(at, m.pick(" ", "  ", "\n", "\t")))
				if other == want {
					continue
				}
				if _, ok := admits(t, o.kit, grammar, other); ok {
					t.Fatalf("%s: the grammar of %s admits %q:\n%s", s.setup, parameters, other, grammar)
				}
				second, err := o.Parse(other, c)
				if err != nil {
					t.Fatalf("%s: Parse(%q): %v", s.setup, other, err)
				}
				if a, b := spacedCall(first.ToolCalls[0]), spacedCall(second.ToolCalls[0]); a != b {
					t.Fatalf("%s: %q is read as %s, not as %s", s.setup, other, b, a)
				}
			}
		}
	})
}

func spacedCall(call tools.Call) string { return string(rawjson.AppendSpaced(nil, call.Arguments)) }

// TestSpacingOfFormats: the formats that write calls with one spacing admit that
// one; those that serve models of which nothing is known admit others.
func TestSpacingOfFormats(t *testing.T) {
	const dumps, compact = `{"place": "hall", "path": [1, 2], "data": {"a": {}}, "target_robot": "arm"}`, `{"place":"hall","path":[1,2],"data":{"a":{}},"target_robot":"arm"}`
	tool := protocol.Raw(`{"name":"go","description":"D","parameters":{"type":"object","properties":{"place":{"type":"string"},"path":{"type":"array","items":{"type":"integer"}},"data":{}},"required":["place","path","data"]}}`)
	action := func(arguments string) string {
		arguments = strings.NewReplacer(`, "target_robot": "arm"`, "", `,"target_robot":"arm"`, "").Replace(arguments)
		return `{"arm": {"name": "go", "arguments": ` + arguments + `}}`
	}
	hermes := func(arguments string) string {
		return "<tool_call>\n{\"name\": \"go\", \"arguments\": " + arguments + "}\n</tool_call>"
	}
	for _, test := range []struct {
		setup  string
		answer func(arguments string) string
		both   bool
	}{
		{"hermes", hermes, false},
		{"hermes, thinking", func(arguments string) string { return "<think>\nx</think>\n\n" + hermes(arguments) }, false},
		{"gpt-oss", func(arguments string) string {
			return " to=functions.go<|channel|>commentary json<|message|>" + arguments
		}, true},
		{"llama", func(arguments string) string { return `{"name": "go", "parameters": ` + arguments + `}` }, false},
		{"blocks", func(arguments string) string {
			return "<think>\nx</think>\n\n<tool_call>" + action(arguments) + "</tool_call>"
		}, true},
		{"json", func(arguments string) string { return `{"say": "", "action": ` + action(arguments) + `}` }, true},
	} {
		t.Run(test.setup, func(t *testing.T) {
			s := setups[slices.IndexFunc(setups, func(s setup) bool { return s.name == test.setup })]
			f, k := s.open(t)
			c := catalogOf(t, f, []protocol.Raw{tool}, "arm", "base")
			grammar, err := c.Grammar()
			if err != nil {
				t.Fatal(err)
			}
			if prefix, ok := admits(t, k, grammar, test.answer(dumps)); !ok {
				t.Errorf("the grammar stops after %q", prefix)
			}
			if prefix, ok := admits(t, k, grammar, test.answer(compact)); ok != test.both {
				t.Errorf("compact JSON is admitted: %t, up to %q", ok, prefix)
			}
			for _, arguments := range []string{dumps, compact} {
				if _, err := f.Parse(test.answer(arguments), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// strs are the strings of a JSON text; other escapes are not other spacing.
var strs = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// TestConstrainedNoiseHasTheSpacing: whatever the grammar lets a model write at
// random returns what the prompt of the next turn will show.
func TestConstrainedNoiseHasTheSpacing(t *testing.T) {
	k := newKit(t, synth.Qwen3, "")
	f := newFormat(t, format.Qwen, format.Options{Architecture: synth.Qwen3, ModelAPI: k})
	c := catalogOf(t, f, sampleTools, "arm", "base")
	grammar, err := c.Grammar()
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	eachNoise(t, f, k, rooted(grammar, "calls"), func(answer string) {
		for call := range strings.SplitSeq(answer, "<tool_call>\n") {
			text, whole := strings.CutSuffix(strings.TrimSuffix(call, "\n"), "\n</tool_call>")
			if !whole {
				continue
			}
			calls++
			if again := string(rawjson.AppendSpaced(nil, protocol.Raw(text))); strs.ReplaceAllString(again, `""`) != strs.ReplaceAllString(text, `""`) {
				t.Errorf("%q has other spacing than %q", text, again)
			}
		}
	})
	if calls < 10 {
		t.Errorf("only %d calls were written: the test shows little", calls)
	}
}
