package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"agentd/llama"
	"agentd/scheduler/generation"
)

// GenerateAll submits requests together and in order, so that an idle engine always computes
// the same requests in the same steps. It calls done once for each request as it ends, from any
// goroutine, and returns after the last call. An error is that of the whole request: one of
// package generation, that of ctx, or any other if the computation failed.
func (a *Admission) GenerateAll(ctx context.Context, requests []generation.Request, done func(i int, r *generation.Result, err error)) {
	var all sync.WaitGroup
	for i, handle := range a.Submit(ctx, requests) {
		all.Go(func() {
			r, err := handle.Wait(ctx)
			if gone := ctx.Err(); gone != nil && (err != nil || errors.Is(gone, context.Canceled)) {
				r, err = nil, gone
			}
			if err != nil {
				done(i, nil, public(err))
				return
			}
			for k := range r.Completions {
				r.Completions[k].Err = public(r.Completions[k].Err)
			}
			done(i, r, nil)
		})
	}
	all.Wait()
}

// public turns errors of package llama into those of package generation, which callers without cgo
// can recognize.
func public(err error) error {
	switch {
	case errors.Is(err, llama.ErrClosed):
		return generation.ErrClosed
	case errors.Is(err, llama.ErrGrammar), errors.Is(err, llama.ErrGrammarDead):
		return fmt.Errorf("%w: %w", generation.ErrGrammar, err)
	}
	return err
}
