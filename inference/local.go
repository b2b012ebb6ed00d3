package inference

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/coaching/backend"
	"agentd/llama"
	"agentd/scheduler"
)

var _ backend.Local = (*Service)(nil)

// Window is how many tokens a prompt and its answer may have together.
func (s *Service) Window() int {
	window := s.facts.ContextLength
	if s.facts.TrainedContext > 0 {
		window = min(window, s.facts.TrainedContext)
	}
	return window
}

// Ask puts a question of coaching to the model: one deterministic answer, which
// the exact schema constrains. It waits in the same queue as the candidates of
// requests.
func (s *Service) Ask(ctx context.Context, q backend.Question) (backend.Answer, error) {
	ticket, err := s.engine.Admit(1)
	if err != nil {
		return backend.Answer{}, asBackendError(err)
	}
	defer ticket.Release()
	g := s.generator(ticket)

	question := agent.Question{Chat: format.Chat{System: q.System}, Schema: q.Exact, MaxTokens: cmp.Or(q.MaxTokens, backend.DefaultMaxTokens)}
	if question.Schema == nil {
		question.Schema = q.Schema
	}
	for _, m := range q.Messages {
		question.Messages = append(question.Messages, format.ChatMessage{Model: m.Role == backend.RoleAssistant, Text: m.Text})
	}
	answer, err := s.agent.Ask(ctx, question, g)
	var overflow *agent.ContextOverflowError
	if errors.As(err, &overflow) && overflow.Limit-overflow.Prompt >= minLocalAnswer {
		question.MaxTokens = overflow.Limit - overflow.Prompt // refused before anything was generated
		answer, err = s.agent.Ask(ctx, question, g)
	}
	if ctx.Err() != nil {
		return backend.Answer{}, ctx.Err()
	}
	return backend.Answer{
		Text: answer.Text, Mode: backend.ModeSchema,
		PromptTokens: answer.PromptTokens, CompletionTokens: answer.Tokens,
	}, asBackendError(err)
}

// asBackendError says what an error of the agent or the engine means to coaching.
func asBackendError(err error) error {
	var full *scheduler.QueueFullError
	var overflow *agent.ContextOverflowError
	var truncated *agent.TruncatedError
	var grammar *agent.GrammarError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &full):
		return &backend.Error{
			Kind: backend.KindBusy, RetryAfter: full.RetryAfter, Err: err,
			Detail: "this server's queue is full (queue_limit)",
		}
	case errors.Is(err, scheduler.ErrClosed), errors.Is(err, agent.ErrClosed), errors.Is(err, llama.ErrClosed):
		return &backend.Error{Kind: backend.KindClosed, Detail: "this server is shutting down", Err: err}
	case errors.As(err, &overflow):
		return &backend.Error{
			Kind: backend.KindRefused, Err: err,
			Detail: fmt.Sprintf("the question has %s tokens, which with an answer of %d do not fit this server's model: its context has %d (context_length)",
				overflow.Count(), overflow.MaxNew, overflow.Limit),
		}
	case errors.As(err, &truncated):
		return &backend.Error{Kind: backend.KindTruncated, Detail: truncated.Error(), Err: err}
	case errors.As(err, &grammar):
		return &backend.Error{Kind: backend.KindRefused, Detail: grammar.Error(), Err: err}
	}
	return &backend.Error{Kind: backend.KindFailed, Detail: "this server's model failed: " + err.Error(), Err: err}
}
