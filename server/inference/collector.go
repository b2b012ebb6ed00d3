package inference

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/scheduler"
)

// collector exports the engine's statistics, read once for each scrape.
type collector struct {
	engine   *scheduler.Engine
	metrics  []metric
	contexts []contextMetric
	others   []prometheus.Collector
}

// metric is one number of the statistics.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*scheduler.Stats) float64
}

// Collector exports the engine's statistics and what model it runs.
func (s *Service) Collector() prometheus.Collector {
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	c := &collector{engine: s.engine, contexts: contextMetrics(), others: s.latency.all()}
	add := func(kind prometheus.ValueType, name, help string, value func(*scheduler.Stats) float64) {
		c.metrics = append(c.metrics, metric{prometheus.NewDesc("agentd_"+name, help, nil, nil), kind, value})
	}
	add(gauge, "candidates_admitted", "Candidates admitted, waiting or running.", func(s *scheduler.Stats) float64 { return float64(s.Admitted) })
	add(gauge, "candidates_limit", "Candidates that may be admitted at a time (--queue-limit).", func(s *scheduler.Stats) float64 { return float64(s.QueueLimit) })
	add(gauge, "sequences_running", "Sequences being prefilled or decoded.", func(s *scheduler.Stats) float64 { return float64(s.Running) })
	add(gauge, "candidates_waiting", "Candidates that wait for a sequence.", func(s *scheduler.Stats) float64 { return float64(s.Waiting) })
	add(gauge, "sequences_cached", "Sequences kept for their prefixes.", func(s *scheduler.Stats) float64 { return float64(s.Cached) })
	add(gauge, "kv_cells", "Cells of the KV cache, in tokens.", func(s *scheduler.Stats) float64 { return float64(s.Cells) })
	add(gauge, "kv_cells_used", "Cells that hold something, cached prefixes included.", func(s *scheduler.Stats) float64 { return float64(s.UsedCells) })
	add(gauge, "compute_threads", "CPU threads that compute the next step. Fewer than at the start while other programs use the processors and fewer are faster (--threads auto).", func(s *scheduler.Stats) float64 { return float64(s.Threads) })
	add(gauge, "kv_cells_active", "Cells that running sequences need.", func(s *scheduler.Stats) float64 { return float64(s.ActiveCells) })
	add(gauge, "kv_host_cells", "Room for evicted cells in host memory (--cache-ram).", func(s *scheduler.Stats) float64 { return float64(s.HostCells) })
	add(gauge, "kv_host_cells_used", "Cells that are kept in host memory.", func(s *scheduler.Stats) float64 { return float64(s.HostUsed) })

	add(counter, "prompt_tokens_received_total", "Prompt tokens of all generations.", func(s *scheduler.Stats) float64 { return float64(s.PromptTokens) })
	add(counter, "prompt_tokens_cached_total", "Prompt tokens found in the prefix cache.", func(s *scheduler.Stats) float64 { return float64(s.CachedTokens) })
	add(counter, "prompt_tokens_computed_total", "Prompt tokens that were prefilled.", func(s *scheduler.Stats) float64 { return float64(s.PrefillTokens) })
	add(counter, "generated_tokens_total", "Tokens of answers, sampled or forced.", func(s *scheduler.Stats) float64 { return float64(s.GeneratedTokens) })
	add(counter, "forced_tokens_total", "Tokens of answers that the grammar left no choice about: they took no decode step of their own.", func(s *scheduler.Stats) float64 { return float64(s.ForcedTokens) })
	add(counter, "draft_tokens_total", "Tokens of answers that were guessed and computed before the candidates said them (--draft-rows).", func(s *scheduler.Stats) float64 { return float64(s.DraftTokens) })
	add(counter, "draft_tokens_accepted_total", "Guessed tokens that the candidates said then: those of them that the grammar does not force saved a step each.", func(s *scheduler.Stats) float64 { return float64(s.AcceptedTokens) })
	add(counter, "steps_total", "Decode steps of the model.", func(s *scheduler.Stats) float64 { return float64(s.Steps) })
	add(counter, "step_tokens_total", "Tokens in all steps, guesses included; divided by agentd_steps_total: the mean batch width.", func(s *scheduler.Stats) float64 { return float64(s.Rows) })
	add(counter, "admissions_refused_total", "Requests refused because the queue was full, or would have taken longer than --queue-time.", func(s *scheduler.Stats) float64 { return float64(s.Refused) })
	add(counter, "candidates_finished_total", "Candidates that generated to their end.", func(s *scheduler.Stats) float64 { return float64(s.Finished) })
	add(counter, "candidates_repeated_total", "Candidates that were ended since they repeated themselves (--repetition-stop).", func(s *scheduler.Stats) float64 { return float64(s.Repeated) })
	add(counter, "generations_cancelled_total", "Generations whose caller left.", func(s *scheduler.Stats) float64 { return float64(s.Cancelled) })
	add(counter, "generations_failed_total", "Generations that the model's computation failed.", func(s *scheduler.Stats) float64 { return float64(s.Failed) })
	add(counter, "generations_moved_total", "Generations that failed on one context and began again on another.", func(s *scheduler.Stats) float64 { return float64(s.Moved) })
	add(counter, "sequences_forked_total", "Candidates that began as a copy of their prompt's sequence.", func(s *scheduler.Stats) float64 { return float64(s.Forked) })
	add(counter, "sequences_evicted_total", "Cached sequences removed for space.", func(s *scheduler.Stats) float64 { return float64(s.Evicted) })
	add(counter, "sequences_shortened_total", "Cached sequences whose end was removed for space.", func(s *scheduler.Stats) float64 { return float64(s.Shortened) })
	add(counter, "kv_cells_evicted_total", "Cells of cached sequences that were removed for space.", func(s *scheduler.Stats) float64 { return float64(s.EvictedCells) })
	add(counter, "kv_cells_saved_total", "Cells that were copied to host memory when they were removed for space.", func(s *scheduler.Stats) float64 { return float64(s.SavedCells) })
	add(counter, "kv_cells_loaded_total", "Cells that were copied back from host memory, where a prompt begins with what they hold or a parked sequence goes on.", func(s *scheduler.Stats) float64 { return float64(s.LoadedCells) })
	add(counter, "sequences_parked_total", "Running sequences that gave up their cells and were computed again later.", func(s *scheduler.Stats) float64 { return float64(s.Parked) })
	add(counter, "steps_no_slot_total", "Steps that found no cells and were planned again, smaller.", func(s *scheduler.Stats) float64 { return float64(s.NoSlot) })
	add(counter, "steps_broken_total", "Steps whose computation failed.", func(s *scheduler.Stats) float64 { return float64(s.Broken) })
	for _, part := range []struct {
		name  string
		value func(*scheduler.Times) float64
	}{
		{"plan", func(t *scheduler.Times) float64 { return t.Plan.Seconds() }},
		{"decode", func(t *scheduler.Times) float64 { return t.Decode.Seconds() }},
		{"sample", func(t *scheduler.Times) float64 { return t.Sample.Seconds() }},
		{"commit", func(t *scheduler.Times) float64 { return t.Commit.Seconds() }},
	} {
		desc := prometheus.NewDesc("agentd_step_seconds_total", "Time of the engine's steps, by part.", nil, prometheus.Labels{"part": part.name})
		c.metrics = append(c.metrics, metric{desc, counter, func(s *scheduler.Stats) float64 { return part.value(&s.Times) }})
	}
	model := prometheus.NewDesc("agentd_model_info", "Always 1; the labels tell what is served.", nil,
		prometheus.Labels{"architecture": s.facts.Architecture, "format": s.facts.Format, "device": s.facts.Device})
	c.metrics = append(c.metrics, metric{model, gauge, func(*scheduler.Stats) float64 { return 1 }})
	return c
}

// contextMetric is one number of each context.
type contextMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*scheduler.ContextStats) float64
}

// contextMetrics tell contexts, and so their devices, apart.
func contextMetrics() []contextMetric {
	type stats = scheduler.ContextStats
	var list []contextMetric
	add := func(kind prometheus.ValueType, name, help string, value func(*stats) float64) {
		list = append(list, contextMetric{prometheus.NewDesc("agentd_context_"+name, help, []string{"context", "device"}, nil), kind, value})
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	add(gauge, "up", "0 while the steps of the context keep failing: it is then given no work if another one is up. For good when its device is lost.", func(s *stats) float64 {
		if s.Up {
			return 1
		}
		return 0
	})
	add(gauge, "sequences_running", "Sequences being prefilled or decoded on the context.", func(s *stats) float64 { return float64(s.Running) })
	add(gauge, "candidates_waiting", "Candidates that wait for a sequence of the context.", func(s *stats) float64 { return float64(s.Waiting) })
	add(gauge, "kv_cells", "Cells of the context's KV cache, in tokens.", func(s *stats) float64 { return float64(s.Cells) })
	add(gauge, "kv_cells_used", "Cells that hold something, cached prefixes included.", func(s *stats) float64 { return float64(s.UsedCells) })
	add(counter, "prompt_tokens_computed_total", "Prompt tokens that the context prefilled.", func(s *stats) float64 { return float64(s.PrefillTokens) })
	add(counter, "generated_tokens_total", "Tokens of answers that the context generated.", func(s *stats) float64 { return float64(s.GeneratedTokens) })
	add(counter, "steps_total", "Decode steps of the context.", func(s *stats) float64 { return float64(s.Steps) })
	add(counter, "step_tokens_total", "Tokens in all steps of the context.", func(s *stats) float64 { return float64(s.Rows) })
	add(counter, "decode_seconds_total", "Time that the context's steps took to decode.", func(s *stats) float64 { return s.Times.Decode.Seconds() })
	add(counter, "steps_broken_total", "Steps of the context whose computation failed.", func(s *stats) float64 { return float64(s.Broken) })
	return list
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		out <- m.desc
	}
	for _, m := range c.contexts {
		out <- m.desc
	}
	for _, o := range c.others {
		o.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	stats := c.engine.Stats()
	for _, m := range c.metrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&stats))
	}
	for i, context := range c.engine.Contexts() {
		for _, m := range c.contexts {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&context), strconv.Itoa(i), context.Device)
		}
	}
	for _, o := range c.others {
		o.Collect(out)
	}
}
