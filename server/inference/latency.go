package inference

import (
	"agentd/scheduler/generation"

	"github.com/prometheus/client_golang/prometheus"
)

// latency holds the times of generations as their callers see them, by the names
// that the field uses.
type latency struct {
	queue, firstToken, perToken prometheus.Histogram
}

// tokenBuckets are for the time of one token, in seconds: a GPU that decodes few
// sequences to a CPU that decodes many.
var tokenBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}

// waitBuckets are for waits, in seconds: an idle server to a full queue.
var waitBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

func newLatency() *latency {
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "agentd_" + name, Help: help, Buckets: buckets})
	}
	return &latency{
		queue:      histogram("request_queue_time_seconds", "Time until the first sequence of a generation starts.", waitBuckets),
		firstToken: histogram("time_to_first_token_seconds", "Time until the first token of a generation.", waitBuckets),
		perToken:   histogram("request_time_per_output_token_seconds", "Mean time of a token after the first one, in the longest candidate of a generation.", tokenBuckets),
	}
}

// observe counts a generation that ended by itself.
func (l *latency) observe(r *generation.Result) {
	l.queue.Observe(r.Times.Queue.Seconds())
	if r.Times.FirstToken == 0 {
		return // it failed before
	}
	l.firstToken.Observe(r.Times.FirstToken.Seconds())
	longest := 0
	for i := range r.Completions {
		longest = max(longest, len(r.Completions[i].Tokens))
	}
	if longest > 1 {
		l.perToken.Observe((r.Times.End - r.Times.FirstToken).Seconds() / float64(longest-1))
	}
}

func (l *latency) all() []prometheus.Collector {
	return []prometheus.Collector{l.queue, l.firstToken, l.perToken}
}
