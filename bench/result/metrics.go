package result

import (
	"slices"
	"strings"
)

// Direction says which way a metric is better.
type Direction int

// Directions.
const (
	Neutral Direction = iota // it describes the run
	HigherIsBetter
	LowerIsBetter
)

// Metric is one figure of a summary under its name.
type Metric struct {
	Name   string // as --fail-under takes it
	Title  string // for people
	Unit   string // "" for a pure number
	Group  string // heading
	Better Direction
	Of     func(*Summary) Value
}

// Groups of metrics, in their order.
const (
	GroupThroughput = "Throughput"
	GroupLatency    = "Latency"
	GroupTokens     = "Prompt tokens"
	GroupServer     = "Server"
	GroupOutcome    = "Outcome"
)

// Ratio is another name of the metric that matters most, decisions/s.
const Ratio = "ratio"

// metrics in the order of a table.
var metrics = slices.Concat(
	[]Metric{
		{"decisions_s", "Decisions", "1/s", GroupThroughput, HigherIsBetter, func(s *Summary) Value { return s.DecisionRate }},
		{"requests_s", "Requests", "1/s", GroupThroughput, HigherIsBetter, func(s *Summary) Value { return s.RequestRate }},
		{"output_tok_s", "Output tokens", "tok/s", GroupThroughput, HigherIsBetter, func(s *Summary) Value { return s.OutputRate }},
		{"goodput_s", "Goodput within the SLO", "1/s", GroupThroughput, HigherIsBetter, func(s *Summary) Value { return s.Goodput }},
		{"goodput_share", "Requests within the SLO", "%", GroupThroughput, HigherIsBetter, func(s *Summary) Value { return s.GoodShare.Times(100) }},
	},
	times("ttft", "TTFT", func(s *Summary) *Distribution { return &s.TTFT }),
	times("tpot", "TPOT", func(s *Summary) *Distribution { return &s.TPOT }),
	times("itl", "ITL", func(s *Summary) *Distribution { return &s.ITL }),
	times("e2el", "E2EL", func(s *Summary) *Distribution { return &s.E2EL }),
	times("queue", "Queue wait", func(s *Summary) *Distribution { return &s.Queue }),
	[]Metric{
		{"prompt_tok_sent", "Sent", "tok", GroupTokens, Neutral, func(s *Summary) Value { return s.PromptSent }},
		{"prompt_tok_computed", "Computed", "tok", GroupTokens, LowerIsBetter, func(s *Summary) Value { return s.PromptComputed }},
		{"prompt_tok_ideal", "Ideal (every prefix once)", "tok", GroupTokens, Neutral, func(s *Summary) Value { return s.PromptIdeal }},
		{"computed_to_ideal", "Computed / ideal", "", GroupTokens, LowerIsBetter, func(s *Summary) Value { return s.PromptComputed.Over(s.PromptIdeal) }},
		{"computed_to_sent", "Computed / sent", "", GroupTokens, LowerIsBetter, func(s *Summary) Value { return s.PromptComputed.Over(s.PromptSent) }},

		{"batch_width", "Mean batch width", "rows/step", GroupServer, Neutral, func(s *Summary) Value { return s.Width }},
		{"kv_cells_peak", "KV cells, peak", "cells", GroupServer, LowerIsBetter, func(s *Summary) Value { return s.KVPeak }},
		{"evicted", "Evicted", "sequences", GroupServer, LowerIsBetter, func(s *Summary) Value { return s.Evicted }},
		{"wasted_tok", "Wasted output tokens", "tok", GroupServer, LowerIsBetter, func(s *Summary) Value { return s.Wasted }},

		{"span_s", "Measured span", "s", GroupOutcome, Neutral, func(s *Summary) Value { return s.Span }},
		{"requests", "Requests measured", "", GroupOutcome, Neutral, func(s *Summary) Value { return Known(float64(s.Requests)) }},
		{"left_requests", "Requests left", "", GroupOutcome, Neutral, func(s *Summary) Value { return Known(float64(s.Left)) }},
		{"decisions", "Decisions", "", GroupOutcome, Neutral, func(s *Summary) Value { return Known(float64(s.Decisions)) }},
		{"distinct_outputs", "Distinct outputs a request", "", GroupOutcome, Neutral, func(s *Summary) Value { return s.Distinct }},
		{"failed_requests", "Failed requests", "", GroupOutcome, LowerIsBetter, func(s *Summary) Value { return Known(float64(total(s.Failures))) }},
		{"failed_candidates", "Failed candidates", "", GroupOutcome, LowerIsBetter, func(s *Summary) Value { return Known(float64(total(s.CandidateFailures))) }},
	},
)

// times are the metrics of one distribution, in milliseconds.
func times(name, title string, of func(*Summary) *Distribution) []Metric {
	metric := func(part string, value func(*Distribution) Value) Metric {
		return Metric{name + "_" + part, title + " " + part, "ms", GroupLatency, LowerIsBetter,
			func(s *Summary) Value { return value(of(s)) }}
	}
	return []Metric{
		metric("p50", func(d *Distribution) Value { return d.P50 }),
		metric("p90", func(d *Distribution) Value { return d.P90 }),
		metric("p99", func(d *Distribution) Value { return d.P99 }),
		metric("mean", func(d *Distribution) Value { return d.Mean }),
		metric("max", func(d *Distribution) Value { return d.Max }),
	}
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Metrics are all of them, in the order of a table.
func Metrics() []Metric { return slices.Clone(metrics) }

// MetricNamed finds a metric by its name or by [Ratio].
func MetricNamed(name string) (Metric, bool) {
	if name == Ratio {
		name = "decisions_s"
	}
	i := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return metrics[i], true
}

// comparable names the metrics that have a better direction.
func comparableNames() string {
	names := []string{Ratio}
	for _, m := range metrics {
		if m.Better != Neutral {
			names = append(names, m.Name)
		}
	}
	return strings.Join(names, ", ")
}
