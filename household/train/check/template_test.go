package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/llama"
	"agentd/llama/synth"
	"agentd/protocol"
)

// kit implements what the agent's formats need of a model with the template.
type kit struct {
	model    *llama.Model
	template *llama.Template
}

func (k *kit) RenderTemplate(vars []byte) (string, error) {
	return k.template.Render(vars, time.Now())
}
func (k *kit) SpecialTokens() []string {
	var texts []string
	for _, id := range k.model.Vocab().SpecialTokens() {
		texts = append(texts, string(k.model.Vocab().Piece(id, true)))
	}
	return texts
}

// native is the agent's qwen format over the chat template of this model.
func native(t *testing.T) (format.Format, *kit) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "..", "chat_template.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	spec.Small, spec.ChatTemplate = true, string(source)
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := synth.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	k := &kit{}
	if k.model, err = llama.New(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.model.Free() })
	if k.template, err = k.model.NewTemplate(""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.template.Close() })
	name, err := format.Detect(synth.Qwen3, string(source))
	if err != nil || name != format.Qwen {
		t.Fatalf("the template is taken for %q, %v", name, err)
	}
	f, err := format.New(name, format.Options{Architecture: synth.Qwen3, ChatTemplate: string(source), ModelAPI: k})
	if err != nil {
		t.Fatal(err)
	}
	return f, k
}

const dialogue = `{"memory_list":["Be quick."],"summary":"A lamp broke.","history":[
{"author":"USER","content":"Where is the red cup?"},
{"author":"MODEL","content":"{\"say\":\"On the table.\",\"action\":{}}"},
{"author":"USER","content":"rover, go to the kitchen; arm, wait"},
{"author":"MODEL","content":"{\"say\":\"\",\"action\":{\"rover\":{\"name\":\"go\",\"arguments\":{\"room\":\"kitchen\"}},\"arm\":{\"name\":\"wait\",\"arguments\":{}}}}"}]}`

var declared = []protocol.Raw{
	protocol.Raw(`{"name":"go","description":"Go to a room.","parameters":{"type":"object","properties":{"room":{"type":"string"}},"required":["room"]}}`),
	protocol.Raw(`{"name":"wait","description":"Do nothing.","parameters":{}}`),
}

func TestTheChatTemplateRendersWhatTheAgentRenders(t *testing.T) {
	f, k := native(t)
	for _, tc := range []struct {
		rule, memory, instruction, attributes, author string
		tools                                         []protocol.Raw
	}{
		{"a first instruction", `{}`, "Hello", `{}`, protocol.InstructionUser, nil},
		{"an instruction with tools", `{}`, "Go", `{"known_robots":["rover","arm"]}`, protocol.InstructionUser, declared},
		{"results of several robots amid a task", dialogue, "rover: You are in the kitchen.", `{}`, protocol.InstructionEnv, declared},
		{"a person who breaks into a task", dialogue, "Stop!", `{"known_robots":["rover"]}`, protocol.InstructionUser, declared},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			m, problems := memory.Parse(protocol.Raw(tc.memory), f.StateKey())
			if len(problems) > 0 {
				t.Fatal(problems.All())
			}
			attributes := protocol.Raw(tc.attributes)
			set, err := tools.Normalise(tc.tools, tools.KnownRobots(attributes), "robot")
			if err != nil {
				t.Fatal(err)
			}
			in := &protocol.AgentInput{Attributes: attributes, Tools: tc.tools}
			in.Instruction = protocol.AgentInstruction{Type: tc.author, Content: tc.instruction}
			prompt, err := f.Render(&format.Input{Request: in, Memory: m, Catalog: f.Catalog(set)})
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, p := range prompt.Segments {
				got.WriteString(p.Text)
			}
			vars := `{"messages":` + string(prompt.Messages) + `,"tools":` + string(prompt.Tools) + `,"add_generation_prompt":true}`
			want, err := k.RenderTemplate([]byte(vars))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Errorf("template (-) and agent (+) differ:\n%s", diff)
			}
			if strings.Contains(want, "<think>") {
				t.Error("there is a block for thoughts")
			}
		})
	}
}
