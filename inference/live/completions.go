package live

import (
	"context"
	"errors"
	"sync"
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

// created is the field created in OpenAI's answers: Unix time of the process's start.
var created = time.Now().Unix()

// Served implements openai.Model.
func (v *modelVersion) Served() generation.Served {
	return generation.Served{
		Name: v.Name(), Window: v.Window(), Longest: v.Info.MaxNewTokens, Ends: v.Ends(),
		Size: v.Llama.Vocab().Size(), Sampling: v.Info.Sampling, Created: created, Places: v.queueLimit,
		Effort: v.Agent.Effort(), Adapts: v.service.cfg.WeightsDir != "",
	}
}

// Tokenize implements openai.Model. A text that is certainly longer than the context is refused, since llama.cpp
// needs about fifty times its bytes of memory.
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

// GenerateAll implements openai.Model and decide.Model. It admits all requests, which must have the same priority, or
// none, to the queue of the candidates of inputs. The first error cancels the others.
func (m *OpenAIModel) GenerateAll(ctx context.Context, requests []generation.Request, admitted func()) (results []*generation.Result, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if abort := requests[0].Abort; m.Remote != nil && abort != nil { // such engines give nothing of what they have begun
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-abort:
				cancel(generation.ErrPaused)
			case <-stop:
			}
		}()
		defer func() {
			if err != nil && errors.Is(context.Cause(ctx), generation.ErrPaused) {
				err = generation.ErrPaused
			}
		}()
	}
	n := 0
	for i := range requests {
		n += requests[i].N
	}
	admission, release, err := m.admit(n, requests[0].Priority, m.using)
	if err != nil {
		return nil, err
	}
	defer release()
	if admitted != nil {
		admitted()
	}
	var mu sync.Mutex
	results = make([]*generation.Result, len(requests))
	admission.GenerateAll(ctx, requests, func(i int, got *generation.Result, failed error) {
		mu.Lock()
		defer mu.Unlock()
		if results[i] = got; failed != nil && err == nil {
			err = failed
			cancel(nil)
		}
	})
	return results, err
}

// Choice makes the request for the probabilities of answers to a conversation, see agent.Agent.Choice.
func (v *modelVersion) Choice(ctx context.Context, c *format.Chat, answers []protocol.AgentDecision, whole bool) (*generation.Request, error) {
	return v.Agent.Choice(ctx, c, answers, whole)
}

// Chat implements openai.Model.
func (v *modelVersion) Chat(ctx context.Context, c *format.Chat) (*generation.Request, format.Reader, error) {
	return v.Agent.Chat(ctx, c)
}
