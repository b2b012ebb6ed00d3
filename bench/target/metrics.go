package target

import (
	"bytes"
	"context"
	"errors"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics is a server's /metrics by name.
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

// metrics reads /metrics, or returns ErrNoCounters.
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

// number is a metric's sum over its labels; -1 if it is missing.
func (m metrics) number(name string) float64 {
	sum := 0.0
	for _, x := range m.by(name, "") {
		sum += x
	}
	if m[name] == nil || !(sum >= 0) {
		return -1
	}
	return sum
}

// by is a metric's values by one of its labels.
func (m metrics) by(name, label string) map[string]float64 {
	values := map[string]float64{}
	for _, x := range m[name].GetMetric() {
		values[labels(x)[label]] += x.GetCounter().GetValue() + x.GetGauge().GetValue() + x.GetUntyped().GetValue()
	}
	return values
}

// labels of a series.
func labels(metric *dto.Metric) map[string]string {
	pairs := map[string]string{}
	for _, l := range metric.GetLabel() {
		pairs[l.GetName()] = l.GetValue()
	}
	return pairs
}
