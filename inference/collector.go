package inference

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/llama"
	"agentd/scheduler"
)

// collector exports the statistics of the engine: each field of [scheduler.Stats] with a
// metric tag. They are read once for each scrape.
type collector struct {
	engine  *scheduler.Engine
	metrics []metric
	up      *prometheus.Desc
	model   prometheus.Metric
	placed  []prometheus.Metric
	others  []prometheus.Collector
}

// metric is one number of the statistics.
type metric struct {
	field   []int // index in scheduler.Stats
	kind    prometheus.ValueType
	total   *prometheus.Desc
	context *prometheus.Desc // nil: not exported for each context
}

// Collector exports the engine's statistics and which model it runs.
func (s *Service) Collector() prometheus.Collector {
	info := prometheus.NewDesc("agentd_model_info", "Always 1; the labels describe the model.", nil,
		prometheus.Labels{"architecture": s.info.Architecture, "format": s.info.Format, "device": s.info.Device})
	model := prometheus.MustNewConstMetric(info, prometheus.GaugeValue, 1)
	local, ok := s.engine.(embedded)
	if !ok {
		return newRemoteCollector(s.engine.(remoteEngine), model, s.latency.all())
	}
	return &collector{
		engine:  local.Engine,
		metrics: metricsOf(reflect.TypeFor[scheduler.Stats](), nil),
		up:      prometheus.NewDesc("agentd_context_up", "1 if the context gets work. 0 while its steps keep failing or one does not end, and for good when its device is lost.", contextLabels, nil),
		model:   model,
		placed:  placementMetrics(local.Placement()),
		others:  append(s.latency.all(), cacheInfo(s.info.Contexts*s.info.ContextLength)),
	}
}

// infoBlock is the size of a block in cacheInfo, in tokens. The cache itself has no blocks: it
// shares prefixes of any length. Pickers that reckon with prefixes hash each block of a prompt.
const infoBlock = 16

// cacheInfo describes the KV cache to endpoint pickers, as vLLM does.
func cacheInfo(cells int) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "agentd_cache_config_info",
		Help:        "Always 1; the labels are the size of the KV cache for endpoint pickers: blocks, and tokens of a block.",
		ConstLabels: prometheus.Labels{"block_size": strconv.Itoa(infoBlock), "num_gpu_blocks": strconv.Itoa(cells / infoBlock)},
	})
	g.Set(1)
	return g
}

// placementMetrics say what is on each device.
func placementMetrics(placed []llama.Placement) (list []prometheus.Metric) {
	for _, g := range []struct {
		name, help string
		value      func(*llama.Placement) float64
	}{
		{"layers", "Layers of all models on the device.", func(p *llama.Placement) float64 { return float64(p.Layers) }},
		{"weights_bytes", "Weights of all models on the device.", func(p *llama.Placement) float64 { return float64(p.Weights) }},
		{"kv_cache_bytes", "KV caches and recurrent states of all contexts on the device.", func(p *llama.Placement) float64 { return float64(p.Memory) }},
		{"compute_bytes", "Buffers of all contexts for computing a step.", func(p *llama.Placement) float64 { return float64(p.Compute) }},
	} {
		desc := prometheus.NewDesc("agentd_device_"+g.name, g.help, []string{"device"}, nil)
		for i := range placed {
			list = append(list, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, g.value(&placed[i]), placed[i].Device))
		}
	}
	return list
}

var contextLabels = []string{"context", "device"}

// metricsOf lists the fields of a statistics struct that have a metric tag. Names that end in
// _total are counters, all others gauges.
func metricsOf(t reflect.Type, at []int) (list []metric) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(at[:len(at):len(at)], i)
		name, ok := f.Tag.Lookup("metric")
		if !ok {
			if f.Type.Kind() == reflect.Struct {
				list = append(list, metricsOf(f.Type, index)...)
			}
			continue
		}
		m := metric{field: index, kind: prometheus.GaugeValue}
		if strings.HasSuffix(name, "_total") {
			m.kind = prometheus.CounterValue
		}
		var labels prometheus.Labels
		if part := f.Tag.Get("label"); part != "" {
			labels = prometheus.Labels{"part": part}
		}
		m.total = prometheus.NewDesc("agentd_"+name, f.Tag.Get("help"), nil, labels)
		if f.Tag.Get("context") != "" {
			m.context = prometheus.NewDesc("agentd_context_"+name, f.Tag.Get("help"), contextLabels, labels)
		}
		list = append(list, m)
	}
	return list
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		out <- m.total
		if m.context != nil {
			out <- m.context
		}
	}
	out <- c.up
	out <- c.model.Desc()
	for _, m := range c.placed {
		out <- m.Desc()
	}
	for _, o := range c.others {
		o.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	total, contexts := c.engine.Stats(), c.engine.Contexts()
	for _, m := range c.metrics {
		out <- prometheus.MustNewConstMetric(m.total, m.kind, m.value(&total))
		for i := range contexts {
			if m.context != nil {
				out <- prometheus.MustNewConstMetric(m.context, m.kind, m.value(&contexts[i].Stats), strconv.Itoa(i), contexts[i].Device)
			}
		}
	}
	for i, context := range contexts {
		up := 0.0
		if context.Up {
			up = 1
		}
		out <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, up, strconv.Itoa(i), context.Device)
	}
	out <- c.model
	for _, m := range c.placed {
		out <- m
	}
	for _, o := range c.others {
		o.Collect(out)
	}
}

// value is the metric's value in s, durations in seconds.
func (m *metric) value(s *scheduler.Stats) float64 {
	switch v := reflect.ValueOf(s).Elem().FieldByIndex(m.field); {
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
