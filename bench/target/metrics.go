package target

import (
	"bytes"
	"context"
	"errors"
	"math"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics are what a server's /metrics shows, by name.
type metrics map[string]*dto.MetricFamily

// readMetrics reads Prometheus' text format.
func readMetrics(text []byte) (metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, contract("/metrics: %w", err)
	}
	return families, nil
}

// metrics reads the server's; ErrNoCounters when it has none.
func (r *remote) metrics(ctx context.Context) (metrics, error) {
	body, err := r.get(ctx, "/metrics")
	if missing(err) {
		return nil, errors.Join(ErrNoCounters, err)
	}
	if err != nil {
		return nil, err
	}
	return readMetrics(body)
}

// number is a metric's value, the sum over its labels; -1 when it is not there.
func (m metrics) number(name string) float64 {
	family := m[name]
	if family == nil {
		return -1
	}
	sum := 0.0
	for _, metric := range family.GetMetric() {
		sum += value(metric)
	}
	if math.IsNaN(sum) || sum < 0 {
		return -1
	}
	return sum
}

// by are a metric's values by one of its labels; nil when it is not there.
func (m metrics) by(name, label string) map[string]float64 {
	family := m[name]
	if family == nil {
		return nil
	}
	values := map[string]float64{}
	for _, metric := range family.GetMetric() {
		values[labels(metric)[label]] += value(metric)
	}
	return values
}

// labels of the first series of a metric, which is how facts are told; nil when
// it is not there.
func (m metrics) labels(name string) map[string]string {
	family := m[name]
	if family == nil || len(family.GetMetric()) == 0 {
		return nil
	}
	return labels(family.GetMetric()[0])
}

func labels(metric *dto.Metric) map[string]string {
	pairs := map[string]string{}
	for _, l := range metric.GetLabel() {
		pairs[l.GetName()] = l.GetValue()
	}
	return pairs
}

func value(metric *dto.Metric) float64 {
	switch {
	case metric.Counter != nil:
		return metric.Counter.GetValue()
	case metric.Gauge != nil:
		return metric.Gauge.GetValue()
	}
	return metric.Untyped.GetValue()
}
