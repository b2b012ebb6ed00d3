// Package load sends a trace of turns to a server, in a closed or an open loop, and
// records what became of each request. Latency counts from when a request was to
// be sent, so that a server that makes the harness late does not look better for
// it (coordinated omission; Tene, "How NOT to Measure Latency").
package load

import (
	"errors"
	"fmt"
	"math"
	"time"

	"agentd/bench/target"
	"agentd/bench/workload"
)

// Arrival is what makes a request be sent.
type Arrival string

// The arrivals.
const (
	// Closed: an agent sends its next turn when the one before was answered and
	// its think time has passed.
	Closed Arrival = "closed"
	// The others are open loops: the turns are sent in the order of the trace,
	// each at its time, whatever became of those before.
	Constant Arrival = "constant" // 1/Rate apart
	Poisson  Arrival = "poisson"  // exponential gaps of mean 1/Rate
	Gamma    Arrival = "gamma"    // gaps of the gamma distribution of mean 1/Rate and Shape
	Recorded Arrival = "recorded" // at the trace's times
)

// Options of a run.
type Options struct {
	Target target.Options

	Arrival Arrival // Closed when ""
	// Rate of an open loop, in requests a second.
	Rate float64
	// Shape of Gamma: 1 is Poisson, below it requests come in bursts, above it they
	// are more regular. The coefficient of variation of the gaps is 1/sqrt(Shape).
	Shape float64
	// Concurrency of a closed loop: how many agents are at work at a time; when one
	// has had all its turns the next begins. 0: all.
	Concurrency int
	// Ramp of a closed loop: the first agents start evenly spread over this time.
	Ramp time.Duration

	// Warm-up requests are sent and recorded, and marked: the first WarmupTurns of
	// each agent, and those to be sent within Warmup of the beginning.
	WarmupTurns int
	Warmup      time.Duration

	// Cancel is the share of requests that are left before their answer, of those
	// after the warm-up: after a random part of the median latency so far. What is
	// answered before is a usual record.
	Cancel float64
	// Seed of arrivals and cancellations.
	Seed uint64

	// Limits; 0 is none. After Requests sent, OutputTokens received or Duration
	// nothing more is sent; what was sent is waited for. Timeout bounds each request
	// from when it is sent.
	Requests     int
	OutputTokens int
	Duration     time.Duration
	Timeout      time.Duration

	// SampleEvery is how often the server's counters are read; 0 reads them at the
	// beginning and at the end only.
	SampleEvery time.Duration
	// Progress is told after each request, one call at a time; nil: nobody is.
	Progress func(Progress)
}

// Progress of a run.
type Progress struct {
	Sent, Answered, Failed int
	Left                   int // by the harness, which is no failure
	Total                  int // requests of the run, when no limit ends it earlier
	OutputTokens           int // of all answers that tell theirs
	Elapsed                time.Duration
}

// open reports whether the arrival is an open loop's.
func (a Arrival) open() bool { return a != Closed }

// rated reports whether an arrival has a rate.
func (a Arrival) rated() bool { return a == Constant || a == Poisson || a == Gamma }

// fill sets the defaults and checks the rest, all problems at once.
func (o *Options) fill(trace *workload.Trace) error {
	if o.Arrival == "" {
		o.Arrival = Closed
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch o.Arrival {
	case Closed, Constant, Poisson, Gamma, Recorded:
	default:
		bad("arrival %q: use %s, %s, %s, %s or %s", string(o.Arrival), Closed, Constant, Poisson, Gamma, Recorded)
	}
	if o.Arrival.rated() && !(o.Rate > 0 && o.Rate <= maxRate) {
		bad("rate is %v; arrival %s needs requests a second, above 0 and at most %g", o.Rate, o.Arrival, float64(maxRate))
	}
	if !o.Arrival.rated() && o.Rate != 0 {
		bad("rate is %v; arrival %s has none, leave it out", o.Rate, o.Arrival)
	}
	if o.Arrival == Gamma && !(o.Shape >= minShape && o.Shape <= maxShape) {
		bad("shape is %v; arrival %s needs one from %g to %g", o.Shape, Gamma, minShape, float64(maxShape))
	}
	if o.Arrival != Gamma && o.Shape != 0 {
		bad("shape is %v; only arrival %s has one, leave it out", o.Shape, Gamma)
	}
	if o.Arrival.open() && o.Concurrency != 0 {
		bad("concurrency is %d; an open loop has no limit of requests at a time, leave it out", o.Concurrency)
	}
	if o.Arrival.open() && o.Ramp != 0 {
		bad("ramp is %v; only the closed loop has agents that start, leave it out", o.Ramp)
	}
	if !(o.Cancel >= 0 && o.Cancel < 1) {
		bad("cancel is %v; it is a share from 0 to below 1", o.Cancel)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"concurrency", o.Concurrency}, {"warmup turns", o.WarmupTurns}, {"requests", o.Requests}, {"output tokens", o.OutputTokens}} {
		if n.value < 0 {
			bad("%s is %d; it can't be negative", n.name, n.value)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"ramp", o.Ramp}, {"warmup", o.Warmup}, {"duration", o.Duration}, {"timeout", o.Timeout}, {"sample interval", o.SampleEvery}} {
		if d.value < 0 {
			bad("%s is %v; it can't be negative", d.name, d.value)
		}
	}
	return errors.Join(append(errs, checkTrace(trace, o.Arrival)...)...)
}

// checkTrace checks what a run needs of a trace.
func checkTrace(trace *workload.Trace, arrival Arrival) (errs []error) {
	if trace == nil || len(trace.Turns) == 0 {
		return []error{errors.New("the trace has no turns")}
	}
	latest := time.Duration(0)
	for i := range trace.Turns {
		t := &trace.Turns[i]
		if t.Think < 0 || t.At < 0 {
			errs = append(errs, fmt.Errorf("turn %d of agent %d: think_ms and at_ms can't be negative", t.Turn, t.Agent))
		}
		latest = max(latest, time.Duration(t.At))
	}
	if arrival == Recorded && latest == 0 && len(trace.Turns) > 1 {
		errs = append(errs, fmt.Errorf("the trace has no recorded times (at_ms); use another arrival than %s", Recorded))
	}
	return errs
}

// Limits of options.
const (
	maxRate  = 1e6 // requests a second
	minShape = 1e-3
	maxShape = 1e6
)

// infinite is a limit that is never reached.
const infinite = math.MaxInt64
