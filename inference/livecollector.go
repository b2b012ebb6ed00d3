package inference

import "github.com/prometheus/client_golang/prometheus"

// weightsMetrics count changes of the weights.
type weightsMetrics struct {
	changes *prometheus.CounterVec
	info    *prometheus.Desc
	// overwritten is exported for files of this machine.
	overwritten *prometheus.Desc
}

func newWeightsMetrics() *weightsMetrics {
	return &weightsMetrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentd_weights_changes_total",
			Help: "Changes of the weights while serving, by what was changed (model, adapter) and the result (done, removed, failed).",
		}, []string{"kind", "result"}),
		info:        prometheus.NewDesc("agentd_weights_info", "Always 1; the labels are the version of the model, and of each adapter by name. The version of a large model appears once it was asked for.", []string{"adapter", "version"}, nil),
		overwritten: prometheus.NewDesc("agentd_weights_overwritten", "1 if the served model file was overwritten in place. No version names what computes then.", nil, nil),
	}
}

// liveCollector exports the metrics of the current Service. After a change of the model, those of its
// engine begin again.
type liveCollector struct{ live *Live }

// Collector exports the statistics of the current engine, which model it runs, and changes of the
// weights.
func (l *Live) Collector() prometheus.Collector { return liveCollector{l} }

// Describe implements prometheus.Collector. The labels of some metrics change with the model, so
// none is declared.
func (liveCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c liveCollector) Collect(out chan<- prometheus.Metric) {
	s, release := c.live.use()
	defer release()
	s.Collector().Collect(out)
	m := c.live.metrics
	m.changes.Collect(out)
	if s.weights != nil {
		value := 0.0
		if s.weights.overwritten() != "" {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(m.overwritten, prometheus.GaugeValue, value)
		if version := s.weights.known(); version != "" {
			out <- prometheus.MustNewConstMetric(m.info, prometheus.GaugeValue, 1, "", version)
		}
	}
	for _, a := range s.adapters.list() {
		out <- prometheus.MustNewConstMetric(m.info, prometheus.GaugeValue, 1, a.Name, a.Version)
	}
}
