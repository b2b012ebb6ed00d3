// Package human asks a person: it posts a task to an endpoint where people
// work, such as the console, and waits for the answer as long as it takes.
//
// A wait of hours outlives connections, proxies and the endpoint's process. The
// task's id makes that harmless: it is posted again, and joins the task that the
// person is working on.
package human

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"agentd/coaching/egress"
	"agentd/coaching/internal/pause"
	"agentd/protocol"
)

// Options are the settings of a Coach; the zero value is the usual one.
type Options struct {
	Backoff    time.Duration // the wait after a first failure, which doubles; 0: DefaultBackoff
	MaxBackoff time.Duration // the longest wait; 0: DefaultMaxBackoff

	// Log is told of every failure after which the task is posted again; nil:
	// nobody is. It is called by the goroutine that asks.
	Log func(Failure)

	Sleep func(ctx context.Context, d time.Duration) error // nil: a timer
	Rand  func() float64                                   // in [0,1); nil: math/rand
	Now   func() time.Time                                 // nil: time.Now
}

// Failure is one broken wait.
type Failure struct {
	Try  int           // from 1
	Sent bool          // whether the endpoint may have the task by now
	Err  error         // what happened, without keys
	Wait time.Duration // until the task is posted again
}

// Coach asks the people behind one endpoint. It is safe for concurrent use.
type Coach struct {
	endpoint string
	shown    string // the endpoint for messages
	keys     *egress.Redactor
	client   *egress.Client
	opts     Options
}

// New makes a coach of an endpoint, the part of the URL before
// /v1/coaching/requests. A query is kept.
func New(endpoint string, client *egress.Client, o Options) *Coach {
	o.Backoff = cmp.Or(max(o.Backoff, 0), DefaultBackoff)
	o.MaxBackoff = cmp.Or(max(o.MaxBackoff, 0), DefaultMaxBackoff)
	if o.Log == nil {
		o.Log = func(Failure) {}
	}
	if o.Sleep == nil {
		o.Sleep = pause.Sleep
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Coach{
		endpoint: endpoint,
		shown:    egress.SafeURL(endpoint),
		keys:     egress.NewRedactor(egress.QueryKeys(endpoint)),
		client:   client,
		opts:     o,
	}
}

// Ask posts the task and waits for the person, who may take for ever: only ctx
// ends the wait. After a broken connection the same task is posted again. The
// answer fits the task; the error is *Error unless ctx ended, then it is the
// cause of that.
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
		// A proxy that answers at once stands before an endpoint that is not there.
		everSent = everSent || held || sent && !isBusy(err)
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

// post does one wait. The error of a refusal is *Error; sent says whether the
// endpoint, or a proxy before it, got the whole request.
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
		answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
		switch {
		case err != nil:
			err = egress.Cause(err)
		case len(answer) > maxAnswer:
			err = egress.ErrTooLarge
		}
		return answer, wrote.Load(), err
	case temporary(res.StatusCode):
		return nil, wrote.Load(), &busyError{res.StatusCode, retryAfter(res)}
	case res.StatusCode == http.StatusConflict:
		return nil, wrote.Load(), c.broken(res.StatusCode, nil, "already has another task with this request_id: %s", c.said(res))
	}
	return nil, wrote.Load(), c.broken(res.StatusCode, nil, "does not take the task: it answered %d %s", res.StatusCode, c.said(res))
}

// read makes an answer of a body.
func (c *Coach) read(body []byte, req *protocol.HumanCoachingRequest) (*protocol.HumanCoachingResponse, error) {
	res, err := decode(body, req)
	if err == nil {
		return res, nil
	}
	// The error repeats the beginnings of values, and half a key is not recognised.
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

// Withdraw takes a task back, so that no person works on it in vain. Endpoints
// that cannot do that, or do not know the task, are fine. The error is *Error
// unless ctx ended.
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

// Reach reports why the endpoint does not answer; nil means that it does. It withdraws
// a task that no person has, whose id the caller makes up.
func (c *Coach) Reach(ctx context.Context, id string) error {
	err := c.Withdraw(ctx, id)
	var e *Error
	if errors.As(err, &e) && e.Status != 0 && !temporary(e.Status) {
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

// said is what an endpoint gave as the reason of a status.
func (c *Coach) said(res *http.Response) string {
	// What can't be read of an error's body is not worth another error.
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	detail, problems := protocol.DecodeErrorBody([]byte(c.keys.Text(string(body)))) // before it cuts any
	if len(problems) > 0 {
		detail = problems.Error()
	}
	return c.clean(detail)
}

// clean is a text of the endpoint's on one line, without keys and not too long.
func (c *Coach) clean(s string) string {
	s = strings.Join(strings.Fields(c.keys.Text(strings.ToValidUTF8(s, "?"))), " ")
	if r := []rune(s); len(r) > maxDetail {
		return string(r[:maxDetail]) + "…"
	}
	return s
}
