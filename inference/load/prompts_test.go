package load

import (
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/protocol"
)

func TestClosedPromptsFreeTheirVocabulary(t *testing.T) {
	path, err := synth.Tiny("", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	p, err := OpenPrompts(t.Context(), Config{Path: path, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	in := protocol.AgentInput{
		ID: 1, NumOutputs: 1, Instruction: protocol.AgentInstruction{Type: protocol.InstructionUser, Content: "go"},
		Attributes: protocol.Raw("{}"), Memory: protocol.Raw("{}"), ExtraKeys: protocol.Raw("{}"),
	}
	if prompt, err := p.Prompt(t.Context(), in); err != nil || len(prompt.Tokens) == 0 {
		t.Errorf("%d tokens, %v", len(prompt.Tokens), err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Llama.Free(); !errors.Is(err, llama.ErrClosed) {
		t.Errorf("the model was not freed: %v", err)
	}
}
