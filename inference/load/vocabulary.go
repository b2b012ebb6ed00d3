package load

import (
	"fmt"
	"slices"

	"agentd/agent"
	"agentd/llama"
	"agentd/scheduler/generation"
	"agentd/scheduler/remote"
)

// vocabulary implements remote.Model with a model without weights.
type vocabulary struct {
	model *llama.Model
	path  string
}

var _ remote.Model = vocabulary{}

func (v vocabulary) Name() string { return v.path }
func (v vocabulary) Size() int    { return v.model.Vocab().Size() }

func (v vocabulary) Tokenize(text string) ([]generation.Token, error) {
	return v.model.Vocab().Tokenize(text, false, false)
}

func (v vocabulary) Detokenize(ids []generation.Token) string {
	return v.model.Vocab().Detokenize(ids, true)
}
func (v vocabulary) IsEnd(id generation.Token) bool     { return v.model.Vocab().IsEOG(id) }
func (v vocabulary) PlainGrammar(grammar string) string { return agent.PlainGrammar(grammar) }

func (v vocabulary) Ends() []generation.Token { return special(v.model.Vocab(), v.IsEnd) }

func (v vocabulary) Control() []generation.Token {
	return special(v.model.Vocab(), func(id generation.Token) bool { return v.model.Vocab().IsControl(id) && !v.IsEnd(id) })
}

// Ends returns the tokens that end an answer.
func (m *Model) Ends() []generation.Token { return special(m.Llama.Vocab(), m.Llama.Vocab().IsEOG) }

// special returns the special tokens of a vocabulary that wanted accepts.
func special(v *llama.Vocab, wanted func(generation.Token) bool) []generation.Token {
	return slices.DeleteFunc(slices.Clone(v.SpecialTokens()), func(id generation.Token) bool { return !wanted(id) })
}

// Check implements remote.Model with the embedded engine's grammar matcher, so that both kinds of
// engines admit the same answers.
func (v vocabulary) Check(grammar string, ids []generation.Token) (int, error) {
	if at := v.specialInCall(ids); at < len(ids) {
		return at, nil
	}
	sampler, err := v.model.NewSampler(llama.SamplerConfig{Grammar: grammar})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", generation.ErrGrammar, err)
	}
	defer func() { _ = sampler.Close() }()
	for i, id := range ids {
		if err := sampler.Accept(id); err != nil {
			return i, nil
		}
	}
	if ends := v.Ends(); len(ends) > 0 && sampler.Accept(ends[0]) != nil {
		return -1, nil
	}
	return len(ids), nil
}

// specialInCall returns the index of the first special token within a JSON string, len(ids) without one. Engines
// that match grammars by text admit such tokens, since a string may contain their text. Quotes count
// after a brace only, so that quotes in prose do not.
func (v vocabulary) specialInCall(ids []generation.Token) int {
	vocab := v.model.Vocab()
	depth, quoted, escaped := 0, false, false
	for i, id := range ids {
		if quoted && vocab.Attr(id)&(llama.AttrControl|llama.AttrUserDefined) != 0 && !vocab.IsEOG(id) {
			return i
		}
		for _, c := range vocab.Piece(id, true) {
			switch {
			case escaped:
				escaped = false
			case quoted && c == '\\':
				escaped = true
			case c == '"' && depth > 0:
				quoted = !quoted
			case quoted:
			case c == '{':
				depth++
			case c == '}' && depth > 0:
				depth--
			}
		}
	}
	return len(ids)
}
