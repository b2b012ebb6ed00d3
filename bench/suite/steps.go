package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"agentd/bench/ceiling"
	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// probe is how a model's single steps are measured.
type probe struct {
	width  int // candidates that decode at once
	tokens int // of each
	passes int // of which the median is taken
	pairs  int // of TTFT of few and many candidates
}

// few is the smaller number of candidates whose TTFT is held against that of many.
const few, many = 1, 8

func (s *session) probe() probe {
	p := probe{width: 32, tokens: 128, passes: 5, pairs: 12}
	switch s.Shape {
	case "tiny":
		p = probe{32, 64, 3, 12}
	case "0.6b":
		p = probe{8, 16, 3, 3}
	}
	if s.Quick {
		p.passes, p.pairs = 1, min(p.pairs, 4)
	}
	return p
}

// steps measures what one request, one step and one token take.
func (s *session) steps(ctx context.Context, m *Measured) error {
	if s.FixedTokens > 0 {
		s.say("lockstep, staggered, TTFT, KV cells")
		if err := s.fixedSteps(ctx, m); err != nil {
			return err
		}
	}
	if s.FixedTokens == 0 || s.Shape == "tiny" { // trained and random weights
		s.say("constrained and unconstrained steps")
		return s.constrainedSteps(ctx, m)
	}
	return nil
}

// agent starts an agentd for a probe, with further options, and gives its target. Both end with the
// returned function.
func (s *session) agent(ctx context.Context, fixed, most int, more ...string) (*target.Agentd, func() error, error) {
	w := *s.Workload
	w.FixedTokens, w.MaxTokens = fixed, most
	usual := w.agentdArgs(s.Options)
	server, err := start(ctx, armAgentd, s.Agentd, func(host, port string) []string { return append(usual(host, port), more...) })
	if err != nil {
		return nil, nil, err
	}
	t, err := target.NewAgentd(server.url)
	if err != nil {
		return nil, nil, errors.Join(err, server.stop())
	}
	return t, func() error { return errors.Join(t.Close(), server.stop()) }, nil
}

// fresh are prompts of the trace's kind and length that no server has seen and that
// share nothing but the template's beginning. With short they have few words.
func (s *session) fresh(ctx context.Context, n int, seed uint64, short bool) (*prompts, error) {
	o := s.Trace
	o.Seed, o.Agents, o.Groups, o.Turns, o.Candidates = seed, n, n, 1, 1
	if short {
		o = workload.Defaults(workload.Synthetic)
		o.Seed, o.Agents, o.Groups, o.Turns, o.Candidates = seed, n, n, 1, 1
		o.Tools, o.SystemWords, o.ObservationWords = 0, 10, 10
	}
	trace, err := s.rendered(ctx, o)
	if err != nil {
		return nil, err
	}
	p := &prompts{turns: trace.Turns}
	for i := range p.turns {
		p.tokens += len(p.turns[i].Tokens)
	}
	p.tokens /= n
	return p, nil
}

// prompts are taken one after the other.
type prompts struct {
	turns  []workload.Turn
	tokens int // of one, the mean
}

// take is the next one, for so many candidates.
func (p *prompts) take(candidates int) *workload.Turn {
	t := &p.turns[0]
	p.turns = p.turns[1:]
	t.Candidates = candidates
	return t
}

// Seeds of prompts, apart from those of the traces.
const (
	seedFresh = warmSeed + 1 + iota
	seedShort
	seedConstrained
)

// fixedSteps measures answers of a fixed length, on one server, agentd and
// llama-batched-bench in turns.
func (s *session) fixedSteps(ctx context.Context, m *Measured) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepsLimit, fmt.Errorf("the steps of a fixed length took longer than %s", stepsLimit))
	defer cancel()
	defer func() { err = because(ctx, err) }()
	p := s.probe()
	long, err := s.fresh(ctx, 1+p.passes+2*p.pairs, seedFresh, false)
	if err != nil {
		return err
	}
	short, err := s.fresh(ctx, p.width, seedShort, true)
	if err != nil {
		return err
	}
	agent, stop, err := s.agent(ctx, p.tokens, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	// The first request finds an empty cache, so that all cells are its own.
	prompt := long.take(p.width)
	peak, _, err := s.lockstep(ctx, agent, prompt, p, true)
	if err != nil {
		return err
	}
	m.Cells = result.Known(peak / float64(len(prompt.Tokens)+p.width*p.tokens))
	m.Probe = Probe{Width: p.width, Tokens: p.tokens, Prompt: long.tokens, Short: short.tokens}

	// Neither need the cache that is best for the whole trace be so here.
	load := ceiling.Load{Decisions: p.width, Generated: p.width * p.tokens}
	if m.Abreast, err = s.tuneBatched(ctx, long.tokens, true, p.tokens, []int{p.width}, load); err != nil {
		return err
	}
	if m.Apart, err = s.tuneBatched(ctx, short.tokens, false, p.tokens, []int{p.width}, load); err != nil {
		return err
	}
	var lock, stag, batchedLock, batchedStag []float64
	var cost stepCost
	for range p.passes {
		// Its prompt is computed beforehand: the steps that are counted are those of all candidates.
		turn := long.take(few)
		if _, err := ask(ctx, agent, turn, p.tokens); err != nil {
			return err
		}
		turn.Candidates = p.width
		before, err := agent.Counters(ctx)
		if err != nil {
			return err
		}
		_, rate, err := s.lockstep(ctx, agent, turn, p, false)
		if err != nil {
			return err
		}
		after, err := agent.Counters(ctx)
		if err != nil {
			return err
		}
		cost.add(&before, &after)
		lock = append(lock, rate)
		rows, err := s.bench(ctx, long.tokens, true, p.tokens, []int{p.width}, m.Abreast)
		if err != nil {
			return err
		}
		batchedLock = append(batchedLock, rows[0].DecodeRate)
	}
	m.Host, m.Sample, m.Decode = cost.of("plan", "commit"), cost.of("sample"), cost.of("decode")

	// All have begun after an eighth of the time that a wave takes at full width,
	// tokens·width/rate: steps are faster while there are few, and the first one must not
	// have ended.
	gap := time.Duration(float64(p.tokens) / mid(lock) / 8 * float64(time.Second))
	m.Lockstep = result.Known(mid(lock) / mid(batchedLock))

	for i := range p.passes + 1 {
		rate, ok, err := s.staggered(ctx, agent, short.turns, p, gap)
		if err != nil {
			return err
		}
		if i == 0 || !ok {
			continue // the first one brings the prompts into the cache
		}
		stag = append(stag, rate)
		rows, err := s.bench(ctx, short.tokens, false, p.tokens, []int{p.width}, m.Apart)
		if err != nil {
			return err
		}
		batchedStag = append(batchedStag, rows[0].DecodeRate)
	}
	if len(stag) > 0 {
		m.Staggered = result.Known(mid(stag) / mid(batchedStag))
	} else {
		s.say("the staggered requests were never all at work; does agentd decode fewer than %d candidates at once (--parallel)?", p.width)
	}

	var ttft [2][]float64
	for range p.pairs {
		for i, candidates := range []int{few, many} {
			a, err := ask(ctx, agent, long.take(candidates), p.tokens)
			if err != nil {
				return err
			}
			ttft[i] = append(ttft[i], a.First.Seconds())
		}
	}
	m.ManyTTFT = result.Known(mid(ttft[1]) / mid(ttft[0]))
	return nil
}

// because is an error, with what ended the context where that was it.
func because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// stepCost sums what the parts of steps took.
type stepCost struct {
	steps float64
	parts map[string]float64 // seconds
}

func (c *stepCost) add(before, after *target.Counters) {
	if c.parts == nil {
		c.parts = map[string]float64{}
	}
	c.steps += after.Steps - before.Steps
	for part := range after.Phases {
		c.parts[part] += after.Phases[part] - before.Phases[part]
	}
}

// of is what parts of one step took, in microseconds.
func (c *stepCost) of(parts ...string) result.Value {
	sum := 0.0
	for _, part := range parts {
		sum += c.parts[part]
	}
	return result.Known(sum * 1e6).Over(result.Known(c.steps))
}

// ask asks one turn and wants all of its tokens.
func ask(ctx context.Context, t target.Target, turn *workload.Turn, fixed int) (target.Answer, error) {
	a, err := t.Ask(ctx, turn, target.Options{FixedTokens: fixed, Seed: 1})
	if err == nil && a.First <= 0 {
		err = errors.New("agentd does not tell when the first token was there (Server-Timing)")
	}
	return a, err
}

// lockstep asks for all candidates of one prompt, which decode side by side, and
// gives their rate after the first token: width·(tokens-1)/(E2EL-TTFT). With watched
// it also gives the most cells that were in use, and the rate is that of a server
// that is asked for its counters all the time.
func (s *session) lockstep(ctx context.Context, t target.Target, turn *workload.Turn, p probe, watched bool) (cells, rate float64, err error) {
	var w *watch
	if watched {
		w = watching(ctx, t)
	}
	start := time.Now()
	a, err := ask(ctx, t, turn, p.tokens)
	took := time.Since(start)
	if watched {
		seen, watchErr := w.stop()
		if err = errors.Join(err, watchErr); err == nil {
			cells = slices.MaxFunc(seen, func(a, b moment) int { return int(a.CellsUsed - b.CellsUsed) }).CellsUsed
		}
	}
	if err != nil {
		return 0, 0, err
	}
	return cells, float64(p.width*(p.tokens-1)) / (took - a.First).Seconds(), nil
}

// staggered asks for one candidate of each prompt, gap after gap, and gives the rate
// of their tokens while all of them decode, if there was such a time.
func (s *session) staggered(ctx context.Context, t target.Target, turns []workload.Turn, p probe, gap time.Duration) (rate float64, ok bool, err error) {
	w := watching(ctx, t)
	all, ctx := errgroup.WithContext(ctx)
	for i := range turns {
		all.Go(func() error {
			timer := time.NewTimer(time.Duration(i) * gap)
			defer timer.Stop()
			select {
			case <-timer.C:
				_, err := ask(ctx, t, &turns[i], p.tokens)
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
	err = all.Wait()
	seen, watchErr := w.stop()
	if err == nil {
		err = watchErr
	}
	if err != nil {
		return 0, false, err
	}
	from, to, ok := window(seen, decoding(p.width))
	if !ok {
		return 0, false, nil
	}
	return (to.Generated - from.Generated) / (to.at - from.at).Seconds(), true, nil
}

// mid is the median.
func mid(values []float64) float64 {
	slices.Sort(values)
	return result.Percentile(values, 50).X
}
