package llama

import (
	"errors"
	"testing"

	"agentd/llama/synth"
)

// printed are the variables of the test below.
const printed = `{"d": {"x": "a\"b", "y": ["'\""]}, "s": "it's", "text": "it's \"so\"\n\ttab \\ é\u00a0\u200b\u001b\ue000😀", "n": null, "t": true, "e": [], "o": {}, "i": 9007199254740993, "f": [0.1, 1e22, 1e-7, 123456.789, 1e16, 1.0, -0.0, 0.0001, 5e-324], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [1, 2.5, true, null], "b": {}}}}]}`

// The wanted texts are of jinja2 3.1 with the environment of transformers 5.19.
func TestTemplatesPrintAsPythonDoes(t *testing.T) {
	needsPatch(t)
	for _, tc := range []struct{ rule, source, want string }{
		{"a list of mappings", `{{ tools }}`, `[{'type': 'function', 'function': {'name': 'f', 'parameters': {'a': [1, 2.5, True, None], 'b': {}}}}]`},
		{"a mapping, a string, and a list of one", `{{ d }}|{{ s }}|{{ [s] }}`, `{'x': 'a"b', 'y': ['\'"']}|it's|["it's"]`},
		{"a string with all that is escaped", `{{ [text] }}`, `['it\'s "so"\n\ttab \\ é\xa0\u200b\x1b\ue000😀']`},
		{"numbers in a list", `{{ f }}`, `[0.1, 1e+22, 1e-07, 123456.789, 1e+16, 1.0, -0.0, 0.0001, 5e-324]`},
		{"numbers alone", `{% for x in f %}{{ x }} {% endfor %}`, `0.1 1e+22 1e-07 123456.789 1e+16 1.0 -0.0 0.0001 5e-324 `},
		{"numbers as JSON", `{{ f | tojson }}`, `[0.1, 1e+22, 1e-07, 123456.789, 1e+16, 1.0, -0.0, 0.0001, 5e-324]`},
		{"none, a truth value, an empty list and mapping", `{{ n }}|{{ t }}|{{ e }}|{{ o }}|{{ i }}`, `None|True|[]|{}|9007199254740993`},
		{"a mapping in a condition", `{% if t %}{{ d }}{% endif %}`, `{'x': 'a"b', 'y': ['\'"']}`},
		{"a list in a loop", `{% for k in d %}{{ d[k] }}{% endfor %}`, `a"b['\'"']`},
		{"a mapping in a macro", `{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(d) }}`, `<{'x': 'a"b', 'y': ['\'"']}>`},
		{"a mapping in a block of a variable", `{% set z %}{{ d }}{% endset %}{{ z }}`, `{'x': 'a"b', 'y': ['\'"']}`},
		{"a mapping in a filter's block", `{% filter upper %}{{ d }}{% endfilter %}`, `{'X': 'A"B', 'Y': ['\'"']}`},
		{"a mapping as a string", `{{ d | string }}`, `{'x': 'a"b', 'y': ['\'"']}`},
		{"a list joined to text", `{{ tools ~ '.' }}`, `[{'type': 'function', 'function': {'name': 'f', 'parameters': {'a': [1, 2.5, True, None], 'b': {}}}}].`},
		{"text joined to a mapping", `{{ '.' ~ d }}`, `.{'x': 'a"b', 'y': ['\'"']}`},
		{"numbers and none joined", `{{ 1 ~ 2.5 ~ none ~ missing }}`, `12.5None`},
		{"tuples", `{{ (1, 'a') }}{{ d.items() | list }}`, `(1, 'a')[('x', 'a"b'), ('y', ['\'"'])]`},
		{"what is undefined", `{{ [missing] }}|{{ missing }}|{{ {'a': none} }}`, `[Undefined]||{'a': None}`},
		{"nested lists", `{{ [[], [[1]], {}] }}`, `[[], [[1]], {}]`},
		{"parts replaced and found", `{{ s.replace('t', 'tt') }} {{ 'aaa'.replace('aa', 'b') }} {{ 'a,b,,c'.split(',') }} {{ 't' in s }} {{ 'q' in s }} {{ '' in s }}`, `itt's ba ['a', 'b', '', 'c'] True False True`},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got, err := render(newTemplate(t, shared(t, synth.Qwen3), tc.source), []byte(printed))
			if err != nil || got != tc.want {
				t.Errorf("got  %q, %v\nwant %q", got, err, tc.want)
			}
		})
	}
}

func TestValuesWithoutATextAreErrors(t *testing.T) {
	needsPatch(t)
	for rule, source := range map[string]string{
		"a function":           `{{ range }}`,
		"a macro":              `{% macro m() %}x{% endmacro %}{{ m }}`,
		"a list in itself":     `{% set l = [] %}{% set _ = l.append(l) %}{{ l }}`,
		"a mapping in itself":  `{% set ns = namespace(a=1) %}{% set ns.a = [{'b': ns}] %}{{ ns.a }}`,
		"a namespace's member": `{% set ns = namespace(a=1) %}{% set ns.a = ns %}{{ ns.a }}`,
	} {
		if got, err := render(newTemplate(t, shared(t, synth.Qwen3), source), []byte(`{}`)); !errors.Is(err, ErrTemplate) {
			t.Errorf("%s: %q, %v", rule, got, err)
		}
	}
}
