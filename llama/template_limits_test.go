package llama

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/llama/synth"
)

const (
	timeUp, memory, tooDeep = "200 ms of processor time", "64 MiB of memory", "nested too deeply"

	doubled = `{% set ns = namespace(l=(1, 2)) %}{% for i in range(60) %}{% set ns.l = (ns.l, ns.l) %}{% endfor %}`
	deep    = `{% set ns = namespace(l=[]) %}{% for i in range(40000) %}{% set ns.l = [ns.l] %}{% endfor %}`
)

func TestTemplatesEndAtTheirLimits(t *testing.T) {
	for _, tc := range []struct{ rule, source, want string }{
		{"a macro that calls itself", `{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}`, tooDeep},
		{"macros that call each other", `{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ b() }}`, tooDeep},
		{"loops in a loop", `{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}{% endfor %}{% endfor %}{% endfor %}`, timeUp},
		{"a long range", `{% for a in range(1000000000000) %}{% endfor %}`, memory},
		{"a text that doubles", `{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}`, memory},
		{"a text many times", `{{ 'abc' * 1000000000000 }}`, memory},
		{"an output without end", `{% for a in range(10000) %}{% for b in range(10) %}` + strings.Repeat("0123456789", 100) + `{% endfor %}{% endfor %}`, memory},
		{"parts that grow", `{% set s = 'a' * 1000000 %}{{ s.replace('a', s) }}`, memory},
		{"a wide indentation", `{{ {'a': {'b': 1}} | tojson(indent=1000000000) }}`, memory},
		{"a long chain of operators", `{{ 1` + strings.Repeat(" ~1", 200000) + ` }}`, tooDeep},
		{"a deep list printed", deep + `{{ ns.l }}`, tooDeep},
	} {
		t.Run(tc.rule, func(t *testing.T) { endsWith(t, tc.source, tc.want) })
	}
}

// TestTemplatesEndWhereValuesAreOnlyRead: third_party/patch looks at the limits there.
func TestTemplatesEndWhereValuesAreOnlyRead(t *testing.T) {
	needsPatch(t)
	for _, tc := range []struct{ rule, source, want string }{
		{"a deep list as JSON", deep + `{{ ns.l | tojson }}`, "nested more than 1000 deep"},
		{"a list of doubled lists as JSON", doubled + `{{ ns.l | tojson }}`, timeUp},
		{"doubled tuples compared", doubled + `{{ ns.l == ns.l }}`, timeUp},
		{"doubled tuples as a key", doubled + `{{ {ns.l: 1} }}`, timeUp},
		{"many characters to strip", `{{ ('a' * 1000).strip('b' * 257 ~ 'a') }}`, "at most 256 bytes"},
		{"a long separator from the right", `{{ ('a' * 1000).rsplit('a' * 257 ~ 'b') }}`, "at most 256 bytes"},
	} {
		t.Run(tc.rule, func(t *testing.T) { endsWith(t, tc.source, tc.want) })
	}
}

// endsWith renders a template with a low limit. Its error has the text want, and another template renders after it.
func endsWith(t *testing.T, source, want string) {
	t.Helper()
	tmpl := newTemplate(t, shared(t, synth.Qwen3), source)
	tmpl.limits.time = time.Minute // a slow machine does not reach another limit first
	switch want {
	case timeUp:
		tmpl.limits.time = 200 * time.Millisecond
	case memory:
		tmpl.limits.memory = 64 << 20
	}
	if got, err := render(tmpl, []byte(`{}`)); !errors.Is(err, ErrTemplate) || !strings.Contains(err.Error(), want) {
		t.Errorf("%.100q, %v; want %q", got, err, want)
	}
	if got, err := render(newTemplate(t, shared(t, synth.Qwen3), `{{ 1 }}`), []byte(`{}`)); err != nil || got != "1" {
		t.Errorf("afterwards another one renders %q, %v", got, err)
	}
}

// needsPatch skips a test of what third_party/patch changes, where LLAMA_CPP_DIR is a llama.cpp without it.
func needsPatch(t *testing.T) {
	t.Helper()
	header, err := os.ReadFile(filepath.Join("..", "third_party", "llama.cpp", "common", "jinja", "value.h"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(header), "agentd") {
		t.Skip("llama.cpp is not patched")
	}
}

func TestTemplatesAreParsedUnderLimits(t *testing.T) {
	for rule, source := range map[string]string{
		"nested blocks":  strings.Repeat(`{% if 1 %}`, 50000) + strings.Repeat(`{% endif %}`, 40000),
		"signs in a row": `{{ ` + strings.Repeat("-", MaxTemplateBytes-10) + `1 }}`,
		"nots in a row":  `{{ ` + strings.Repeat("not ", 200000) + `1 }}`,
	} {
		tmpl, err := shared(t, synth.Qwen3).NewTemplate(source)
		if !errors.Is(err, ErrTemplate) {
			t.Errorf("%s: %v", rule, err)
		}
		if tmpl != nil {
			tmpl.Close()
		}
	}
}

func TestDeepValuesOfATemplateAreFreed(t *testing.T) {
	tmpl := newTemplate(t, shared(t, synth.Qwen3), deep+`{{ 'done' }}`)
	tmpl.limits.time = time.Minute
	if got, err := render(tmpl, []byte(`{}`)); err != nil || got != "done" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTemplateErrorsAreOneSentence(t *testing.T) {
	for _, tc := range []struct{ rule, source, want string }{
		{"raised alone", `{{ raise_exception('at most three messages') }}`, "at most three messages"},
		{"raised in a macro", `{% macro m() %}{{ raise_exception('no system role') }}{% endmacro %}{% for x in [1] %}{% if x %}{{ m() }}{% endif %}{% endfor %}`, "no system role"},
		{"a call of nothing", "a\n {{ x() }}", "line 2, column 6: Callee is not a function: got Undefined (hint: 'x')"},
	} {
		if _, err := render(newTemplate(t, shared(t, synth.Qwen3), tc.source), []byte(`{}`)); err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v, want %s", tc.rule, err, tc.want)
		}
	}
}
