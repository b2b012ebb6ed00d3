package load

import (
	"time"

	"agentd/agent"
	"agentd/llama"
)

// toolkit is the part of the loaded model that prompt formats need.
type toolkit struct {
	template *llama.Template // nil if the model has none
	special  []string
	today    time.Time
}

var _ agent.ModelAPI = (*toolkit)(nil)

// newToolkit makes the toolkit of a model. Templates that print the date always see the day of now.
// Otherwise the prompt of a request would change at midnight, and the prefix cache would miss.
func newToolkit(v *llama.Vocab, template *llama.Template, now time.Time) *toolkit {
	tk := &toolkit{template: template, today: now.Truncate(24 * time.Hour)}
	for _, id := range v.SpecialTokens() {
		tk.special = append(tk.special, string(v.Piece(id, true)))
	}
	return tk
}

// SpecialTokens returns the texts of special tokens.
func (tk *toolkit) SpecialTokens() []string { return tk.special }

// RenderTemplate runs the model's chat template.
func (tk *toolkit) RenderTemplate(vars []byte) (string, error) {
	if tk.template == nil {
		return "", llama.ErrNoTemplate
	}
	return tk.template.Render(vars, tk.today)
}
