package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

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

func newRemote(baseURL, token string) (*remote, error) {
	u, err := url.Parse(baseURL)
	// The error does not repeat the URL, which may hold a password.
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(baseURL, "@") {
		return nil, errors.New("target URL: must be an http or https URL with a host, without user, query and fragment")
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxIdleConns = idleConnections, 0
	t.DisableCompression = true // both sides' time is for the model
	return &remote{base: strings.TrimRight(u.String(), "/"), token: token, http: &http.Client{Transport: t}}, nil
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

// missing reports whether the server lacks the endpoint. llama-server answers 501 for
// a disabled one.
func missing(err error) bool {
	var f *Failure
	return errors.As(err, &f) && (f.Status == http.StatusNotFound || f.Status == http.StatusMethodNotAllowed || f.Status == http.StatusNotImplemented)
}
