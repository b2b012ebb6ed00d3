package live

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/scheduler"
	"agentd/scheduler/remote"
)

// collector exports the metrics of the current version, and changes of the weights. After a change of the
// model, the engine's counters start at 0.
type collector struct{ service *Service }

// Collector returns a collector of the current engine's statistics, of its model, and of changes of the weights.
func (l *Service) Collector() prometheus.Collector { return collector{l} }

// Describe implements prometheus.Collector. It declares no metric, since labels of some change with the model.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	v, release := c.service.use()
	defer release()
	gauge(out, "model_info", "Always 1; the labels describe the model.",
		prometheus.Labels{"model": v.Name(), "architecture": v.Info.Architecture, "format": v.Info.Format, "device": v.Info.Device}, 1)
	v.latency.collect(out)
	if v.Remote != nil {
		collectRemote(v.Remote, out)
	} else {
		v.collectEmbedded(out)
	}
	c.service.changes.Collect(out)
	c.service.pauses.Collect(out)
	_, paused := c.service.Paused()
	gauge(out, "paused_seconds", "Time since the pause began (POST /v1/pause). 0: the server is not paused.", nil, paused.Seconds())
	v.collectWeights(out)
}

// counters makes a counter with these labels.
func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "agentd_" + name, Help: help}, labels)
}

// gauge exports one number.
func gauge(out chan<- prometheus.Metric, name, help string, labels prometheus.Labels, value float64) {
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc("agentd_"+name, help, nil, labels), prometheus.GaugeValue, value)
}

// bit returns 1 for true, 0 for false.
func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// infoBlock is the block size in cache_config_info, in tokens, for routers that hash each block of a
// prompt. Our cache has no blocks: it shares prefixes of any length.
const infoBlock = 16

// collectEmbedded exports the statistics of the embedded engine, and its memory on each device.
func (v *modelVersion) collectEmbedded(out chan<- prometheus.Metric) {
	total, contexts := v.Engine.Stats(), v.Engine.Contexts()
	engineMetrics.collect(out, &total)
	for i := range contexts {
		labels := []string{strconv.Itoa(i), contexts[i].Device}
		contextMetrics.collect(out, &contexts[i].Stats, labels...)
		gauge(out, "context_up", "1 if the context gets work. 0 while its steps keep failing or one does not end, and for good when its device is lost.",
			prometheus.Labels{"context": labels[0], "device": labels[1]}, bit(contexts[i].Up))
	}
	for _, p := range v.Engine.Placement() {
		on := prometheus.Labels{"device": p.Device}
		gauge(out, "device_layers", "Layers of all models on the device.", on, float64(p.Layers))
		gauge(out, "device_weights_bytes", "Weights of all models on the device.", on, float64(p.Weights))
		gauge(out, "device_kv_cache_bytes", "KV caches and recurrent states of all contexts on the device.", on, float64(p.Memory))
		gauge(out, "device_compute_bytes", "Buffers of all contexts for computing a step.", on, float64(p.Compute))
	}
	// As vLLM has it.
	gauge(out, "cache_config_info", "Always 1; the labels are the size of the KV cache for endpoint pickers: blocks, and tokens of a block.",
		prometheus.Labels{"block_size": strconv.Itoa(infoBlock), "num_gpu_blocks": strconv.Itoa(v.Info.Contexts * v.Info.ContextLength / infoBlock)}, 1)
}

// collectRemote exports the statistics of each engine at a URL, and the totals.
func collectRemote(e *remote.Engine, out chan<- prometheus.Metric) {
	totals := e.Totals()
	remoteTotals.collect(out, &totals)
	for _, s := range e.Stats() {
		remoteMetrics.collect(out, &s, s.URL)
		for kind, n := range s.Errors {
			out <- prometheus.MustNewConstMetric(remoteErrors, prometheus.CounterValue, float64(n), s.URL, kind)
		}
	}
}

// collectWeights exports the versions of the model and of adapters.
func (v *modelVersion) collectWeights(out chan<- prometheus.Metric) {
	version := func(adapter, version string) {
		gauge(out, "weights_info", "Always 1; the labels are the version of the model, and of each adapter by name. The version of a large model appears once it was asked for.",
			prometheus.Labels{"adapter": adapter, "version": version}, 1)
	}
	if v.Weights != nil {
		gauge(out, "weights_overwritten", "1 if the served model file was overwritten in place. No version names what computes then.", nil, bit(v.Weights.Overwritten() != ""))
		if known := v.Weights.Known(); known != "" {
			version("", known)
		}
	}
	for _, a := range v.adapters.list() {
		version(a.Name, a.Version)
	}
}

// The metrics of structs of statistics.
var (
	engineMetrics  = metricsOf[scheduler.Stats]("agentd_", "metric")
	contextMetrics = metricsOf[scheduler.Stats]("agentd_context_", "context", "context", "device")
	remoteMetrics  = metricsOf[remote.Stats]("agentd_engine_", "metric", "engine")
	remoteTotals   = metricsOf[remote.Totals]("agentd_", "metric")

	remoteErrors = prometheus.NewDesc("agentd_engine_errors_total", "Failed calls of an engine by kind: unreachable, timeout, busy, status, answer.", []string{"engine", "kind"}, nil)
)

// metrics are the metrics of a struct's fields.
type metrics []metric

// metric is the metric of one field.
type metric struct {
	field []int // index of the field, see reflect.Value.FieldByIndex
	kind  prometheus.ValueType
	desc  *prometheus.Desc
}

// metricsOf returns the metrics of the fields of T that have the tag. The tag metric is the name without prefix; names
// that end in _total are counters, all others gauges.
func metricsOf[T any](prefix, tag string, labels ...string) (list metrics) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if f.Tag.Get(tag) == "" {
			continue
		}
		m := metric{field: f.Index, kind: prometheus.GaugeValue}
		name := f.Tag.Get("metric")
		if strings.HasSuffix(name, "_total") {
			m.kind = prometheus.CounterValue
		}
		var fixed prometheus.Labels
		if part := f.Tag.Get("label"); part != "" {
			fixed = prometheus.Labels{"part": part}
		}
		m.desc = prometheus.NewDesc(prefix+name, f.Tag.Get("help"), labels, fixed)
		list = append(list, m)
	}
	return list
}

// collect exports the fields of a struct.
func (list metrics) collect(out chan<- prometheus.Metric, of any, labels ...string) {
	for _, m := range list {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, number(reflect.ValueOf(of).Elem().FieldByIndex(m.field)), labels...)
	}
}

// number returns a field's value; durations are in seconds.
func number(v reflect.Value) float64 {
	switch {
	case v.Kind() == reflect.Bool:
		return bit(v.Bool())
	case v.Kind() == reflect.Float64:
		return v.Float()
	case v.CanUint():
		return float64(v.Uint())
	case v.Type() == reflect.TypeFor[time.Duration]():
		return time.Duration(v.Int()).Seconds()
	default:
		return float64(v.Int())
	}
}
