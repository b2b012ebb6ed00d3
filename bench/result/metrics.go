package result

import "slices"

// Metric is one figure of a summary.
type Metric struct {
	Name   string
	Title  string
	Unit   string
	Group  string
	Better int // 1: higher is better, -1: lower is better, 0: neither
	Of     func(*Summary) Value
}

// Names of metrics that plots and the suite use.
const (
	DecisionRate = "decisions_s"
	E2ELp50      = "e2el_p50"
	E2ELp99      = "e2el_p99"
	TTFTp50      = "ttft_p50"
	BatchWidth   = "batch_width"
	Computed     = "prompt_tok_computed"
	MemoryPeak   = "memory_peak_mb"
	CPUSeconds   = "cpu_s"
)

// Groups of metrics.
const (
	groupThroughput = "Throughput"
	groupLatency    = "Latency"
	groupTokens     = "Prompt tokens"
	groupServer     = "Server"
	groupOutcome    = "Outcome"
)

// metrics in the order of a table.
var metrics = slices.Concat(
	[]Metric{
		{DecisionRate, "Decisions", "1/s", groupThroughput, 1, func(s *Summary) Value { return s.DecisionRate }},
		{"requests_s", "Requests", "1/s", groupThroughput, 1, func(s *Summary) Value { return s.RequestRate }},
		{"output_tok_s", "Output tokens", "tok/s", groupThroughput, 1, func(s *Summary) Value { return s.OutputRate }},
		{"goodput_s", "Goodput within the bound", "1/s", groupThroughput, 1, func(s *Summary) Value { return s.Goodput }},
	},
	times("ttft", "TTFT", func(s *Summary) *Distribution { return &s.TTFT }),
	times("tpot", "TPOT", func(s *Summary) *Distribution { return &s.TPOT }),
	times("e2el", "E2EL", func(s *Summary) *Distribution { return &s.E2EL }),
	[]Metric{
		{"prompt_tok_sent", "Sent", "tok", groupTokens, 0, func(s *Summary) Value { return s.PromptSent }},
		{Computed, "Computed", "tok", groupTokens, -1, func(s *Summary) Value { return s.PromptComputed }},
		{"prompt_tok_unique", "Unique", "tok", groupTokens, 0, func(s *Summary) Value { return s.PromptUnique }},
		{"computed_to_unique", "Computed / unique", "", groupTokens, -1, func(s *Summary) Value { return s.PromptComputed.Over(s.PromptUnique) }},

		{BatchWidth, "Mean batch width", "rows/step", groupServer, 0, func(s *Summary) Value { return s.Width }},
		{"kv_cells_peak", "KV cells, peak", "cells", groupServer, -1, func(s *Summary) Value { return s.KVPeak }},
		{MemoryPeak, "Memory, peak", "MB", groupServer, -1, func(s *Summary) Value { return s.Memory.Over(Known(1e6)) }},
		{CPUSeconds, "Processor time", "s", groupServer, -1, func(s *Summary) Value { return s.CPU }},

		{"span_s", "Measured span", "s", groupOutcome, 0, func(s *Summary) Value { return s.Span }},
		{"requests", "Requests", "", groupOutcome, 0, func(s *Summary) Value { return Known(float64(s.Requests)) }},
		{"failed_requests", "Failed requests", "", groupOutcome, -1, func(s *Summary) Value { return total(s.Failures) }},
		{"failed_candidates", "Failed candidates", "", groupOutcome, -1, func(s *Summary) Value { return total(s.CandidateFailures) }},
	},
)

// times are the metrics of one distribution.
func times(name, title string, of func(*Summary) *Distribution) []Metric {
	metric := func(part string, value func(*Distribution) Value) Metric {
		return Metric{name + "_" + part, title + " " + part, "ms", groupLatency, -1, func(s *Summary) Value { return value(of(s)) }}
	}
	return []Metric{
		metric("p50", func(d *Distribution) Value { return d.P50 }),
		metric("p90", func(d *Distribution) Value { return d.P90 }),
		metric("p99", func(d *Distribution) Value { return d.P99 }),
	}
}

func total(counts map[string]int) Value {
	n := 0
	for _, c := range counts {
		n += c
	}
	return Known(float64(n))
}

// Metrics are all metrics in the order of a table.
func Metrics() []Metric { return slices.Clone(metrics) }

// MetricNamed is the metric of a name. It panics for another name.
func MetricNamed(name string) Metric {
	return metrics[slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name })]
}
