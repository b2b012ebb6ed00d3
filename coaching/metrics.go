package coaching

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/coaching/backend"
)

// metrics are the metrics of coaching. Labels are constants of this package and of protocol,
// never names, models or URLs of clients.
type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	attempts *prometheus.CounterVec
	waits    *prometheus.HistogramVec
	tokens   *prometheus.CounterVec
	inFlight prometheus.Gauge
	refused  *prometheus.CounterVec
}

// secondsBuckets range from a repair without a model to a person who answers the next day.
var secondsBuckets = []float64{.01, .1, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 24 * 3600}

// newMetrics registers the metrics; the registerer may be nil.
func newMetrics(to prometheus.Registerer, sessions, tasks func() float64) (*metrics, error) {
	const name = "agentd_coaching_"
	counter := func(what, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name + what, Help: help}, labels)
	}
	seconds := func(what, help, label string) *prometheus.HistogramVec {
		opts := prometheus.HistogramOpts{Name: name + what, Help: help, Buckets: secondsBuckets}
		return prometheus.NewHistogramVec(opts, []string{label})
	}
	m := &metrics{
		requests: counter("requests_total",
			"Coaching requests that entered a session, by kind, provider and status (left: the caller disconnected).",
			"kind", "provider", "status"),
		latency: seconds("request_seconds", "Duration of a coaching request, from entry into its session to its answer.", "provider"),
		attempts: counter("attempts_total", "Calls to coaching models, by backend type and outcome (answered, or the kind of failure).",
			"type", "outcome"),
		waits: seconds("attempt_seconds", "Duration of one call to a coaching model, by backend type.", "type"),
		tokens: counter("tokens_total", "Tokens that coaching models reported, by backend type and direction (prompt, completion).",
			"type", "direction"),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: name + "requests_in_flight", Help: "Coaching requests in sessions, including those that wait.",
		}),
		refused: counter("refused_total", "Sessions and requests rejected because a bound was reached, by bound (sessions, requests).",
			"bound"),
	}
	if to == nil {
		return m, nil
	}
	gauge := func(what, help string, of func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name + what, Help: help}, of)
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.latency, m.attempts, m.waits, m.tokens, m.inFlight, m.refused,
		gauge("sessions", "Coaching sessions, including those that are closing.", sessions),
		gauge("tasks", "Tasks of this server that people have not answered yet.", tasks),
	} {
		if err := to.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) request(kind, provider, status string, took time.Duration) {
	m.requests.WithLabelValues(kind, provider, status).Inc()
	m.latency.WithLabelValues(provider).Observe(took.Seconds())
}

func (m *metrics) attempt(typ string, a backend.Attempt) {
	m.attempts.WithLabelValues(typ, backend.Outcome(a.Err)).Inc()
	m.waits.WithLabelValues(typ).Observe(a.Took.Seconds())
	m.tokens.WithLabelValues(typ, "prompt").Add(float64(max(a.Answer.PromptTokens, 0)))
	m.tokens.WithLabelValues(typ, "completion").Add(float64(max(a.Answer.CompletionTokens, 0)))
}

// full counts err if it is a *FullError, and returns err.
func (m *metrics) full(bound string, err error) error {
	if full := (*FullError)(nil); errors.As(err, &full) {
		m.refused.WithLabelValues(bound).Inc()
	}
	return err
}
