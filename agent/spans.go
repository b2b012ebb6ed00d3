package agent

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"agentd/internal/base/tracing"
	"agentd/scheduler/generation"
)

// inputSpan is the OpenTelemetry span of an input, from its preparation to its last candidate.
type inputSpan struct {
	trace.Span
	ctx context.Context // the parent of spans of the input's generations
	Usage
}

// Usage has what a span says about its generations.
type Usage struct {
	prompt, cached, generated int // tokens
	finish                    []string
}

// startSpan starts the span of an input. It does nothing if ctx has no recorded span.
func (a *Agent) startSpan(ctx context.Context, in *inputRun) inputSpan {
	s := inputSpan{ctx: ctx}
	s.ctx, s.Span = tracing.Start(ctx, "invoke_agent "+a.cfg.Kind)
	if !s.IsRecording() {
		return s
	}
	s.SetAttributes(semconv.GenAIOperationNameInvokeAgent, semconv.GenAIProviderNameKey.String(a.cfg.Provider),
		semconv.GenAIAgentName(a.cfg.Kind), semconv.GenAIRequestModel(a.cfg.Model),
		semconv.GenAIRequestChoiceCount(in.input.NumOutputs), semconv.GenAIRequestMaxTokens(a.cfg.MaxNewTokens),
		attribute.Int64("agentd.input.id", in.input.ID), attribute.Bool("agentd.input.correction", in.correction != nil))
	if in.correction == nil {
		s.SetAttributes(semconv.GenAIRequestTemperature(float64(a.sampling(in.greedy).Temperature)))
	}
	return s
}

// Add adds the tokens and finish reasons of a generation.
func (u *Usage) Add(r *generation.Result) {
	u.prompt += r.PromptTokens
	u.cached += r.CachedTokens
	for i := range r.Completions {
		c := &r.Completions[i]
		u.generated += len(c.Tokens)
		u.finish = append(u.finish, string(c.Finish))
	}
}

// Set sets the attributes of a span, if there was a generation.
func (u *Usage) Set(s trace.Span) {
	if u.finish != nil {
		s.SetAttributes(semconv.GenAIUsageInputTokens(u.prompt), semconv.GenAIUsageCacheReadInputTokens(u.cached),
			semconv.GenAIUsageOutputTokens(u.generated), semconv.GenAIResponseFinishReasons(u.finish...))
	}
}

// endSpan ends the span of an input whose candidates are made. A second call does nothing.
func (in *inputRun) endSpan() {
	s := &in.span
	if s.Span == nil || !s.IsRecording() {
		return
	}
	s.Set(s)
	failed := 0
	for i := range in.out {
		if in.out[i].Error != nil {
			failed++
		}
	}
	s.SetAttributes(attribute.Int("agentd.candidates.failed", failed))
	switch {
	case in.ended != nil:
		tracing.Fail(s, "ended", "")
	case failed > 0 && failed == len(in.out):
		tracing.Fail(s, in.out[0].Error.Code, "")
	}
	s.End()
}
