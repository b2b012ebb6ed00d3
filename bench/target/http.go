package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"agentd/protocol"
)

// Limits of what is read from a server.
const (
	maxAnswer = 1 << 30 // bytes of an answer: every candidate of agentd carries a whole memory
	maxError  = 1 << 20 // bytes of an error's body
	maxFacts  = 16 << 20
)

// idleConnections are kept open to a server, so that a run with many agents
// measures the server and not the making of connections.
const idleConnections = 4096

// Mode is how the candidates of one input are asked for.
type Mode string

// The modes.
const (
	ModeN        Mode = "n"        // one request for all candidates
	ModeSeparate Mode = "separate" // a request for each, all at once
)

func (m Mode) validate() error {
	if m != ModeN && m != ModeSeparate {
		return fmt.Errorf("mode %q: use %s (one request for all candidates) or %s (a request for each)", string(m), ModeN, ModeSeparate)
	}
	return nil
}

// Option changes a new target.
type Option func(*remote)

// WithHTTPClient uses an own HTTP client, for TLS settings and tests. It must not
// have a Timeout: how long a turn may take is the context's affair.
func WithHTTPClient(c *http.Client) Option { return func(r *remote) { r.http = c } }

// WithBearerToken sends a bearer token with every request.
func WithBearerToken(token string) Option { return func(r *remote) { r.token = token } }

// remote is the HTTP side of all targets.
type remote struct {
	base  string // without a slash at its end
	http  *http.Client
	token string
}

func newRemote(baseURL string, opts []Option) (*remote, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("target URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("target URL %q: must be an http or https URL with a host, without query and fragment", baseURL)
	}
	r := &remote{base: strings.TrimRight(u.String(), "/")}
	for _, opt := range opts {
		opt(r)
	}
	if r.http == nil {
		r.http = &http.Client{Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			MaxIdleConnsPerHost: idleConnections,
			DisableCompression:  true, // both sides' time is for the model
		}}
	}
	return r, nil
}

// Close lets go of the connections.
func (r *remote) Close() error {
	r.http.CloseIdleConnections()
	return nil
}

// send does one exchange. The answer has status 200 and its body is the caller's
// to close. Errors are *Failure or the context's.
func (r *remote) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, reader)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		// llama-server closes connections that were idle for some seconds, or had many
		// requests, just when the next request comes. Net/http sends that one again on
		// another connection if it may be sent twice, which this key says, without a
		// value only to net/http; it never does so when an answer has begun.
		req.Header["Idempotency-Key"] = nil
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	res, err := r.http.Do(req)
	if err != nil {
		return nil, transport(ctx, err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	// What can't be read of an error's body is not worth another error.
	said, _ := io.ReadAll(io.LimitReader(res.Body, maxError))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	f := &Failure{
		Kind: Status, Status: res.StatusCode, RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now()),
		Err: fmt.Errorf("%s answered %d %s: %s", path, res.StatusCode, http.StatusText(res.StatusCode), errorText(said)),
	}
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		f.Kind = Refused
	}
	return nil, f
}

// exchange is send with the whole body of the answer, of at most limit bytes.
func (r *remote) exchange(ctx context.Context, method, path string, body []byte, limit int64) ([]byte, http.Header, error) {
	res, err := r.send(ctx, method, path, body)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, nil, transport(ctx, err)
	}
	if int64(len(answer)) > limit {
		return nil, nil, contract("%s answered with more than %d bytes", path, limit)
	}
	return answer, res.Header, nil
}

// get reads facts of the server: metrics, models, properties.
func (r *remote) get(ctx context.Context, path string) ([]byte, error) {
	body, _, err := r.exchange(ctx, http.MethodGet, path, nil, maxFacts)
	return body, err
}

// getJSON reads a JSON object into v, leniently: other members are no error.
func (r *remote) getJSON(ctx context.Context, path string, v any) error {
	body, err := r.get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return contract("%s: %w", path, err)
	}
	return nil
}

// transport is the error of an exchange without an answer.
func transport(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &Failure{Kind: Transport, Err: err}
}

// contract is the error of an answer that can't be read.
func contract(format string, args ...any) error {
	return &Failure{Kind: Contract, Err: fmt.Errorf(format, args...)}
}

// missing reports whether err says that a server has no such endpoint, or has it
// switched off (llama-server answers 501 then).
func missing(err error) bool {
	var f *Failure
	return errors.As(err, &f) && (f.Status == http.StatusNotFound || f.Status == http.StatusMethodNotAllowed || f.Status == http.StatusNotImplemented)
}

// retryAfter reads a Retry-After header, seconds or a date; 0 when there is none
// that can be read (RFC 9110, section 10.2.3).
func retryAfter(value string, now time.Time) time.Duration {
	if s, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// errorText is what an error's body says: OpenAI's {"error": {"message"}},
// Ollama's {"error": "text"}, agentd's {"detail"}, or the body itself.
func errorText(body []byte) string {
	var wrapped struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &wrapped) == nil && wrapped.Error != nil {
		if text := serverError(wrapped.Error); text != "" {
			return text
		}
	}
	detail, problems := protocol.DecodeErrorBody(body)
	if len(problems) > 0 {
		return problems.Error()
	}
	return detail
}

// serverError is the text of an "error" member; "" when it has none.
func serverError(raw json.RawMessage) string {
	var object struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &object) == nil && object.Message != "" {
		return object.Message
	}
	var text string
	_ = json.Unmarshal(raw, &text) // not a string: it says nothing that we could show
	return text
}
