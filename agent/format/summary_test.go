package format_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/llama/synth"
	"agentd/protocol"
)

// summarize is an input that asks for a summary.
func summarize(in *format.Input) *format.Input {
	asked := *in
	asked.Summarize = true
	return &asked
}

// summarySetups are all setups, and templates that are not made for the agent: with a
// system message, and without one.
var summarySetups = append([]setup{
	{"any template", synth.Qwen3, format.Template, format.Options{ChatTemplate: `{% for m in messages %}[{{ m.role }}] {{ m.content }}` + "\n" + `{% endfor %}`}},
	{"no system message", synth.Qwen3, format.Template, format.Options{ChatTemplate: `{% for m in messages %}{% if m.role == "system" %}{{ raise_exception("no") }}{% endif %}[{{ m.role }}] {{ m.content }}` + "\n" + `{% endfor %}`}},
}, setups...)

// TestSummaryRequestFollowsThePromptOfTheNextStep: the prefix cache has all of the
// history.
func TestSummaryRequestFollowsThePromptOfTheNextStep(t *testing.T) {
	const end = "the-very-end"
	said := strings.Replace(history, `\"Done, naïve`, `\"Done, `+end+` naïve`, 1)
	said = said[:strings.Index(said, `{"author":"SYSTEM","content":"The door`)]
	said = strings.TrimRight(said, ",\n") + "]}"
	called := strings.Replace(history, `{\"base\": {\"name\": \"look\", \"arguments\": {}}}}"}`+"\n]", `{\"base\": {\"name\": \"look\", \"arguments\": {\"at\": \"`+end+`\"}}}}"}`+"\n]", 1)
	for _, s := range summarySetups {
		f, k := s.open(t)
		for name, test := range map[string]struct {
			memory string
			author memory.Author
		}{
			"a result comes":              {called, memory.System},
			"a report comes after a say":  {said, memory.System},
			"a user speaks after a say":   {said, memory.User},
			"a user breaks into the task": {called, memory.User},
		} {
			t.Run(s.name+", "+name, func(t *testing.T) {
				query := test.author == memory.User || test.memory == said
				if query && s.name == "tagged, thinking" || query && test.memory == called && strings.HasPrefix(s.name, "hermes") {
					// The templates drop the thoughts before a new message of the user. The cached prompt
					// of the turn before has them, and so has that for a summary: see below.
					return
				}
				if !strings.Contains(test.memory, end) {
					t.Fatal("the memory has no mark")
				}
				in := newInput(t, f, test.memory, test.author, "What-comes-now", sampleTools, attributes)
				next, err := f.Render(in)
				if err != nil {
					t.Fatal(err)
				}
				asked, err := f.Render(summarize(in))
				if err != nil {
					t.Fatal(err)
				}
				a, b := text(t, next, k.specials), text(t, asked, k.specials)
				at := strings.Index(a, end) + len(end)
				if at < len(end) || !strings.HasPrefix(b, a[:at]) {
					t.Fatalf("next step (-) and summary (+) begin differently:\n%s", cmp.Diff(strings.Split(a[:max(0, at)], "\n"), strings.Split(b, "\n")))
				}
				if rest := b[at:]; !strings.Contains(rest, "write a summary of this conversation") || strings.Contains(rest, "What-comes-now") ||
					strings.Contains(rest, "completed") || (test.memory == called && s.format != format.Template) != strings.Contains(rest, `{"status": "pending"}`) {
					t.Errorf("behind the history stands %q", rest)
				}
			})
		}
	}
}

// TestThoughtsInTheCachedPromptStayAfterAUserMessage: that of the turn before.
func TestThoughtsInTheCachedPromptStayAfterAUserMessage(t *testing.T) {
	f, _ := setupOf("tagged, thinking").open(t)
	result, err := f.Render(newInput(t, f, history, memory.System, "seen", sampleTools, attributes))
	if err != nil {
		t.Fatal(err)
	}
	asked, err := f.Render(summarize(newInput(t, f, history, memory.User, "Stop!", sampleTools, attributes)))
	if err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(result.Text, "\nseen\n")
	if at < 0 || !strings.HasPrefix(asked.Text, result.Text[:at]) || !strings.Contains(result.Text[:at], "Look again.") {
		t.Errorf("the prompt does not begin like that of a result:\n%s", asked.Text)
	}
}

func TestSummaryPromptsEqualTheTemplates(t *testing.T) {
	for _, model := range []struct{ file, arch, format string }{
		{"Qwen-Qwen3-0.6B.jinja", synth.Qwen3, format.Qwen},
		{"Qwen-Qwen2.5-7B-Instruct.jinja", synth.Qwen3, format.Qwen},
		{"openai-gpt-oss-120b.jinja", synth.GPTOSS, format.GPTOSS},
	} {
		t.Run(model.file, func(t *testing.T) {
			source := reference(t, model.file)
			kit := newKit(t, model.arch, source)
			o := format.Options{ChatTemplate: source, ModelAPI: kit}
			if model.format == format.GPTOSS {
				o.ReasoningEffort = "medium"
			}
			f := newFormat(t, model.format, o)
			mem := history
			if model.format == format.Qwen { // thoughts in an unfinished task are shown on purpose
				mem = string(protocol.DeleteMember(protocol.Raw(history), memory.QwenKey))
			}
			prompt, err := f.Render(summarize(newInput(t, f, mem, memory.System, "seen", sampleTools, attributes)))
			if err != nil {
				t.Fatal(err)
			}
			want, err := kit.RenderTemplate(referenceVars(prompt, model.format, false))
			if err != nil {
				t.Fatal(err)
			}
			want = regexp.MustCompile(`Current date: [0-9-]+\n`).ReplaceAllString(want, "")
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(text(t, prompt, kit.specials), "\n")); diff != "" {
				t.Errorf("template (-) and native (+) differ:\n%s", diff)
			}
		})
	}
}

// beforeText precedes an answer under each setup.
var beforeText = map[string][]string{
	"hermes": {""}, "hermes, thinking": {"<think>\nhmm {\n</think>\n\n"}, "tagged": {""}, "tagged, thinking": {"hmm {\n</think>\n\n"},
	"gpt-oss": {
		"<|channel|>final<|message|>", "<|channel|>analysis<|message|>hmm<|end|><|start|>assistant<|channel|>final<|message|>",
	},
	"llama": {""}, "blocks": {"<think>\nhmm</think>\n\n"}, "json": {""}, "any template": {""}, "no system message": {""},
}

func TestSummariesAreTextWithoutMarks(t *testing.T) {
	for _, s := range summarySetups {
		t.Run(s.name, func(t *testing.T) {
			f, k := s.open(t)
			grammar, err := format.AnswerCatalog(f, &tools.Set{}).Grammar()
			if err != nil {
				t.Fatal(err)
			}
			if len(beforeText[s.name]) == 0 {
				t.Fatal("no texts for this setup")
			}
			for _, thoughts := range beforeText[s.name] {
				for _, good := range []string{"The cup is in <b>the</b> kitchen.\n\n- {\"a\": 1}", "é"} {
					if prefix, ok := admits(t, k, grammar, thoughts+good); !ok {
						t.Errorf("the grammar stops after %q", prefix)
					}
					if got, err := format.ReadSummary(f, thoughts+good+" \n"); err != nil || got != good {
						t.Errorf("%q is read as %q, %v", thoughts+good, got, err)
					}
				}
				for _, bad := range []string{"", " \n", "The cup <tool_call>", "a</think>b</think>", "x <|start|>", "<|channel|>analysis<|message|>", "y <|python_tag|>x", "<|start_header_id|>x", `{"say": "x", "action": {}}`} {
					if _, ok := admits(t, k, grammar, thoughts+bad); ok {
						t.Errorf("the grammar admits %q", thoughts+bad)
					}
					if got, err := format.ReadSummary(f, thoughts+bad); err == nil {
						t.Errorf("%q is read as %q", thoughts+bad, got)
					}
				}
				if got, err := format.ReadSummary(f, thoughts+"\u2003\u00a0"); err == nil {
					t.Errorf("white space of Unicode is read as %q", got)
				}
				if got, err := format.ReadSummary(f, thoughts+"caf\xc3"); err != nil || got != "caf" {
					t.Errorf("a character cut in two is read as %q, %v", got, err)
				}
			}
		})
	}
}
