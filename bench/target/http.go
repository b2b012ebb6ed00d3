package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"agentd/bench/workload"
)

// maxAnswer bounds an answer in bytes: each candidate of agentd has a whole memory.
const maxAnswer = 1 << 30

// idleConnections are kept open, so that a run with many agents does not measure the
// opening of connections.
const idleConnections = 4096

// remote is the HTTP side of all targets.
type remote struct {
	base  string // without a slash at its end
	http  *http.Client
	token string
}

// Close closes the connections.
func (r *remote) Close() error {
	r.http.CloseIdleConnections()
	return nil
}

// exchange sends a request and reads the whole answer of status 200. Errors are *Failure
// or the context's.
func (r *remote) exchange(ctx context.Context, method, path string, body []byte) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		// llama-server closes idle connections, possibly just when the next request comes.
		// The key lets net/http send that request again on another connection. A nil value
		// is not sent to the server.
		req.Header["Idempotency-Key"] = nil
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	res, err := r.http.Do(req)
	if err != nil {
		return nil, nil, transport(ctx, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, transport(ctx, err)
	case len(answer) > maxAnswer:
		return nil, nil, contract("%s answered with more than %d bytes", path, maxAnswer)
	case res.StatusCode == http.StatusOK:
		return answer, res.Header, nil
	}
	f := &Failure{
		Kind: Status, Status: res.StatusCode,
		Err: fmt.Errorf("%s answered %s: %.500s", path, res.Status, answer),
	}
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		f.Kind = Refused
	}
	return nil, nil, f
}

// get reads metrics or properties.
func (r *remote) get(ctx context.Context, path string) ([]byte, error) {
	body, _, err := r.exchange(ctx, http.MethodGet, path, nil)
	return body, err
}

// turnError is the error of a turn that can't be sent.
func turnError(t *workload.Turn, format string, args ...any) error {
	return fmt.Errorf("agent %d, turn %d "+format, append([]any{t.Agent, t.Turn}, args...)...)
}

// transport is the error of an exchange without an answer.
func transport(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &Failure{Kind: Transport, Err: err}
}

// contract is the error of an answer that breaks the protocol.
func contract(format string, args ...any) error {
	return &Failure{Kind: Contract, Err: fmt.Errorf(format, args...)}
}

// headerTiming of agentd's answers: queue;dur=1.2, ttft;dur=34.5
const headerTiming = "Server-Timing"

// maxMillis bounds a duration, at about 31 years.
const maxMillis = 1e12

// parseTTFT reads TTFT from the headers as agentd writes them; -1 if it is missing.
func parseTTFT(values []string) (time.Duration, error) {
	for metric := range strings.SplitSeq(strings.Join(values, ","), ",") {
		dur, found := strings.CutPrefix(strings.TrimSpace(metric), "ttft;dur=")
		if !found {
			continue
		}
		ms, err := strconv.ParseFloat(dur, 64)
		if err != nil || bad(ms) {
			return -1, fmt.Errorf("%s: dur of ttft is %.40q, want milliseconds", headerTiming, dur)
		}
		return millis(ms), nil
	}
	return -1, nil
}

func bad(ms float64) bool { return !(ms >= 0 && ms <= maxMillis) }

// millis is a duration of at most maxMillis.
func millis(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}

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
	// llama-server answers 501 for an endpoint that is disabled.
	missing := []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}
	if f, ok := errors.AsType[*Failure](err); ok && slices.Contains(missing, f.Status) {
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
