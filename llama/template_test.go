package llama

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/llama/synth"
)

const conversation = `{
	"messages": [
		{"role": "system", "content": "You drive."},
		{"role": "user", "content": "Go <|im_end|>"},
		{"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "goto", "arguments": {"room": "hall"}}}]},
		{"role": "tool", "content": "done"}
	],
	"tools": [{"type": "function", "function": {"name": "goto", "parameters": {"type": "object"}}}],
	"add_generation_prompt": true, "enable_thinking": false
}`

func newTemplate(t testing.TB, m *Model, source string) *Template {
	t.Helper()
	tmpl, err := m.NewTemplate(source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tmpl.Close() })
	return tmpl
}

func render(tmpl *Template, vars []byte) (string, error) { return tmpl.Render(vars, time.Now()) }

func TestRenderOfTheModelsOwnTemplate(t *testing.T) {
	got, err := render(newTemplate(t, shared(t, synth.Qwen3), ""), []byte(conversation))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<|im_start|>system\nYou drive.", `{"name": "goto", "parameters": {"type": "object"}}`,
		"<|im_start|>user\nGo <|im_end|><|im_end|>\n",
		"<tool_call>\n{\"name\": \"goto\", \"arguments\": {\"room\": \"hall\"}}\n</tool_call><|im_end|>\n",
		"<|im_start|>user\n<tool_response>\ndone\n</tool_response><|im_end|>\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if !strings.HasSuffix(got, "<|im_start|>assistant\n<think>\n\n</think>\n\n") {
		t.Errorf("the end of\n%s", got)
	}
}

func TestRenderTakesAnyVariable(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for _, tc := range []struct{ rule, source, vars, want string }{
		{"numbers, lists and objects", `{{ n + 1 }} {{ list[1] }} {{ obj.a.b }} {{ obj | tojson }}`, `{"n": 41, "list": [1, "two"], "obj": {"a": {"b": true}}}`, `42 two True {"a": {"b": true}}`},
		{"missing variables are undefined", `{{ x is defined }}{{ x or 'none' }}`, `{}`, `Falsenone`},
		{"the model's tokens are there", `{{ bos_token }}|{{ eos_token }}`, `{}`, `<|endoftext|>|<|im_end|>`},
		{"and can be replaced", `{{ eos_token }}`, `{"eos_token": "END"}`, `END`},
		{"loops and macros", `{% macro m(x) %}<{{ x }}>{% endmacro %}{% for i in l %}{{ m(i) }}{% endfor %}`, `{"l": ["a", "b"]}`, `<a><b>`},
		{"an empty result", `{% if false %}x{% endif %}`, `{}`, ``},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got, err := render(newTemplate(t, m, tc.source), []byte(tc.vars))
			if err != nil || got != tc.want {
				t.Errorf("%q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestRenderTakesTheTimeItIsGiven(t *testing.T) {
	tmpl := newTemplate(t, shared(t, synth.Qwen3), `{{ strftime_now('%Y') }}`)
	if got, err := tmpl.Render([]byte(`{}`), time.Date(2001, 6, 1, 0, 0, 0, 0, time.UTC)); err != nil || got != "2001" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTemplateErrors(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for _, tc := range []struct{ rule, source string }{
		{"an open block", `{% for x in y %}`},
		{"an unknown statement", `{% frob %}`},
		{"an open expression", `{{ x `},
		{"nesting without end", `{{ ` + strings.Repeat("(", 100000) + `1` + strings.Repeat(")", 100000) + ` }}`},
		{"too many bytes", strings.Repeat("x", MaxTemplateBytes+1)},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if tmpl, err := m.NewTemplate(tc.source); !errors.Is(err, ErrTemplate) {
				t.Errorf("%v", err)
				if tmpl != nil {
					tmpl.Close()
				}
			}
		})
	}
	noTemplate := &Model{}
	if _, err := noTemplate.NewTemplate(""); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("a model without a template: %v", err)
	}
}

func TestRenderErrors(t *testing.T) {
	m := shared(t, synth.Qwen3)
	for _, tc := range []struct{ rule, source, vars string }{
		{"an exception of the template", `{{ raise_exception('no system role') }}`, `{}`},
		{"a call of a value that is no function", `{{ x() }}`, `{"x": 1}`},
		{"variables that are no object", `x`, `[1]`},
		{"variables that are no JSON", `x`, `{"a":`},
		{"no variables", `x`, ``},
		{"variables that are too deep", `x`, `{"a":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got, err := render(newTemplate(t, m, tc.source), []byte(tc.vars)); !errors.Is(err, ErrTemplate) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestRenderInParallel(t *testing.T) {
	tmpl := newTemplate(t, shared(t, synth.Qwen3), "")
	want, err := render(tmpl, []byte(conversation))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if got, err := render(tmpl, []byte(conversation)); err != nil || got != want {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

// The templates of published models are in llama.cpp's source tree.
func TestPublishedTemplatesRender(t *testing.T) {
	dir := filepath.Join("..", "third_party", "llama.cpp", "models", "templates")
	for file, want := range map[string]string{
		"Qwen-Qwen3-0.6B.jinja":          "<|im_start|>assistant\n<think>\n\n</think>\n\n",
		"Qwen-Qwen2.5-7B-Instruct.jinja": "<|im_start|>assistant\n",
		"Qwen3.5-4B.jinja":               "<|im_start|>assistant\n<think>\n\n</think>\n\n",
		"openai-gpt-oss-120b.jinja":      "<|start|>assistant",
	} {
		t.Run(file, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err) // the source that the headers come from
			}
			got, err := render(newTemplate(t, shared(t, synth.Qwen3), string(source)), []byte(conversation))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(got, want) || !strings.Contains(got, "Go <|im_end|>") || !strings.Contains(got, "goto") {
				t.Errorf("rendered as\n%s", got)
			}
		})
	}
}
