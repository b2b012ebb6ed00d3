//go:build !race

package format_test

import (
	"fmt"
	"strings"
	"testing"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
)

// TestToolsThatAreTooLargeForAGrammarStayUsable: llama.cpp takes the grammar, and calls are
// checked as before.
func TestToolsThatAreTooLargeForAGrammarStayUsable(t *testing.T) {
	list := func(n int, form string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = strings.ReplaceAll(form, "N", fmt.Sprint(i))
		}
		return strings.Join(parts, ",")
	}
	patterns := func(parts, ways int) string {
		of := make([]string, parts)
		for i := range of {
			of[i] = `{"anyOf":[` + list(ways, `{"pattern":"`+string(rune('a'+i))+`N[a-f]{1,9}x"}`) + `]}`
		}
		return `{"type":"object","properties":{"x":{"type":"string","allOf":[` + strings.Join(of, ",") + `]}},"required":["x"]}`
	}
	tool := func(i int, parameters string) string {
		return fmt.Sprintf(`{"name":"t%d","parameters":%s}`, i, parameters)
	}
	several := func(n int, parameters string) (raws []protocol.Raw) {
		for i := range n {
			raws = append(raws, protocol.Raw(tool(i, strings.ReplaceAll(parameters, "T", fmt.Sprint(i+1)))))
		}
		return raws
	}
	for name, raws := range map[string][]protocol.Raw{
		"two alternatives of three patterns":  several(1, patterns(3, 2)),
		"four alternatives of three patterns": several(1, patterns(3, 4)),
		"five alternatives of three patterns": several(1, patterns(3, 5)),
		"five alternatives of five patterns":  several(1, patterns(5, 5)),
		"a parameter of many values":          several(1, `{"type":"object","properties":{"x":{"enum":[`+list(6000, `"vN",N`)+`]}},"required":["x"]}`),
		"many tools with such patterns":       several(12, patterns(3, 5)),
		"many tools with many parameters":     several(90, `{"type":"object","properties":{`+list(120, `"pN":{"type":"integer","minimum":TN}`)+`}}`),
		"long arrays of minimum length":       several(30, `{"type":"object","properties":{`+list(60, `"pN":{"type":"array","items":{"const":"TN"},"minItems":1999}`)+`},"required":[`+list(60, `"pN"`)+`]}`),
	} {
		for _, s := range setups {
			if s.o.EnableThinking {
				continue
			}
			t.Run(name+", "+s.name, func(t *testing.T) {
				f, k := s.open(t)
				set, err := tools.Normalise(raws, []string{"a", "b"}, "robot")
				if err != nil {
					t.Fatal(err)
				}
				grammar, err := f.Catalog(set).Grammar()
				if err != nil {
					t.Fatal(err)
				}
				if err := checkGrammar(k.model, grammar); err != nil {
					t.Errorf("%v in %.500s", err, grammar)
				}
			})
		}
	}
}

// TestWidenedToolsTakeTheirOwnCalls: what a wide grammar admits includes the calls that are valid,
// in a chat without a robot.
func TestWidenedToolsTakeTheirOwnCalls(t *testing.T) {
	calls := map[string]string{
		"hermes":  "<tool_call>\n{\"name\": \"t9\", \"arguments\": {\"p3\": VALUE, \"target_robot\": \"b\"}}\n</tool_call>",
		"tagged":  "<tool_call>\n<function=t9>\n<parameter=p3>\nVALUE\n</parameter>\n<parameter=target_robot>\nb\n</parameter>\n</function>\n</tool_call>",
		"gpt-oss": ` to=functions.t9<|channel|>commentary json<|message|>{"p3": VALUE, "target_robot": "b"}`,
		"llama":   `{"name": "t9", "parameters": {"p3": VALUE, "target_robot": "b"}}`,
		"json":    `{"say": "", "action": {"b": {"name": "t9", "arguments": {"p3": VALUE}}}}`,
	}
	var raws []protocol.Raw
	for i := range 90 {
		var properties []string
		for j := range 120 {
			properties = append(properties, fmt.Sprintf(`"p%d":{"type":"integer","minimum":%d%d}`, j, i+1, j))
		}
		raws = append(raws, protocol.Raw(fmt.Sprintf(`{"name":"t%d","parameters":{"type":"object","properties":{%s},"required":["p3"]}}`, i, strings.Join(properties, ","))))
	}
	inChat := strings.NewReplacer(`, "target_robot": "b"`, "", "<parameter=target_robot>\nb\n</parameter>\n", "", `{"b": {`, `{`, `}}}}`, `}}}`)
	for _, s := range setups {
		call, ok := calls[s.name]
		if !ok {
			continue
		}
		check := func(t *testing.T, f format.Format, k *kit, call string, catalog *format.Catalog) {
			t.Helper()
			grammar, err := catalog.Grammar()
			if err != nil {
				t.Fatal(err)
			}
			for value, valid := range map[string]bool{"103": true, "1": false} {
				text := strings.ReplaceAll(call, "VALUE", value)
				if prefix, whole := admits(t, k, grammar, text); !whole {
					t.Errorf("the grammar admits only %q of %q", prefix, text)
				}
				if _, err := f.Parse(text, catalog); (err == nil) != valid {
					t.Errorf("%s: error %v", text, err)
				}
			}
		}
		t.Run(s.name, func(t *testing.T) {
			f, k := s.open(t)
			check(t, f, k, call, catalogOf(t, f, raws, "a", "b"))
			set, err := tools.NormaliseFunctions(&tools.Functions{Raw: raws})
			if err != nil {
				t.Fatal(err)
			}
			check(t, f, k, inChat.Replace(call), f.Catalog(set))
		})
	}
}
