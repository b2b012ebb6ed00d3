package inference

import (
	"cmp"
	"context"
	"time"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/scheduler/generation"
	"agentd/server/openai"
)

var (
	_ openai.Provider = (*Service)(nil)
	_ openai.Model    = openAIModel{}
)

// openAIModel is a Service for one request of OpenAI's API.
type openAIModel struct {
	*Service
	using agent.Adapters
}

// OpenAI implements openai.Provider.
func (s *Service) OpenAI() (m openai.Model, release func()) {
	using, end := s.useAdapters()
	return openAIModel{s, using}, end
}

// Adapter implements openai.Model.
func (m openAIModel) Adapter(name string) (generation.AdapterID, bool) {
	a, ok := m.using.Adapter(name)
	return a.ID, ok
}

// Adapters implements openai.Model.
func (m openAIModel) Adapters() []string { return m.using.Names() }

// created is when models of this process were loaded, for OpenAI's answers.
var created = time.Now().Unix()

// Served implements openai.Model.
func (s *Service) Served() openai.Served {
	v := vocabulary{model: s.model}
	return openai.Served{
		Name: s.modelName(), Window: s.Window(), Longest: s.info.MaxNewTokens, Ends: v.Ends(),
		Size: s.model.Vocab().Size(), Sampling: s.info.Sampling, Created: created,
	}
}

// modelName is the model's name for clients of OpenAI's API and for traces.
func (s *Service) modelName() string { return cmp.Or(s.info.Name, s.info.Architecture) }

// Tokenize implements openai.Model. A text that certainly is no prompt of this model is refused,
// since llama.cpp takes some fifty times its bytes of memory for it.
func (s *Service) Tokenize(text string, special bool) ([]generation.Token, error) {
	if least := len(text) / s.model.Vocab().LongestPiece(); least > s.Window() {
		return nil, &generation.OverflowError{Prompt: least, MaxNew: 1, Limit: s.Window(), AtLeast: true}
	}
	return s.model.Vocab().Tokenize(text, special, special)
}

// Detokenize implements openai.Model.
func (s *Service) Detokenize(ids []generation.Token) string {
	return s.model.Vocab().Detokenize(ids, true)
}

// Generate implements openai.Model. The request waits in the same queue as the candidates of
// inputs.
func (s *Service) Generate(ctx context.Context, r *generation.Request, admitted func()) (result *generation.Result, err error) {
	admission, err := s.engine.Admit(r.N)
	if err != nil {
		return nil, err
	}
	defer admission.Release()
	if admitted != nil {
		admitted()
	}
	admission.GenerateAll(ctx, []generation.Request{*r}, func(_ int, got *generation.Result, failed error) { result, err = got, failed })
	return result, err
}

// Chat implements openai.Model.
func (s *Service) Chat(ctx context.Context, c *format.Chat) (*generation.Request, openai.Reader, error) {
	return s.agent.Chat(ctx, c)
}
