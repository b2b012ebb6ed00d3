package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/coaching/backend"
	"agentd/llama"
	"agentd/scheduler/generation"
)

// Ask is Service.Ask with this version.
func (v *modelVersion) Ask(ctx context.Context, q backend.Question) (backend.Answer, error) {
	using := &adapterUse{on: v}
	defer using.end()
	var adapter agent.Adapter
	if q.Adapter != "" {
		var ok bool
		if adapter, ok = using.Adapter(q.Adapter); !ok {
			return backend.Answer{}, &backend.Error{Kind: backend.KindRefused, Detail: "extra_keys.adapter of the step names no adapter of this server; " + agent.KnownAdapters(using)}
		}
	}
	question := agent.Question{Adapter: adapter.ID, Chat: format.Chat{System: q.System, Schema: q.Exact}, MaxTokens: cmp.Or(q.MaxTokens, backend.DefaultMaxTokens)}
	if question.Schema == nil {
		question.Schema = q.Schema
	}
	for _, m := range q.Messages {
		question.Messages = append(question.Messages, format.ChatMessage{Model: m.Role == backend.RoleAssistant, Text: m.Text})
	}
	ask := func() (agent.Answer, error) {
		admission, release, err := v.admit(1, 0, using)
		if err != nil {
			return agent.Answer{}, err
		}
		defer release()
		return v.Agent.Ask(ctx, question, admission)
	}
	answer, err := ask()
	var overflow *generation.OverflowError
	if errors.As(err, &overflow) && overflow.Limit-overflow.Prompt >= minLocalAnswer {
		question.MaxTokens = overflow.Limit - overflow.Prompt // nothing was generated yet
		answer, err = ask()
	}
	if answer.Latency != nil {
		v.latency.observe(ctx, answer.Latency)
	}
	if ctx.Err() != nil {
		return backend.Answer{}, ctx.Err()
	}
	return backend.Answer{
		Text: answer.Text, Mode: backend.ModeSchema,
		PromptTokens: answer.PromptTokens, CompletionTokens: answer.Tokens,
	}, asBackendError(err)
}

// asBackendError maps an error of the agent or the engine to one of a coaching backend.
func asBackendError(err error) error {
	var full *generation.QueueFullError
	var busy *generation.BusyError
	var overflow *generation.OverflowError
	var truncated *agent.TruncatedError
	e := &backend.Error{Kind: backend.KindRefused, Err: err}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &full):
		e.Kind, e.RetryAfter, e.Detail = backend.KindBusy, full.RetryAfter, "this server: "+full.Error()
	case errors.Is(err, generation.ErrPaused):
		e.Kind, e.Detail = backend.KindBusy, err.Error()
	case errors.As(err, &busy):
		e.Kind, e.RetryAfter, e.Detail = backend.KindBusy, busy.RetryAfter, busy.Reason
	case errors.Is(err, generation.ErrClosed), errors.Is(err, llama.ErrClosed):
		e.Kind, e.Detail = backend.KindClosed, "this server is shutting down"
	case errors.As(err, &overflow):
		e.Detail = fmt.Sprintf("the question has %s tokens, which with an answer of %d do not fit the %d tokens of this server's context (context_length)",
			overflow.Count(), overflow.MaxNew, overflow.Limit)
	case errors.As(err, &truncated):
		e.Kind, e.Detail = backend.KindTruncated, truncated.Error()
	case errors.Is(err, generation.ErrGrammar):
		e.Detail = err.Error()
	default:
		e.Kind, e.Detail = backend.KindFailed, "this server's model failed: "+err.Error()
	}
	return e
}
