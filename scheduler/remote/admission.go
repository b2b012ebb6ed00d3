package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"agentd/internal/tracing"
	"agentd/scheduler/generation"
)

// Admission is a place for the completions of one API request. Its methods are safe for
// concurrent use.
type Admission struct {
	engine *Engine

	mu    sync.Mutex
	holds int
}

// Admit reserves places for all completions of an API request or refuses it with
// *generation.QueueFullError. The engines have queues of their own; this bound keeps one
// agentd from filling them.
func (e *Engine) Admit(completions int) (*Admission, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch limit := e.cfg.QueueLimit; {
	case e.base.Err() != nil:
		return nil, generation.ErrClosed
	case limit > 0 && e.admitted+completions > limit:
		e.refused++
		return nil, &generation.QueueFullError{Asked: completions, Admitted: e.admitted, Limit: limit, RetryAfter: defaultRetryAfter}
	}
	e.admitted += completions
	return &Admission{engine: e, holds: completions}, nil
}

// Keep gives back all places but n. Places of calls in flight are held until Release.
func (a *Admission) Keep(n int) {
	a.mu.Lock()
	given := max(0, a.holds-max(0, n))
	a.holds -= given
	a.mu.Unlock()
	a.engine.mu.Lock()
	a.engine.admitted -= given
	a.engine.mu.Unlock()
}

// Release gives back all places. A second call does nothing.
func (a *Admission) Release() { a.Keep(0) }

// GenerateAll generates the completions of requests at once. It calls done once for each
// request as it ends, from any goroutine, and returns after the last call.
func (a *Admission) GenerateAll(ctx context.Context, requests []generation.Request, done func(i int, r *generation.Result, err error)) {
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			result, err := a.engine.guarded(ctx, &requests[i])
			a.engine.ended(&requests[i], err)
			if err != nil {
				done(i, nil, err)
				return
			}
			done(i, &result, nil)
		})
	}
	all.Wait()
}

// ended counts a request.
func (e *Engine) ended(r *generation.Request, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil:
		e.finished += uint64(r.N)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.cancelled++
	default:
		e.broken++
	}
}

// Totals are counts of all engines together.
type Totals struct {
	Admitted, QueueLimit int    // completions
	Refused              uint64 // admissions
	Finished             uint64 // completions
	Cancelled, Failed    uint64 // requests
	AskedAgain           uint64 // completions that broke their grammar
}

// Totals returns the counts of all engines together.
func (e *Engine) Totals() Totals {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Totals{e.admitted, e.cfg.QueueLimit, e.refused, e.finished, e.cancelled, e.broken, e.again}
}

// guarded makes a panic the error of one request.
func (e *Engine) guarded(ctx context.Context, r *generation.Request) (result generation.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if limit := e.Context(); limit > 0 && len(r.Prompt)+r.MaxTokens > limit {
		return result, &generation.OverflowError{Prompt: len(r.Prompt), MaxNew: r.MaxTokens, Limit: limit}
	}
	return e.traced(ctx, r)
}

// traced is Generate in a span of its own, which the engine continues.
func (e *Engine) traced(ctx context.Context, r *generation.Request) (generation.Result, error) {
	served := e.Served()
	ctx, span := tracing.Start(tracing.Under(ctx, r.Context), "text_completion "+served, trace.WithSpanKind(trace.SpanKindClient))
	if !span.IsRecording() {
		return e.Generate(ctx, r)
	}
	defer span.End()
	span.SetAttributes(semconv.GenAIOperationNameTextCompletion, semconv.GenAIProviderNameKey.String(e.API()),
		semconv.GenAIRequestModel(served), semconv.GenAIRequestChoiceCount(r.N))
	result, err := e.Generate(ctx, r)
	switch {
	case ctx.Err() != nil:
		tracing.Fail(span, "cancelled", "")
		return result, err
	case err != nil:
		tracing.Fail(span, kindOf(err), "")
		return result, err
	}
	tokens := 0
	for i := range result.Completions {
		tokens += len(result.Completions[i].Tokens)
	}
	span.SetAttributes(semconv.GenAIUsageInputTokens(result.PromptTokens), semconv.GenAIUsageOutputTokens(tokens))
	return result, nil
}
