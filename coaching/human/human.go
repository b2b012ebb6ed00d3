// Package human asks people for corrections. It posts a task to an endpoint, such as the console,
// and waits for the answer without a time limit.
//
// A wait may take hours, in which connections break and the endpoint restarts. After such a
// failure the task is posted again with the same id, and joins the one in progress.
package human

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"agentd/coaching/egress"
	"agentd/coaching/internal/quote"
	"agentd/internal/base/retry"
	"agentd/protocol"
)

// Options configure a [Coach]. Log is called with every failure after which the task is posted again,
// from the goroutine of Ask. Sleep waits, or returns an error if ctx ends.
type Options struct {
	Log   func(Failure)
	Sleep func(ctx context.Context, d time.Duration) error
	Rand  func() float64 // in [0,1)
	Now   func() time.Time
}

// Failure is one interrupted wait.
type Failure struct {
	Try  int           // from 1
	Sent bool          // whether the endpoint may have the task
	Err  error         // what happened, without keys
	Wait time.Duration // until the task is posted again
}

// Coach asks the people at one endpoint. It is safe for concurrent use.
type Coach struct {
	endpoint string
	shown    string // the endpoint for messages
	keys     *quote.Redactor
	client   *egress.Client
	opts     Options
}

// New makes the coach of an endpoint, the URL up to /v1/coaching/requests. It keeps a
// query.
func New(endpoint string, client *egress.Client, o Options) *Coach {
	return &Coach{
		endpoint: endpoint,
		shown:    egress.SafeURL(endpoint),
		keys:     quote.NewRedactor(quote.QueryKeys(endpoint)),
		client:   client,
		opts:     o,
	}
}

// Ask posts the task and waits for the person until ctx ends. After a broken connection it posts the task again. The
// answer is validated against the task. The error is a *Error, or ctx's cause if that ended.
func (c *Coach) Ask(ctx context.Context, req *protocol.HumanCoachingRequest) (*protocol.HumanCoachingResponse, error) {
	body := req.AppendJSON(nil)
	everSent, failures := false, 0
	for try := 1; ; try++ {
		began := c.opts.Now()
		answer, sent, err := c.post(ctx, body)
		if err == nil {
			return c.read(answer, req)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if final := c.final(err); final != nil {
			return nil, final
		}
		held := sent && c.opts.Now().Sub(began) >= steady
		if held {
			failures = 0
		}
		// A proxy that answers at once has no endpoint.
		everSent = everSent || held || sent && !errors.As(err, new(*busyError))
		failures++
		if !everSent && failures >= MaxFirstFailures || failures >= MaxFailures {
			return nil, c.unreachable(err)
		}
		wait := c.wait(failures, err)
		c.opts.Log(Failure{try, everSent, errors.New(c.clean(err.Error())), wait})
		if err := c.opts.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// post makes one wait. A rejection is a *Error. sent reports whether the endpoint, or a
// proxy before it, got the whole request.
func (c *Coach) post(ctx context.Context, body []byte) (answer []byte, sent bool, err error) {
	var wrote atomic.Bool // the trace is called by another goroutine
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(i httptrace.WroteRequestInfo) { wrote.Store(i.Err == nil) },
	})
	res, err := c.do(ctx, http.MethodPost, "", body)
	if err != nil {
		return nil, wrote.Load(), err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusOK:
		answer, err = io.ReadAll(res.Body)
		return answer, wrote.Load(), egress.Cause(err)
	case temporary(res.StatusCode):
		return nil, wrote.Load(), &busyError{res.StatusCode, retry.After(res.Header, time.Now())}
	case res.StatusCode == http.StatusConflict:
		return nil, wrote.Load(), c.broken(res.StatusCode, nil, "already has another task with this request_id: %s", c.said(res))
	}
	return nil, wrote.Load(), c.broken(res.StatusCode, nil, "does not take the task: it answered %d %s", res.StatusCode, c.said(res))
}

// read decodes an answer.
func (c *Coach) read(body []byte, req *protocol.HumanCoachingRequest) (*protocol.HumanCoachingResponse, error) {
	res, err := decode(body, req)
	if err == nil {
		return res, nil
	}
	// The error repeats clipped values, and half a key is not recognised.
	why := "it repeats a key"
	if _, err := decode([]byte(c.keys.Text(string(body))), req); err != nil {
		why = c.clean(err.Error())
	}
	return nil, c.broken(http.StatusOK, nil, "breaks the protocol: %s", why)
}

func decode(body []byte, req *protocol.HumanCoachingRequest) (*protocol.HumanCoachingResponse, error) {
	res, err := protocol.DecodeHumanCoachingResponse(body)
	if err != nil {
		return nil, err
	}
	return res, res.Validate(req)
}

// Withdraw removes a task, so that no person works on it in vain. An endpoint that does not support that or does not
// know the task is not an error. The error is a *Error, or ctx's cause if that ended.
func (c *Coach) Withdraw(ctx context.Context, requestID string) error {
	res, err := c.do(ctx, http.MethodDelete, "/"+url.PathEscape(requestID), nil)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if final := c.final(err); final != nil {
			return final
		}
		return c.unreachable(err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented:
		return nil
	}
	return c.broken(res.StatusCode, nil, "does not withdraw the task: it answered %d %s", res.StatusCode, c.said(res))
}

// Reach returns the reason why the endpoint does not answer, nil if it does. It withdraws a task that does
// not exist: the caller makes up the id.
func (c *Coach) Reach(ctx context.Context, id string) error {
	err := c.Withdraw(ctx, id)
	if e, ok := errors.AsType[*Error](err); ok && e.Status != 0 && !temporary(e.Status) {
		return nil
	}
	return err
}

// do sends one request below /v1/coaching/requests.
func (c *Coach) do(ctx context.Context, method, below string, body []byte) (*http.Response, error) {
	base, query, hasQuery := strings.Cut(c.endpoint, "?")
	target := strings.TrimRight(base, "/") + "/v1/coaching/requests" + below
	if hasQuery {
		target += "?" + query
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, &egress.ForbiddenError{What: c.shown, Why: "is not a URL"}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	res, err := c.client.HTTP().Do(req)
	if err != nil {
		return nil, egress.Cause(err)
	}
	return res, nil
}

// said returns the reason in an error's body.
func (c *Coach) said(res *http.Response) string {
	// Failures to read an error's body are ignored.
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	detail, problems := protocol.DecodeErrorBody([]byte(c.keys.Text(string(body)))) // before it cuts any
	if len(problems) > 0 {
		detail = problems.Error()
	}
	return c.clean(detail)
}

// clean returns an endpoint's text on one line, clipped and without keys.
func (c *Coach) clean(s string) string {
	return quote.Line(c.keys.Text(strings.ToValidUTF8(s, "?")), maxDetail)
}

// Kind is the kind of an Error.
type Kind string

// Kinds of errors.
const (
	Unreachable Kind = "unreachable" // no connection, or it was lost for good
	Forbidden   Kind = "forbidden"   // the policy does not allow the endpoint
	Broken      Kind = "broken"      // the endpoint violates the protocol
)

// Error is the reason why no person answered.
type Error struct {
	Kind   Kind
	Status int    // of the answer, 0 without one
	Detail string // a sentence without keys
	Err    error  // the cause; nil if the answer is invalid
}

func (e *Error) Error() string { return e.Detail }

func (e *Error) Unwrap() error { return e.Err }

// broken returns an error about an answer of the endpoint.
func (c *Coach) broken(status int, cause error, format string, args ...any) *Error {
	return &Error{Broken, status, "the coaching endpoint " + c.shown + " " + fmt.Sprintf(format, args...), cause}
}

// final returns the error of a failed exchange that a retry would not change, otherwise nil.
func (c *Coach) final(err error) *Error {
	var refused *Error
	var forbidden *egress.ForbiddenError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &forbidden):
		return &Error{Forbidden, 0, "the coaching endpoint is not allowed: " + forbidden.Error(), err}
	case errors.Is(err, egress.ErrRedirect), errors.Is(err, egress.ErrTooLarge), errors.Is(err, egress.ErrEncoded):
		return c.broken(0, err, "cannot be used: %v", err)
	case errors.Is(err, egress.ErrClosed), egress.Untrusted(err):
		return c.unreachable(err)
	}
	return nil
}

func (c *Coach) unreachable(err error) *Error {
	return &Error{Unreachable, 0, fmt.Sprintf("the coaching endpoint %s cannot be reached: %s", c.shown, c.clean(err.Error())), err}
}

// temporary reports whether a status is that of a proxy or a busy endpoint, and not one of the protocol.
func temporary(status int) bool {
	return slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, status)
}

// busyError is a temporary status.
type busyError struct {
	status int
	after  time.Duration // of Retry-After, 0 if absent
}

func (e *busyError) Error() string {
	return fmt.Sprintf("it answered %d %s", e.status, http.StatusText(e.status))
}

// wait returns the wait after a number of failures in a row. An endpoint may ask for more, up to maxBackoff.
func (c *Coach) wait(failures int, err error) time.Duration {
	wait := retry.Backoff(failures, firstBackoff, maxBackoff, 1-c.opts.Rand())
	if busy, ok := errors.AsType[*busyError](err); ok {
		wait = max(wait, min(busy.after, maxBackoff))
	}
	return wait
}
