package live

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"agentd/internal/base/tracing"
	"agentd/scheduler/generation"
)

// phases makes the spans queue, prefill and decode of a generation from the times of its result. If a later phase
// did not begin, the last one ends with the generation.
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
		until := cmp.Or(p.until, t.End)
		tracing.Past(ctx, p.name, t.Submitted.Add(from), t.Submitted.Add(until), p.attributes...)
		if from = until; from == t.End {
			return
		}
	}
}
