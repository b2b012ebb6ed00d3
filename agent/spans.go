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

	prompt, cached, generated int // tokens of all generations, if the span is recorded
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

// add adds the tokens and finish reasons of a generation.
func (s *inputSpan) add(r *generation.Result) {
	s.prompt += r.PromptTokens
	s.cached += r.CachedTokens
	s.finish = nil // of the last generation: that of the candidates
	for i := range r.Completions {
		c := &r.Completions[i]
		s.generated += len(c.Tokens)
		s.finish = append(s.finish, string(c.Finish))
	}
}

// endSpan ends the span of an input whose candidates are made. A second call does nothing.
func (in *inputRun) endSpan() {
	s := &in.span
	if s.Span == nil || !s.IsRecording() {
		return
	}
	if s.finish != nil {
		s.SetAttributes(semconv.GenAIUsageInputTokens(s.prompt), semconv.GenAIUsageCacheReadInputTokens(s.cached),
			semconv.GenAIUsageOutputTokens(s.generated), semconv.GenAIResponseFinishReasons(s.finish...))
	}
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
