package load

import (
	"time"

	"agentd/agent"
	"agentd/llama"
)

// toolkit implements agent.ModelAPI with a loaded model.
type toolkit struct {
	template *llama.Template // nil if the model has none
	special  []string
	today    time.Time
}

var _ agent.ModelAPI = (*toolkit)(nil)

// newToolkit makes the toolkit of a model. To templates the date is always that of now: otherwise prompts would
// change at midnight, and miss the prefix cache.
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
