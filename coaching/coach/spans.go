package coach

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"agentd/coaching/backend"
	"agentd/internal/base/tracing"
	"agentd/protocol"
)

// model is one backend, whose tries have spans.
type model struct {
	backend.Backend
	def protocol.CoachingBackend
}

// Ask makes one try in its own span. The endpoint gets no trace context, since a client chose it.
func (m *model) Ask(ctx context.Context, q backend.Question) (backend.Answer, error) {
	ctx, span := tracing.Start(ctx, "chat "+m.def.DefaultModel, trace.WithSpanKind(trace.SpanKindClient))
	if !span.IsRecording() {
		return m.Backend.Ask(ctx, q)
	}
	defer span.End()
	provider := m.Type() // openai, ollama and anthropic are names of the conventions or like them
	if provider == protocol.BackendLocal {
		provider = "agentd"
	}
	span.SetAttributes(semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(provider),
		semconv.GenAIRequestModel(m.def.DefaultModel), attribute.String("agentd.coach", m.Name()))
	span.SetAttributes(server(m.def.Endpoint)...)
	answer, err := m.Backend.Ask(ctx, q)
	if err != nil {
		failSpan(span, err)
		return answer, err
	}
	span.SetAttributes(semconv.GenAIResponseModel(answer.Model),
		semconv.GenAIUsageInputTokens(answer.PromptTokens), semconv.GenAIUsageOutputTokens(answer.CompletionTokens))
	return answer, nil
}

// tracedPeople waits for the people at an endpoint, in its own span.
func tracedPeople(ctx context.Context, endpoint string, wait func(context.Context) (Reply, error)) (Reply, error) {
	ctx, span := tracing.Start(ctx, "ask person", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	given, err := wait(ctx)
	if !span.IsRecording() {
		return given, err
	}
	span.SetAttributes(server(endpoint)...)
	span.SetAttributes(attribute.String("agentd.coach", protocol.ProviderHuman))
	switch {
	case err != nil:
		failSpan(span, err)
	case given.Status == protocol.CoachingFailed:
		tracing.Fail(span, given.Status, "")
	}
	return given, err
}

// server returns the host and port of an endpoint; the rest of the URL may contain a key.
func server(endpoint string) (list []attribute.KeyValue) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	list = append(list, semconv.ServerAddress(u.Hostname()))
	if port, err := strconv.Atoi(u.Port()); err == nil {
		list = append(list, semconv.ServerPort(port))
	}
	return list
}

// failSpan marks the span of a failed try. It adds no text of the endpoint.
func failSpan(span trace.Span, err error) {
	var failure *backend.Error
	switch {
	case errors.As(err, &failure):
		tracing.Fail(span, string(failure.Kind), "")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		tracing.Fail(span, "cancelled", "")
	default:
		tracing.Fail(span, "", "")
	}
}
