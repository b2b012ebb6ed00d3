package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/bench/load"
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

// TTFT of few candidates is compared with that of many.
const few, many = 1, 8

func (s *session) probe() probe {
	p := probe{width: 32, tokens: 128, passes: 5, pairs: 12}
	switch s.Shape {
	case "tiny":
		p = probe{32, 64, 3, 12}
	case "0.1b":
		p = probe{32, 32, 3, 6}
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
	ctx, cancel := context.WithTimeoutCause(ctx, stepsLimit, fmt.Errorf("the single steps took longer than %s", stepsLimit))
	defer cancel()
	if m.fixed() {
		s.say("lockstep, staggered, TTFT, KV cells")
		if err := s.fixedSteps(ctx, m); err != nil {
			return caused(ctx, err)
		}
	}
	if m.constrained() {
		s.say("constrained and unconstrained steps")
		return caused(ctx, s.constrainedSteps(ctx, m))
	}
	return nil
}

// caused is an error with the cause that ended the context.
func caused(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// agent starts an agentd with other lengths and more options. stop ends it.
func (s *session) agent(ctx context.Context, fixed, most int, more ...string) (t target.Target, stop func() error, err error) {
	load, options := *s.Load, *s.Options
	load.FixedTokens, load.MaxTokens = fixed, most
	options.AgentdArgs = append(slices.Clone(options.AgentdArgs), more...)
	return (&session{Options: &options, Load: &load, connect: s.connect}).launch(ctx, nameAgentd)
}

// fresh are turns of the trace's kind that share only the format's prefix with each
// other and with the trace.
func (s *session) fresh(ctx context.Context, n int, seed uint64, o workload.Options) ([]workload.Turn, error) {
	o.Seed, o.Agents, o.Groups, o.Turns, o.Candidates = seed, n, n, 1, 1
	trace, err := s.rendered(ctx, o)
	if err != nil {
		return nil, err
	}
	return trace.Turns, nil
}

// meanTokens is the mean length of prompts.
func meanTokens(turns []workload.Turn) int {
	return workload.Count(turns, nil).PromptTokens / len(turns)
}

// Seeds of prompts, other than the traces' seeds.
const (
	seedFresh = warmSeed + 1 + iota
	seedShort
	seedConstrained
)

// watchEvery is how often the counters are read during a probe.
const watchEvery = 20 * time.Millisecond

// send sends turns to agentd, at a rate or at once, and reads the counters each time
// every passes. A failed request is an error.
func send(ctx context.Context, t target.Target, o target.Options, rate float64, every time.Duration, turns ...workload.Turn) (*result.Run, error) {
	trace := &workload.Trace{Turns: slices.Clone(turns)}
	for i := range trace.Turns {
		trace.Turns[i].Agent = i
	}
	o.Seed = 1
	r, err := load.Run(ctx, t, trace, load.Options{Target: o, Rate: rate, SampleEvery: every})
	if err == nil && (r.Interrupted != "" || len(r.Summary.Failures) > 0) {
		err = fmt.Errorf("a probe failed: %s", strings.Join(append(r.Notes, r.Interrupted), "; "))
	}
	return r, err
}

// prober measures answers of a fixed length on one agentd, in turns with
// llama-batched-bench.
type prober struct {
	*session
	probe
	m     *Measured
	agent target.Target
	long  []workload.Turn // of the trace's length
	short []workload.Turn

	prompt int     // mean tokens of the long ones
	rate   float64 // tokens a second in lockstep
}

func (s *session) fixedSteps(ctx context.Context, m *Measured) (err error) {
	p := &prober{session: s, probe: s.probe(), m: m}
	if p.long, err = s.fresh(ctx, 1+p.passes+2*p.pairs, seedFresh, s.Trace); err != nil {
		return err
	}
	o := workload.Defaults(workload.Synthetic)
	o.Tools, o.SystemWords, o.ObservationWords = 0, 10, 10
	if p.short, err = s.fresh(ctx, p.width, seedShort, o); err != nil {
		return err
	}
	var stop func() error
	if p.agent, stop, err = s.agent(ctx, p.tokens, 0); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	m.StepWidth, p.prompt = p.width, meanTokens(p.long)
	for _, part := range []func(context.Context) error{p.cells, p.lockstep, p.staggered, p.ttft} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// take takes the next long prompt.
func (p *prober) take(candidates int) workload.Turn {
	t := p.long[0]
	t.Candidates = candidates
	p.long = p.long[1:]
	return t
}

func (p *prober) send(ctx context.Context, rate float64, every time.Duration, turns ...workload.Turn) (*result.Run, error) {
	r, err := send(ctx, p.agent, target.Options{FixedTokens: p.tokens}, rate, every, turns...)
	if err == nil && r.Records[0].TTFT <= 0 {
		err = errors.New("agentd does not report TTFT (Server-Timing)")
	}
	return r, err
}

// cells measures the KV cells of the first request, which finds an empty cache.
func (p *prober) cells(ctx context.Context) error {
	turn := p.take(p.width)
	r, err := p.send(ctx, 0, watchEvery, turn)
	if err != nil {
		return err
	}
	p.m.Figures[rowCells] = r.Summary.KVPeak.Over(result.Known(float64(len(turn.Tokens) + p.width*p.tokens)))
	return nil
}

// reference is llama-batched-bench's decode rate, with the best KV cache for it.
func (p *prober) reference(ctx context.Context, prompt int, shared bool, cache *Cache) (rate float64, err error) {
	if *cache == (Cache{}) {
		w := work{decisions: p.width, generated: p.width * p.tokens}
		if *cache, err = p.tuneBatched(ctx, prompt, shared, p.tokens, []int{p.width}, w); err != nil {
			return 0, err
		}
	}
	list, err := p.bench(ctx, prompt, shared, p.tokens, []int{p.width}, *cache)
	if err != nil {
		return 0, err
	}
	return list[0].Decode, nil
}

// lockstep compares the rate of candidates of one prompt, which decode side by side, with
// llama-batched-bench. The rate after the first token is
// width * (tokens - 1) / (E2EL - TTFT). It also measures the parts of a step.
func (p *prober) lockstep(ctx context.Context) error {
	var rates, reference []float64
	steps, parts := 0.0, map[string]float64{}
	for range p.passes {
		// Prefill comes first, so that the counted steps have all candidates.
		turn := p.take(few)
		if _, err := p.send(ctx, 0, 0, turn); err != nil {
			return err
		}
		turn.Candidates = p.width
		r, err := p.send(ctx, 0, 0, turn)
		if err != nil {
			return err
		}
		steps += r.Summary.Steps.X
		for part, seconds := range r.Summary.Phases {
			parts[part] += seconds
		}
		rates = append(rates, float64(p.width*(p.tokens-1))/(r.Summary.E2EL.P50.X-r.Summary.TTFT.P50.X)*1000)
		rate, err := p.reference(ctx, p.prompt, true, &p.m.LockstepCache)
		if err != nil {
			return err
		}
		reference = append(reference, rate)
	}
	micros := func(seconds float64) result.Value { return result.Known(seconds * 1e6 / steps) }
	p.m.Figures[rowHost], p.m.Sample, p.m.Decode = micros(parts["plan"]+parts["commit"]), micros(parts["sample"]), micros(parts["decode"])
	p.rate = median(rates)
	p.m.Figures[rowLockstep] = result.Known(p.rate / median(reference))
	return nil
}

// staggered compares the rate of candidates of different cached prompts, which start one
// after the other, with llama-batched-bench.
func (p *prober) staggered(ctx context.Context) error {
	// All start within about an eighth of the time of tokens steps at full width. Steps are
	// faster at first, and the first candidate must not end before the last one starts.
	starts := p.rate * 8 / float64(p.tokens)
	var rates, reference []float64
	for i := range p.passes + 1 {
		r, err := p.send(ctx, starts, watchEvery, p.short...)
		if err != nil {
			return err
		}
		from, to, ok := window(r.Samples, decoding(p.width))
		if i == 0 || !ok {
			continue // the first wave fills the cache
		}
		rates = append(rates, rate(from, to))
		batched, err := p.reference(ctx, meanTokens(p.short), false, &p.m.StaggeredCache)
		if err != nil {
			return err
		}
		reference = append(reference, batched)
	}
	if len(rates) == 0 {
		p.say("the staggered requests never all ran at once; does agentd decode fewer than %d candidates at once (--parallel)?", p.width)
		return nil
	}
	p.m.Figures[rowStaggered] = result.Known(median(rates) / median(reference))
	return nil
}

// ttft compares TTFT of many candidates with that of few.
func (p *prober) ttft(ctx context.Context) error {
	var times [2][]float64
	for range p.pairs {
		for i, candidates := range []int{few, many} {
			r, err := p.send(ctx, 0, 0, p.take(candidates))
			if err != nil {
				return err
			}
			times[i] = append(times[i], r.Summary.TTFT.P50.X)
		}
	}
	p.m.Figures[rowTTFT] = result.Known(median(times[1]) / median(times[0]))
	return nil
}

// waves of candidates follow each other in a request, so that the width stays full.
const waves = 4

// freeTokens of a candidate without a grammar are about as many as with one.
const freeTokens = 24

// constrainedSteps compares the token rate at full width with and without a grammar, on
// two servers in turns with the same prompts. Forced tokens, of which a step may have
// several, count as generated.
func (s *session) constrainedSteps(ctx context.Context, m *Measured) (err error) {
	p := s.probe()
	turns, err := s.fresh(ctx, p.passes, seedConstrained, s.Trace)
	if err != nil {
		return err
	}
	sides := [2]target.Options{{FixedTokens: freeTokens}, {MaxTokens: p.tokens}}
	var servers [2]target.Target
	for i, o := range sides {
		t, stop, failed := s.agent(ctx, o.FixedTokens, o.MaxTokens, "--parallel", strconv.Itoa(p.width))
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, stop()) }()
		servers[i] = t
	}
	var rates [2][]float64 // without and with the grammar
	for _, turn := range turns {
		turn.Candidates = waves * p.width
		for i, o := range sides {
			r, err := send(ctx, servers[i], o, 0, watchEvery, turn)
			if err != nil {
				return err
			}
			if from, to, ok := window(r.Samples, busy(p.width)); ok {
				rates[i] = append(rates[i], rate(from, to))
			}
		}
	}
	if len(rates[0]) == 0 || len(rates[1]) == 0 {
		s.say("constrained steps: no %d steps at width %d were seen", windowSteps, p.width)
		return nil
	}
	m.Figures[rowConstrained] = result.Known(median(rates[1]) / median(rates[0]))
	return nil
}
