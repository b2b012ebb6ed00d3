package live

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"agentd/internal/tracing"
	"agentd/scheduler"
	"agentd/scheduler/generation"
)

// traced is an admission of the embedded engine that makes spans of the phases of each
// generation, from the times of its result.
type traced struct{ *scheduler.Admission }

// GenerateAll implements admission.
func (t traced) GenerateAll(ctx context.Context, requests []generation.Request, done func(i int, r *generation.Result, err error)) {
	if tracing.On(ctx) {
		untraced := done
		done = func(i int, r *generation.Result, err error) {
			if r != nil && !r.Paused() {
				phases(tracing.Under(ctx, requests[i].Context), r)
			}
			untraced(i, r, err)
		}
	}
	t.Admission.GenerateAll(ctx, requests, done)
}

// phases makes the spans queue, prefill and decode of a generation. A phase that did not end by
// itself lasts until the end.
func phases(ctx context.Context, r *generation.Result) {
	t := &r.Times
	tokens := 0
	for i := range r.Completions {
		tokens += len(r.Completions[i].Tokens)
	}
	from := time.Duration(0)
	for _, p := range []struct {
		name       string
		until      time.Duration
		attributes []attribute.KeyValue
	}{
		{"queue", t.Queue, nil},
		{"prefill", t.FirstToken, []attribute.KeyValue{
			attribute.Int("agentd.prompt_tokens", r.PromptTokens), attribute.Int("agentd.cached_tokens", r.CachedTokens),
		}},
		{"decode", t.End, []attribute.KeyValue{
			attribute.Int("agentd.candidates", len(r.Completions)), attribute.Int("agentd.completion_tokens", tokens),
		}},
	} {
		until := p.until
		if until == 0 {
			until = t.End
		}
		tracing.Past(ctx, p.name, t.Submitted.Add(from), t.Submitted.Add(until), p.attributes...)
		if from = until; from == t.End {
			return
		}
	}
}
