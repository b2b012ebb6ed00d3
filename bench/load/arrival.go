package load

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"agentd/bench/workload"
)

// Streams of random numbers: one for the arrivals, and one for each turn that may
// be left, so that nothing depends on the order in which they are asked for.
const (
	streamArrivals = 0
	streamCancels  = 1 << 63 // with the agent and the turn below
)

// schedule is when the turns of an open loop are to be sent, from the beginning:
// indices into the trace in the order of their times.
func schedule(trace *workload.Trace, o *Options) (order []int, at []time.Duration) {
	order, at = make([]int, len(trace.Turns)), make([]time.Duration, len(trace.Turns))
	for i := range order {
		order[i] = i
	}
	if o.Arrival == Recorded {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(trace.Turns[a].At, trace.Turns[b].At) })
		for i, k := range order {
			at[i] = time.Duration(trace.Turns[k].At)
		}
		return order, at
	}
	rng := rand.New(rand.NewPCG(o.Seed, streamArrivals))
	now := 0.0 // seconds
	for i := range at {
		at[i] = seconds(now)
		switch o.Arrival {
		case Constant: // no sum, whose error would grow
			now = float64(i+1) / o.Rate
		case Poisson:
			now += rng.ExpFloat64() / o.Rate
		case Gamma:
			now += gamma(rng, o.Shape) / o.Shape / o.Rate
		}
	}
	return order, at
}

// seconds is a duration, the longest one where it is too long for any.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return infinite
	}
	return time.Duration(s * float64(time.Second))
}

// gamma draws from the gamma distribution of a shape and scale 1 (Marsaglia and
// Tsang, "A simple method for generating gamma variables", ACM TOMS 26(3), 2000).
func gamma(rng *rand.Rand, shape float64) float64 {
	boost := 1.0
	if shape < 1 {
		boost = math.Pow(1-rng.Float64(), 1/shape)
		shape++
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return boost * d * v
		}
	}
}

// canceller says which requests are left, and when: the same ones in every run
// with the same seed.
type canceller struct {
	share float64
	seed  uint64
	// recent are the latencies of the newest answers, a ring.
	recent [recentLatencies]time.Duration
	count  int
}

// recentLatencies is how many answers the median is of.
const recentLatencies = 255

// part is the part of the median latency after which a turn is left.
func (c *canceller) part(agent, turn int) (part float64, leave bool) {
	if c.share == 0 {
		return 0, false
	}
	rng := rand.New(rand.NewPCG(c.seed, streamCancels|uint64(uint32(agent))<<31^uint64(uint32(turn))))
	leave = rng.Float64() < c.share
	return rng.Float64(), leave
}

// answered notes a latency.
func (c *canceller) answered(latency time.Duration) {
	c.recent[c.count%recentLatencies] = latency
	c.count++
}

// median is that of the newest latencies; 0 when there is none.
func (c *canceller) median() time.Duration {
	known := slices.Clone(c.recent[:min(c.count, recentLatencies)])
	if len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return known[len(known)/2]
}
