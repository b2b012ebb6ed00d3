//go:build !race

package format_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/llama/synth"
	"agentd/protocol"
)

// TestLlamaIsDetected: of llama.cpp's collection, the templates of Llama 3.1 to
// 3.3 are rendered natively, and no other.
func TestLlamaIsDetected(t *testing.T) {
	reference(t, "meta-llama-Llama-3.1-8B-Instruct.jinja") // skips where there are none
	files, err := filepath.Glob(filepath.Join("..", "..", "third_party", "llama.cpp", "models", "templates", "*.jinja"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := format.Detect("llama", string(source))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.HasPrefix(filepath.Base(path), "meta-llama-Llama-3."); (got == format.Llama) != want {
			t.Errorf("the format of %s is %s", filepath.Base(path), got)
		}
	}
}

// TestLlamaTemplatesThatDiffer: a template that shows something else is rendered
// as it is; only its date may be another.
func TestLlamaTemplatesThatDiffer(t *testing.T) {
	source := reference(t, "meta-llama-Llama-3.1-8B-Instruct.jinja")
	replaced := func(old, with string) string {
		if !strings.Contains(source, old) {
			t.Fatalf("the template lacks %q", old)
		}
		return strings.ReplaceAll(source, old, with)
	}
	for name, test := range map[string]struct{ template, want string }{
		"another date":                    {replaced("26 Jul 2024", "1 May 2025"), format.Llama},
		"another cutoff":                  {replaced("December 2023", "March 2025"), format.Template},
		"tools in the system message":     {replaced("tools_in_user_message = true", "tools_in_user_message = false"), format.Template},
		"another form of calls":           {replaced(`"parameters": `, `"args": `), format.Template},
		"made for this agent":             {source + "{{ permanent_rules }}", format.Template},
		"the template of the tiny models": {"", format.Llama},
	} {
		t.Run(name, func(t *testing.T) {
			if test.template == "" {
				test.template = newKit(t, synth.Llama, "").model.Metadata()["tokenizer.chat_template"]
			}
			got, err := format.Detect("llama", test.template)
			if err != nil || got != test.want {
				t.Errorf("the format is %s, %v; want %s", got, err, test.want)
			}
		})
	}
	kit := newKit(t, synth.Llama, replaced("26 Jul 2024", "1 May 2025"))
	f := newFormat(t, format.Llama, format.Options{ChatTemplate: replaced("26 Jul 2024", "1 May 2025"), ModelAPI: kit})
	prompt, err := f.Render(&format.Input{Chat: chat})
	if err != nil {
		t.Fatal(err)
	}
	want, err := kit.RenderTemplate(referenceVars(prompt, "", false))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, prompt.Text); diff != "" {
		t.Errorf("template (-) and native (+) differ:\n%s", diff)
	}
}

// TestLlamaIsToldOfSeveralCalls where more than one robot can take them.
func TestLlamaIsToldOfSeveralCalls(t *testing.T) {
	for robots, want := range map[string]bool{`[]`: false, `["a"]`: false, `["a","b"]`: true} {
		for _, offered := range [][]protocol.Raw{nil, sampleTools} {
			f, _ := setupOf("llama").open(t)
			prompt, err := f.Render(newInput(t, f, `{}`, memory.User, "Go", offered, `{"known_robots":`+robots+`}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(prompt.Text, "separated by semicolons"); got != (want && offered != nil) {
				t.Errorf("%d tools, robots %s: told %t", len(offered), robots, got)
			}
		}
	}
}

// TestConstrainedNoiseCallsInBothForms: calls that a grammar lets a model write at
// random are read, with the tag and without.
func TestConstrainedNoiseCallsInBothForms(t *testing.T) {
	f, k := setupOf("llama").open(t)
	c := catalogOf(t, f, sampleTools, "arm", "base")
	grammar, err := c.Grammar()
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []struct{ root, begins string }{{"calls", `{"name": "`}, {"<|python_tag|> calls", "<|python_tag|>"}} {
		tagless := strings.Replace(grammar, "<|python_tag|>? ", "", 1)
		eachNoise(t, f, k, rooted(tagless, form.root), func(answer string) {
			d, err := f.Parse(answer, c)
			if err != nil || len(d.ToolCalls) == 0 || !strings.HasPrefix(answer, form.begins) {
				t.Errorf("Parse(%q) = %+v, %v", answer, d, err)
			}
		})
	}
}

// TestLlamaWithoutTheTag: a vocabulary that lacks the tag has a grammar without it.
func TestLlamaWithoutTheTag(t *testing.T) {
	k := newKit(t, synth.Qwen3, "")
	f := newFormat(t, format.Llama, format.Options{ModelAPI: k})
	grammar, err := catalogOf(t, f, sampleTools, "arm").Grammar()
	if err != nil {
		t.Fatal(err)
	}
	if prefix, ok := admits(t, k, grammar, `{"name": "look", "parameters": {"target_robot": "arm"}}`); !ok {
		t.Errorf("the grammar stops after %q", prefix)
	}
}
