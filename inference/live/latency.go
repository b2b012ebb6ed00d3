package live

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/agent"
	"agentd/internal/base/timing"
)

// latency has the latency histograms of generations, with vLLM's names, and the counters of summaries.
type latency struct {
	queue, firstToken, perToken prometheus.Histogram
	summaries                   *prometheus.CounterVec
	cut                         prometheus.Counter
}

// tokenBuckets are for the time of one token, in seconds, from a GPU that decodes few sequences
// to a CPU that decodes many.
var tokenBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}

// waitBuckets are for waits, in seconds, from an idle server to a full queue.
var waitBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

func newLatency() *latency {
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "agentd_" + name, Help: help, Buckets: buckets})
	}
	return &latency{
		summaries:  counters("summaries_total", "Summaries of the history-summarized agent, by result: whole, truncated (at the token limit, or when it repeated itself), failed.", "result"),
		cut:        counters("histories_cut_total", "Histories whose oldest messages were left out, because no summary could be used or it did not fit.").WithLabelValues(),
		queue:      histogram("request_queue_time_seconds", "Time from a generation's submission to the start of its first sequence.", waitBuckets),
		firstToken: histogram("time_to_first_token_seconds", "Time from a generation's submission to its first token.", waitBuckets),
		perToken:   histogram("request_time_per_output_token_seconds", "Time per token after a generation's first one, for its longest candidate.", tokenBuckets),
	}
}

// observe counts a generation that ended with an end token, also in the times for Server-Timing.
func (l *latency) observe(ctx context.Context, g *agent.Latency) {
	if g.Queue == 0 && g.FirstToken == 0 {
		return // engines at URLs do not report it
	}
	l.queue.Observe(g.Queue.Seconds())
	if g.FirstToken == 0 {
		return // it failed before
	}
	l.firstToken.Observe(g.FirstToken.Seconds())
	if g.LongestAnswer > 1 {
		l.perToken.Observe((g.End - g.FirstToken).Seconds() / float64(g.LongestAnswer-1))
	}
	t, started, first := timing.Of(ctx), g.Submitted.Add(g.Queue), g.Submitted.Add(g.FirstToken)
	if t.First.IsZero() || started.Before(t.Started) {
		t.Started = started
	}
	if t.First.IsZero() || first.Before(t.First) {
		t.First = first
	}
}

// collect exports the histograms and counters.
func (l *latency) collect(out chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{l.queue, l.firstToken, l.perToken, l.summaries, l.cut} {
		c.Collect(out)
	}
}

// count counts the summaries of a request.
func (l *latency) count(c agent.SummaryCounts) {
	for result, n := range map[string]int{"whole": c.Whole, "truncated": c.Truncated, "failed": c.Failed} {
		if n > 0 {
			l.summaries.WithLabelValues(result).Add(float64(n))
		}
	}
	l.cut.Add(float64(c.Cut))
}
