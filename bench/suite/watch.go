package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/bench/result"
	"agentd/bench/target"
)

// watchEvery is often enough to see a window of some steps, and costs the server
// little.
const watchEvery = 20 * time.Millisecond

// moment is what a server had counted at a time.
type moment struct {
	target.Counters
	at time.Duration
}

// watch reads a server's counters all the time.
type watch struct {
	quit chan struct{}
	done chan struct{}
	seen []moment
	err  error
}

func watching(ctx context.Context, t target.Target) *watch {
	w := &watch{quit: make(chan struct{}), done: make(chan struct{})}
	go w.run(ctx, t)
	return w
}

func (w *watch) run(ctx context.Context, t target.Target) {
	defer close(w.done)
	every := time.NewTicker(watchEvery)
	defer every.Stop()
	began := time.Now()
	for {
		sent := time.Since(began)
		c, err := t.Counters(ctx)
		if err != nil {
			w.err = err
			return
		}
		// The counters are those of a time between asking and the answer.
		w.seen = append(w.seen, moment{c, (sent + time.Since(began)) / 2})
		select {
		case <-w.quit:
			return
		case <-ctx.Done():
			w.err = context.Cause(ctx)
			return
		case <-every.C:
		}
	}
}

// stop ends the watch and gives what was seen.
func (w *watch) stop() ([]moment, error) {
	close(w.quit)
	<-w.done
	return w.seen, w.err
}

// whole is the longest window in which so many sequences decode and nothing else
// happens, from its first to its last moment. It has some steps, or there is none.
func whole(seen []moment, width int) (from, to moment, ok bool) {
	for i := 0; i < len(seen); i++ {
		k := i
		for k < len(seen) && int(seen[k].Running) == width && seen[k].Prefilled == seen[i].Prefilled {
			k++
		}
		if k-i < 2 {
			continue
		}
		a, b := seen[i], seen[k-1]
		if b.Steps-a.Steps >= windowSteps && b.Generated > a.Generated && b.at-a.at > to.at-from.at {
			from, to, ok = a, b, true
		}
		i = k - 1
	}
	return from, to, ok
}

// windowSteps make a window: fewer are no measurement.
const windowSteps = 4

// constrainedSteps holds the time of a step at full width with a grammar against the
// time without, of the same prompts: on two servers, in turns. It is the time for each
// generated token of a candidate, so that tokens which the grammar forces, and which
// may come several in a step, count for what they are.
func (s *session) constrainedSteps(ctx context.Context, m *Measured) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runLimit, fmt.Errorf("the steps took longer than %s", runLimit))
	defer cancel()
	p := s.probe()
	p.passes *= 2
	list, err := s.fresh(ctx, p.passes, seedConstrained, false)
	if err != nil {
		return err
	}
	free, stopFree, err := s.agent(ctx, p.tokens, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopFree()) }()
	bound, stopBound, err := s.agent(ctx, 0, p.tokens)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopBound()) }()
	var each [2][]float64 // seconds for each token, without and with
	for range p.passes {
		turn := list.take(p.width)
		for i, t := range []target.Target{free, bound} {
			o := target.Options{FixedTokens: p.tokens, Seed: 1}
			if i == 1 {
				o = target.Options{MaxTokens: p.tokens, Seed: 1}
			}
			w := watching(ctx, t)
			_, err := t.Ask(ctx, turn, o)
			seen, watchErr := w.stop()
			if err = errors.Join(err, watchErr); err != nil {
				return err
			}
			if from, to, ok := whole(seen, p.width); ok {
				each[i] = append(each[i], (to.at-from.at).Seconds()/(to.Generated-from.Generated))
			}
		}
	}
	if len(each[0]) == 0 || len(each[1]) == 0 {
		s.say("constrained steps: no answer was long enough to see %d steps at width %d", windowSteps, p.width)
		return nil
	}
	m.Constrained = result.Known(mid(each[0]) / mid(each[1]))
	return nil
}
