package suite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	for last := false; ; {
		sent := time.Since(began)
		c, err := t.Counters(ctx)
		if err != nil {
			w.err = err
			return
		}
		// The counters are those of a time between asking and the answer.
		w.seen = append(w.seen, moment{c, (sent + time.Since(began)) / 2})
		if last {
			return
		}
		select {
		case <-w.quit:
			// Once more: since the last time some steps may have been done, of a fast
			// model nearly all of them.
			last = true
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

// window is the longest time in which all moments are as they shall be, from the first to
// the last of them before which a step was done: a time that begins behind a step and ends
// in one would have too few. It has some steps, or there is none.
func window(seen []moment, as func(first, m *moment) bool) (first, last moment, ok bool) {
	for i := 0; i < len(seen); i++ {
		k := i
		for k < len(seen) && as(&seen[i], &seen[k]) {
			k++
		}
		if k-i < 2 {
			continue
		}
		from, to := i, k-1
		for from < to && !stepped(seen, from) {
			from++
		}
		for from < to && !stepped(seen, to) {
			to--
		}
		a, b := seen[from], seen[to]
		if b.Steps-a.Steps >= windowSteps && b.Generated > a.Generated && b.at-a.at > last.at-first.at {
			first, last, ok = a, b, true
		}
		i = k - 1
	}
	return first, last, ok
}

// stepped says whether a step was done between a moment and the one before it.
func stepped(seen []moment, i int) bool { return i > 0 && seen[i].Steps > seen[i-1].Steps }

// decoding is where so many sequences decode and nothing else happens.
func decoding(width int) func(first, m *moment) bool {
	return func(first, m *moment) bool { return int(m.Running) == width && m.Prefilled == first.Prefilled }
}

// busy is where so many sequences or little fewer decode: others begin when some end.
func busy(width int) func(first, m *moment) bool {
	return func(_, m *moment) bool { return int(m.Running) <= width && 8*int(m.Running) >= 7*width }
}

// windowSteps make a window: fewer are no measurement.
const windowSteps = 4

// waves of candidates follow each other in a request, so that the width is full for
// longer than the shortest of them takes.
const waves = 4

// freeTokens of a candidate without a grammar are about as many as with one, so that
// as many candidates begin and end.
const freeTokens = 24

// constrainedSteps holds the time of a step at full width with a grammar against the
// time without, of the same prompts: on two servers, in turns. It is the time for each
// generated token, so that tokens which the grammar forces, and which may come several
// in a step, count for what they are.
func (s *session) constrainedSteps(ctx context.Context, m *Measured) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runLimit, fmt.Errorf("the constrained steps took longer than %s", runLimit))
	defer cancel()
	defer func() { err = because(ctx, err) }()
	p := s.probe()
	list, err := s.fresh(ctx, p.passes, seedConstrained, false)
	if err != nil {
		return err
	}
	parallel := []string{"--parallel", strconv.Itoa(p.width)}
	free, stopFree, err := s.agent(ctx, freeTokens, 0, parallel...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopFree()) }()
	bound, stopBound, err := s.agent(ctx, 0, p.tokens, parallel...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopBound()) }()
	var each [2][]float64 // seconds for each token, without and with
	for range p.passes {
		turn := list.take(waves * p.width)
		for i, t := range []target.Target{free, bound} {
			o := target.Options{FixedTokens: freeTokens, Seed: 1}
			if i == 1 {
				o = target.Options{MaxTokens: p.tokens, Seed: 1}
			}
			w := watching(ctx, t)
			_, err := t.Ask(ctx, turn, o)
			seen, watchErr := w.stop()
			if err = errors.Join(err, watchErr); err != nil {
				return err
			}
			if from, to, ok := window(seen, busy(p.width)); ok {
				each[i] = append(each[i], (to.at-from.at).Seconds()/(to.Generated-from.Generated))
			}
		}
	}
	if len(each[0]) == 0 || len(each[1]) == 0 {
		s.say("constrained steps: never were %d steps at width %d seen", windowSteps, p.width)
		return nil
	}
	m.Constrained = result.Known(mid(each[0]) / mid(each[1]))
	return nil
}
