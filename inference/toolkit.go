package inference

import (
	"strings"
	"time"

	"agentd/agent"
	"agentd/llama"
)

// toolkit gives the agent's formats what they need of the loaded model.
type toolkit struct {
	template *llama.Template // nil when the model has none
	special  []string
	today    time.Time
}

var _ agent.Toolkit = (*toolkit)(nil)

// newToolkit makes the toolkit of a model. Templates that print the date see
// the day of now: a clock that moves would give the same request other prompts
// and empty the prefix cache.
func newToolkit(v *llama.Vocab, template *llama.Template, now time.Time) *toolkit {
	tk := &toolkit{template: template, today: now.Truncate(24 * time.Hour)}
	for _, id := range v.SpecialTokens() {
		tk.special = append(tk.special, string(v.Piece(id, true)))
	}
	return tk
}

// SpecialTokens are the texts that the tokenizer may take for one token.
func (tk *toolkit) SpecialTokens() []string { return tk.special }

// RenderTemplate runs the model's chat template.
func (tk *toolkit) RenderTemplate(vars []byte) (string, error) {
	if tk.template == nil {
		return "", llama.ErrNoTemplate
	}
	parts, err := tk.template.RenderParts(vars, tk.today)
	if err != nil {
		return "", err
	}
	var prompt strings.Builder
	for _, p := range parts {
		prompt.WriteString(p.Text)
	}
	return prompt.String(), nil
}
