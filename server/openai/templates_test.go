//go:build !race

package openai

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/llama"
	"agentd/llama/synth"
)

type object = map[string]any

// published are chat templates of llama.cpp's collection, and what they can show.
var published = []struct {
	file, arch, format string
	alone              bool // a turn has one call, and no text beside it
	noThoughts         bool
}{
	{"Qwen-Qwen3-0.6B.jinja", synth.Qwen3, format.Qwen, false, false},
	{"Qwen-Qwen2.5-7B-Instruct.jinja", synth.Qwen3, format.Qwen, false, true},
	{"meta-llama-Llama-3.1-8B-Instruct.jinja", synth.Llama, format.Llama, true, true},
	{"openai-gpt-oss-120b.jinja", synth.GPTOSS, format.GPTOSS, true, false},
}

const conversations = 300

// python is the variable with the path of a Python that has transformers. make test-vllm sets it.
const python = "AGENTD_CONVERTER_PYTHON"

// kit is the model API of a format over a published template.
type kit struct {
	specials []string
	template *llama.Template
}

func (k *kit) SpecialTokens() []string                    { return k.specials }
func (k *kit) RenderTemplate(vars []byte) (string, error) { return k.template.Render(vars, time.Now()) }

// TestChatsHaveThePromptsOfTheirTemplates: requests with and without system messages, tools, thoughts, several calls and
// results. Templates get the messages of the request, with arguments as objects, as vLLM gives them. They are rendered
// by llama.cpp, and by transformers where there is a Python that has it.
func TestChatsHaveThePromptsOfTheirTemplates(t *testing.T) {
	for _, model := range published {
		t.Run(model.file, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join("../../third_party/llama.cpp/models/templates", model.file))
			if err != nil {
				t.Fatal(err)
			}
			source, err := os.ReadFile(path)
			if err != nil {
				t.Skip(err)
			}
			k := newKit(t, model.arch, string(source))
			f, err := format.New(model.format, format.Options{ChatTemplate: string(source), ReasoningEffort: effortOf(model.format), EnableThinking: model.format == format.Qwen && !model.noThoughts, ModelAPI: k})
			if err != nil {
				t.Fatal(err)
			}
			if f.Effort() == "" != model.noThoughts {
				t.Errorf("the effort is %q", f.Effort())
			}
			var vars []object
			var ours []string
			for seed := range uint64(conversations) {
				talk := newTalk(seed, model.alone, model.noThoughts)
				vars, ours = append(vars, talk.variables(model.format)), append(ours, undated(talk.prompt(t, f)))
			}
			for i := range vars {
				text, err := json.Marshal(vars[i])
				if err != nil {
					t.Fatal(err)
				}
				theirs, err := k.RenderTemplate(text)
				if err != nil {
					t.Fatalf("%v: %s", err, text)
				}
				samePrompt(t, fmt.Sprintf("llama.cpp, conversation %d", i), undated(theirs), ours[i])
			}
			for i, theirs := range transformers(t, path, vars) {
				samePrompt(t, fmt.Sprintf("transformers, conversation %d", i), undated(theirs), ours[i])
			}
		})
	}
}

func effortOf(name string) string {
	if name == format.GPTOSS {
		return "medium"
	}
	return ""
}

func newKit(t *testing.T, arch, source string) *kit {
	t.Helper()
	spec, err := synth.Preset("tiny", arch)
	if err != nil {
		t.Fatal(err)
	}
	spec.Small = true
	path, err := synth.Cached("", spec)
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.New(path)
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{}
	for _, token := range m.Vocab().SpecialTokens() {
		k.specials = append(k.specials, string(m.Vocab().Piece(token, true)))
	}
	if k.template, err = m.NewTemplate(source); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.template.Close(); m.Free() })
	return k
}

// talk is a random conversation, as the members of a request.
type talk struct {
	messages []object
	tools    []function
}

var texts = []string{
	"Bring the cup.", "  two spaces, and a line\nbreak ", "naïve 机器人 🙂 мир", `{"n": 0.5, "list": [1, 2], "text": "a<b & c"}`, "", "I look.\n\nThen I go.",
	`"quoted" \n 'single'`, "<tool_response>no\n</tool_response>",
}

func newTalk(seed uint64, alone, noThoughts bool) *talk {
	r := rand.New(rand.NewPCG(seed, 1))
	text := func() string { return texts[r.IntN(len(texts))] }
	one := func(k int) bool { return r.IntN(k) == 0 }
	c := &talk{}
	if !one(3) {
		c.messages = append(c.messages, object{"role": "system", "content": "You are brief."})
	}
	if !one(3) {
		c.tools = []function{
			newFunction("look", object{"type": "object", "properties": object{"at": object{"type": "string", "description": "A place & more"}}, "required": []string{"at"}}),
			newFunction("count", object{"type": "object", "properties": object{"n": object{"type": "integer"}, "all": object{"type": "boolean"}}}),
		}[:1+r.IntN(2)]
	}
	for range 1 + r.IntN(3) {
		c.messages = append(c.messages, object{"role": "user", "content": "Go on. " + text()})
		for range r.IntN(3) {
			c.answer(r, text, alone, noThoughts)
		}
		if !one(2) {
			c.messages = append(c.messages, object{"role": "assistant", "content": "Done: " + strings.TrimSpace(text())})
		}
	}
	if c.messages[len(c.messages)-1]["role"] == "assistant" {
		c.messages = append(c.messages, object{"role": "user", "content": text()})
	}
	return c
}

// answer adds a turn with calls, and their results.
func (c *talk) answer(r *rand.Rand, text func() string, alone, noThoughts bool) {
	if len(c.tools) == 0 {
		return
	}
	m, n := object{"role": "assistant"}, 1
	if !alone {
		n += r.IntN(2)
		m["content"] = strings.TrimSpace(text())
	}
	if !noThoughts && r.IntN(2) == 0 {
		m["reasoning_content"] = "The cup is away."
	}
	var calls, results []object
	for i := range n {
		id := fmt.Sprint("c", i)
		calls = append(calls, object{"id": id, "type": "function", "function": object{"name": "look", "arguments": object{"at": "a <b> & ü", "n": 5 + i}}})
		results = append(results, object{"role": "tool", "tool_call_id": id, "content": "seen: " + text()})
	}
	m["tool_calls"] = calls
	c.messages = append(append(c.messages, m), results...)
}

// function is a tool, with its members in the usual order.
type function struct {
	Type     string `json:"type"`
	Function struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Parameters  object `json:"parameters"`
	} `json:"function"`
}

func newFunction(name string, parameters object) (f function) {
	f.Type, f.Function.Name, f.Function.Description, f.Function.Parameters = "function", name, "It looks, it <counts>.", parameters
	return f
}

// prompt is what agentd makes of the conversation.
func (c *talk) prompt(t *testing.T, f format.Format) string {
	t.Helper()
	body := object{"messages": c.said(t)}
	if len(c.tools) > 0 {
		body["tools"] = c.tools
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	var request chatRequest
	if err := Decode(text, &request); err != nil {
		t.Fatal(err)
	}
	made, err := request.conversation(t.Context())
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if len(made.Functions.Raw) > 0 {
		set, err := tools.NormaliseFunctions(&made.Functions)
		if err != nil {
			t.Fatal(err)
		}
		made.Catalog = f.Catalog(set)
	}
	p, err := f.Render(&format.Input{Chat: made})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, segment := range p.Segments {
		b.WriteString(segment.Text)
	}
	return b.String()
}

// said are the messages of the request, with the arguments of calls as texts.
func (c *talk) said(t *testing.T) (list []object) {
	t.Helper()
	for _, m := range c.messages {
		if calls, ok := m["tool_calls"].([]object); ok {
			m = clone(m)
			var list []object
			for _, call := range calls {
				called := clone(call["function"].(object))
				text, err := json.Marshal(called["arguments"])
				if err != nil {
					t.Fatal(err)
				}
				called["arguments"] = string(text)
				call = clone(call)
				call["function"] = called
				list = append(list, call)
			}
			m["tool_calls"] = list
		}
		list = append(list, m)
	}
	return list
}

func clone(o object) object {
	made := object{}
	for k, v := range o {
		made[k] = v
	}
	return made
}

// variables are the variables of the template.
func (c *talk) variables(name string) object {
	messages := c.messages
	if name == format.GPTOSS { // has another name for thoughts
		messages = nil
		for _, m := range c.messages {
			m = clone(m)
			m["thinking"] = m["reasoning_content"]
			delete(m, "reasoning_content")
			if m["thinking"] == nil {
				delete(m, "thinking")
			}
			messages = append(messages, m)
		}
	}
	v := object{"messages": messages, "add_generation_prompt": true}
	if len(c.tools) > 0 {
		v["tools"] = c.tools
	}
	if name == format.GPTOSS {
		v["reasoning_effort"] = "medium"
	}
	if name == format.Llama {
		v["date_string"] = "26 Jul 2024"
	}
	return v
}

var date = regexp.MustCompile(`Current date: [0-9-]+\n`)

func undated(text string) string { return date.ReplaceAllString(text, "") }

func samePrompt(t *testing.T, what, template, native string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(template, "\n"), strings.Split(native, "\n")); diff != "" {
		t.Errorf("%s: template (-) and native (+) differ:\n%s", what, diff)
	}
}

// transformers renders a template with Python, nil without one.
func transformers(t *testing.T, template string, vars []object) (list []string) {
	t.Helper()
	if os.Getenv(python) == "" {
		return nil
	}
	text, err := json.Marshal(vars)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), os.Getenv(python), "testdata/render.py", template)
	c.Stdin = strings.NewReader(string(text))
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &list); err != nil || len(list) != len(vars) || slices.Contains(list, "") {
		t.Fatalf("%d texts for %d conversations, %v", len(list), len(vars), err)
	}
	return list
}
