package suite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"agentd/bench/ceiling"
)

// A setting is given up when it takes patience times as long as the best so far, and
// patienceLeast longer, for the start of a server.
const (
	patience      = 1.5
	patienceLeast = 5 * time.Second
)

// tune finds the best setting of llama-server with the first turns of the trace, and
// the best KV cache of llama-batched-bench.
func (s *session) tune(ctx context.Context, m *Measured) (err error) {
	bestRate := 0.0
	var best Setting
	round := func(list []Setting) error {
		for _, setting := range list {
			s.best = setting
			began := time.Now()
			full, err := s.run(ctx, armServer, s.paths.tune, fmt.Sprintf("%s-tune-%d", s.Name, len(m.Tuning)+1))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			tried := Tried{Setting: setting}
			if err != nil {
				tried.Error = err.Error()
			} else {
				tried.Decisions = full.Summary.DecisionRate
			}
			m.Tuning = append(m.Tuning, tried)
			if tried.Decisions.X > bestRate {
				bestRate, best = tried.Decisions.X, setting
				// What takes that much longer can't become the best.
				s.limit = min(runLimit, time.Duration(patience*float64(time.Since(began)))+patienceLeast)
			}
			s.say("llama-server %s: %.2f decisions/s %s", setting, tried.Decisions.X, tried.Error)
		}
		return nil
	}
	for i, settings := range s.rounds() {
		if i > 0 && (bestRate == 0 || s.Quick) {
			break
		}
		if err := round(settings(best)); err != nil {
			return err
		}
	}
	s.limit = 0
	if bestRate == 0 {
		return fmt.Errorf("llama-server answered with no setting; the last one: %s", m.Tuning[len(m.Tuning)-1].Error)
	}
	s.best, m.Best = best, best
	load := ceiling.Load{Decisions: s.counts.Candidates, Unique: s.counts.UniqueTokens, Generated: s.counts.Candidates * s.outputTokens()}
	m.Batched, err = s.tuneBatched(ctx, s.meanPrompt(), true, min(s.outputTokens(), ceilingTokens), s.widths(), load)
	return err
}

// tuneBatched finds the cache with which llama-batched-bench would be done first with a
// load. One with which it fails is no candidate, unless it fails with all of them.
func (s *session) tuneBatched(ctx context.Context, prompt int, shared bool, output int, widths []int, load ceiling.Load) (best ceiling.Cache, err error) {
	fastest := 0.0
	for _, cache := range caches() {
		rows, failed := s.bench(ctx, prompt, shared, output, widths, cache)
		if ctx.Err() != nil {
			return best, context.Cause(ctx)
		}
		var speeds ceiling.Speeds
		if failed == nil {
			speeds, failed = ceiling.Fastest(rows, slices.Max(widths))
		}
		if failed != nil {
			s.say("llama-batched-bench %s: %s", cache, failed)
			err = failed
			continue
		}
		rate := speeds.Decisions(load)
		s.say("llama-batched-bench %s: ideal %.2f decisions/s", cache, rate)
		if rate > fastest {
			fastest, best = rate, cache
		}
	}
	if fastest > 0 {
		return best, nil
	}
	return best, err
}
