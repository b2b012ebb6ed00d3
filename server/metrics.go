package server

import (
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"agentd/internal/base/budget"
	"agentd/protocol"
)

// metrics are the server's metrics. inference/live has the engine's.
type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	inFlight   prometheus.Gauge
	candidates *prometheus.CounterVec
	// For clients with a name. The token file bounds the number of names, and so of series.
	clientRequests, clientCandidates *prometheus.CounterVec
	panics                           prometheus.Counter
}

// latencyBuckets are in seconds.
var latencyBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}

func newMetrics(registry *prometheus.Registry, from Build, memory *budget.Budget, state func() State) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "agentd_" + name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	m := &metrics{
		registry: registry,
		requests: counter("http_requests_total",
			"Answered HTTP requests, by method, route and status (499: the client left).", "method", "route", "status"),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentd_http_request_duration_seconds",
			Help:    "Time from a request's headers to the end of its answer.",
			Buckets: latencyBuckets,
		}, []string{"method", "route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "agentd_http_requests_in_flight", Help: "HTTP requests in flight."}),
		candidates: counter("candidates_total",
			"Returned candidates, by status and error code.", "status", "code"),
		clientRequests: counter("client_requests_total",
			"Answered HTTP requests of clients with a named token, by client and status.", "client", "status"),
		clientCandidates: counter("client_candidates_total",
			"Candidates returned to clients with a named token, by client and status.", "client", "status"),
		panics: counter("panics_total", "Requests whose handler panicked. Each is a bug.").WithLabelValues(),
	}
	registry.MustRegister(m.latency, m.inFlight, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge := func(name, help string, labels prometheus.Labels, of func() int64) {
		opts := prometheus.GaugeOpts{Name: "agentd_" + name, Help: help, ConstLabels: labels}
		registry.MustRegister(prometheus.NewGaugeFunc(opts, func() float64 { return float64(of()) }))
	}
	gauge("build_info", "Always 1. The labels are the version of the program.",
		prometheus.Labels{"version": from.Version, "commit": from.Commit, "go": runtime.Version()}, func() int64 { return 1 })
	gauge("request_memory_bytes", "Memory that the requests in progress hold: bodies, prompts and answers.", nil, memory.Used)
	gauge("request_memory_limit_bytes", "Memory that requests may hold. It follows what the process may use and what the model takes.", nil, memory.Limit)
	for _, each := range []State{Loading, Ready, Draining} {
		gauge("state", "1 for the current state of the server.", prometheus.Labels{"state": each.String()}, func() int64 {
			if state() == each {
				return 1
			}
			return 0
		})
	}
	return m
}

func (m *metrics) outputs(client string, outs []protocol.AgentOutput) {
	for i := range outs {
		code := ""
		if outs[i].Error != nil {
			code = outs[i].Error.Code
		}
		m.candidates.WithLabelValues(outs[i].Status, code).Inc()
		if client != "" {
			m.clientCandidates.WithLabelValues(client, outs[i].Status).Inc()
		}
	}
}

// Build is the version of the program, for the metric agentd_build_info.
type Build struct {
	Version string // the release
	Commit  string // "unknown" if it was not recorded
}

const routeUnmatched = "unmatched"

// knownMethod returns a method of HTTP, or one value for all others: it bounds the values of a label.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "OTHER"
}
