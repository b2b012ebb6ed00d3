package live

import (
	"cmp"
	"context"
	"time"

	"agentd/agent/format"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// OpenAIModel is the model for one request of OpenAI's API: an openai.Model.
type OpenAIModel struct {
	*modelVersion
	using *adapterUse
}

// Adapter implements openai.Model.
func (m *OpenAIModel) Adapter(name string) (generation.AdapterID, bool) {
	a, ok := m.using.Adapter(name)
	return a.ID, ok
}

// Adapters implements openai.Model.
func (m *OpenAIModel) Adapters() []string { return m.using.Names() }

// created is when models of this process were loaded, for OpenAI's answers.
var created = time.Now().Unix()

// Served describes the model.
func (v *modelVersion) Served() generation.Served {
	return generation.Served{
		Name: v.Name(), Window: v.Window(), Longest: v.Info.MaxNewTokens, Ends: v.Ends(),
		Size: v.Llama.Vocab().Size(), Sampling: v.Info.Sampling, Created: created, Places: v.queueLimit,
	}
}

// Tokenize implements openai.Model. A text that certainly is not a prompt of this model is refused, since llama.cpp
// takes some fifty times its bytes of memory.
func (v *modelVersion) Tokenize(text string, special bool) ([]generation.Token, error) {
	if least := len(text) / v.Llama.Vocab().LongestPiece(); least > v.Window() {
		return nil, &generation.OverflowError{Prompt: least, MaxNew: 1, Limit: v.Window(), AtLeast: true}
	}
	return v.Llama.Vocab().Tokenize(text, special, special)
}

// Detokenize implements openai.Model.
func (v *modelVersion) Detokenize(ids []generation.Token) string {
	return v.Llama.Vocab().Detokenize(ids, true)
}

// Piece implements openai.Model.
func (v *modelVersion) Piece(id generation.Token) []byte { return v.Llama.Vocab().Piece(id, true) }

// Generate implements openai.Model. The request waits in the same queue as the candidates of inputs.
func (m *OpenAIModel) Generate(ctx context.Context, r *generation.Request, admitted func()) (*generation.Result, error) {
	results, err := m.GenerateAll(ctx, []generation.Request{*r}, admitted)
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// GenerateAll completes prompts of one priority together. All are admitted or none. Where some fail, the error is that of
// the first.
func (m *OpenAIModel) GenerateAll(ctx context.Context, list []generation.Request, admitted func()) ([]*generation.Result, error) {
	n := 0
	for i := range list {
		n += list[i].N
	}
	admission, release, err := m.admit(n, list[0].Priority, m.using)
	if err != nil {
		return nil, err
	}
	defer release()
	if admitted != nil {
		admitted()
	}
	results, errs := make([]*generation.Result, len(list)), make([]error, len(list))
	admission.GenerateAll(ctx, list, func(i int, r *generation.Result, err error) { results[i], errs[i] = r, err })
	return results, cmp.Or(errs...)
}

// Choice makes the request for the probabilities of answers to a conversation, see agent.Agent.Choice.
func (v *modelVersion) Choice(ctx context.Context, c *format.Chat, answers []protocol.AgentDecision, whole bool) (*generation.Request, error) {
	return v.Agent.Choice(ctx, c, answers, whole)
}

// Chat implements openai.Model.
func (v *modelVersion) Chat(ctx context.Context, c *format.Chat) (*generation.Request, format.Reader, error) {
	return v.Agent.Chat(ctx, c)
}
