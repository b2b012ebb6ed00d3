package inference

import (
	"agentd/engine/remote"

	"github.com/prometheus/client_golang/prometheus"
)

// remoteCollector exports what was counted for each remote engine.
type remoteCollector struct {
	engine  remoteEngine
	metrics []remoteMetric
	errors  *prometheus.Desc
	model   prometheus.Metric
	others  []prometheus.Collector
}

type remoteMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*remote.Stats) float64
}

func newRemoteCollector(e remoteEngine, model prometheus.Metric, others []prometheus.Collector) *remoteCollector {
	c := &remoteCollector{engine: e, model: model, others: others}
	c.errors = prometheus.NewDesc("agentd_engine_errors_total", "Failed calls of an engine by kind: unreachable, busy, status, answer.", []string{"engine", "kind"}, nil)
	add := func(name, help string, kind prometheus.ValueType, value func(*remote.Stats) float64) {
		c.metrics = append(c.metrics, remoteMetric{prometheus.NewDesc("agentd_engine_"+name, help, []string{"engine"}, nil), kind, value})
	}
	add("up", "1 if the engine gets work; 0 until it answers again.", prometheus.GaugeValue, func(s *remote.Stats) float64 {
		if s.Available {
			return 1
		}
		return 0
	})
	add("requests_running", "Calls in flight.", prometheus.GaugeValue, func(s *remote.Stats) float64 { return float64(s.InFlight) })
	add("requests_total", "Calls, one for each input.", prometheus.CounterValue, func(s *remote.Stats) float64 { return float64(s.Requests) })
	add("prompt_tokens_total", "Prompt tokens that the engine counted.", prometheus.CounterValue, func(s *remote.Stats) float64 { return float64(s.PromptTokens) })
	add("prefix_cache_hits_total", "Prompt tokens that the engine found in its prefix cache.", prometheus.CounterValue, func(s *remote.Stats) float64 { return float64(s.CachedTokens) })
	add("generation_tokens_total", "Tokens that the engine generated.", prometheus.CounterValue, func(s *remote.Stats) float64 { return float64(s.CompletionTokens) })
	return c
}

// Describe implements prometheus.Collector.
func (c *remoteCollector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		out <- m.desc
	}
	out <- c.errors
	out <- c.model.Desc()
	for _, o := range c.others {
		o.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *remoteCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.engine.Stats() {
		for _, m := range c.metrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s), s.URL)
		}
		for kind, n := range s.Errors {
			out <- prometheus.MustNewConstMetric(c.errors, prometheus.CounterValue, float64(n), s.URL, kind)
		}
	}
	out <- c.model
	for _, o := range c.others {
		o.Collect(out)
	}
}
