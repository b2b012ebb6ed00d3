package backend

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
	"slices"
	"strings"
	"time"

	"agentd/coaching/egress"
	"agentd/coaching/internal/quote"
	"agentd/internal/base/retry"
	"agentd/protocol"
)

// userAgent has no version, because clients choose the endpoints.
const userAgent = "agentd"

// claudeVersion is the version of Anthropic's API. A session's header may name another one.
const claudeVersion = "2023-06-01"

// wire sends the requests of one backend. The headers are in a closure, so that fmt can't print them.
type wire struct {
	client     *http.Client
	endpoint   *url.URL
	setHeaders func(http.Header)
	redact     func(string) string
}

// object is a JSON object of a request.
type object map[string]any

func newWire(def protocol.CoachingBackend, o Options) (*wire, error) {
	endpoint, err := resolveEndpoint(def.Type, def.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Client == nil {
		return nil, errors.New("no client to send requests with")
	}
	// Keys are in headers or in the query. This backend's keys are redacted even if the caller's redactor does not
	// know them.
	own := quote.NewRedactor(def.Headers, quote.QueryKeys(def.Endpoint))
	return &wire{
		client:   o.Client.HTTP(),
		endpoint: endpoint,
		redact:   func(s string) string { return o.Redactor.Text(own.Text(s)) },
		setHeaders: func(h http.Header) {
			if def.Type == protocol.BackendAnthropic {
				h.Set("Anthropic-Version", claudeVersion)
			}
			for name, value := range def.Headers {
				h.Set(name, strings.TrimSpace(value))
			}
		},
	}, nil
}

// ollamaChat is the end of the path of an endpoint with Ollama's own API.
const ollamaChat = "/api/chat"

// wholePaths are the ends of the paths of complete endpoints. Any other endpoint is a base.
var wholePaths = []string{"/chat/completions", ollamaChat, "/messages"}

// basePaths has the path that is appended to a base, by type.
var basePaths = map[string]string{
	protocol.BackendOpenAI:    "/chat/completions",
	protocol.BackendOllama:    "/v1/chat/completions",
	protocol.BackendAnthropic: "/v1/messages",
}

// resolveEndpoint returns the URL for requests of a type. It keeps the query, where some services take the API version.
func resolveEndpoint(typ, endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		// The parser's error repeats the URL, and with it a password.
		return nil, fmt.Errorf("endpoint %q is not a URL: use http://host/path or https://host/path", egress.SafeURL(endpoint))
	}
	u.Fragment, u.RawFragment = "", ""
	path := strings.TrimRight(u.Path, "/")
	if slices.ContainsFunc(wholePaths, func(whole string) bool { return strings.HasSuffix(path, whole) }) {
		return u, nil
	}
	rest := basePaths[typ]
	if strings.HasSuffix(path, "/v1") {
		// People often include the version in the base. No server has /v1/v1.
		rest = strings.TrimPrefix(rest, "/v1")
	}
	if u.Path == "" {
		u.Path = "/" // JoinPath would make a path without its slash, which prints well and is a bad request
	}
	return u.JoinPath(rest), nil
}

// post sends a request as JSON and decodes the answer, a complete JSON object, into res. Fields that the answer does
// not have keep their values. The error is a *Error, or the context's.
func (w *wire) post(ctx context.Context, request object, res any) error {
	sent, err := json.Marshal(request)
	if err != nil {
		return w.fail(KindRefused, "the answer's schema: "+err.Error())
	}
	body, err := w.exchange(ctx, sent)
	if err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return w.fail(KindGarbled, "not a JSON object: "+string(body))
	}
	if err := w.hidden(members["error"]); err != nil {
		return err
	}
	if err := json.Unmarshal(body, res); err != nil {
		return w.fail(KindGarbled, err.Error())
	}
	return nil
}

// exchange sends a body and returns the body of the answer.
func (w *wire) exchange(ctx context.Context, sent []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.endpoint.String(), bytes.NewReader(sent))
	if err != nil {
		return nil, w.fail(KindRefused, err.Error())
	}
	req.Header = http.Header{"User-Agent": {userAgent}, "Accept": {"application/json"}, "Content-Type": {"application/json"}}
	w.setHeaders(req.Header)
	res, err := w.client.Do(req)
	if err != nil {
		return nil, w.broken(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, w.refused(res)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, w.broken(ctx, err)
	}
	return body, nil
}

// broken returns the error of a request without a complete answer.
func (w *wire) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := w.fail(KindUnreachable, egress.Cause(err).Error())
	var (
		forbidden *egress.ForbiddenError
		network   net.Error
		dial      *net.OpError
	)
	switch {
	case errors.Is(err, egress.ErrRedirect):
		e.Kind, e.Err = KindForbidden, egress.ErrRedirect
	case errors.Is(err, egress.ErrTooLarge):
		e.Kind, e.Err = KindTooLarge, egress.ErrTooLarge
	case errors.Is(err, egress.ErrEncoded):
		e.Kind, e.Err = KindGarbled, egress.ErrEncoded
	case errors.Is(err, egress.ErrClosed):
		e.Kind, e.Err = KindClosed, egress.ErrClosed
	case errors.As(err, &forbidden):
		e.Kind, e.Err = KindForbidden, forbidden
	case egress.Untrusted(err):
		e.lasting = true
	case errors.As(err, &dial) && dial.Op == "dial":
		// Not connected, possibly because of the timeout.
	case errors.As(err, &network) && network.Timeout():
		e.Kind = KindTimeout
	}
	return e
}

// refused returns the error of an answer with an error status.
func (w *wire) refused(res *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody+1))
	detail := ""
	switch {
	case err != nil:
		// The status is enough.
	case len(body) > maxErrorBody:
		// Clipping could leave half a key, which is not recognised.
		detail = "its explanation is too long to show"
	default:
		detail = errorMessage(body)
	}
	e := w.fail(statusKind(res.StatusCode), detail)
	e.Status, e.RetryAfter = res.StatusCode, retry.After(res.Header, time.Now())
	return e
}

// hidden returns the error in an answer with status 200, which gateways send before they have asked the model.
func (w *wire) hidden(raw json.RawMessage) error {
	message, status := innerMessage(raw)
	if message == "" {
		return nil
	}
	e := w.fail(KindFailed, message)
	if status >= 400 && status <= 599 {
		e.Kind, e.Status = statusKind(status), status
	}
	return e
}

// errorMessage returns the message in an error's body: {"error": …} of the APIs, {"message": "…"} or {"detail": "…"} of
// gateways, otherwise the text.
func errorMessage(body []byte) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) == nil {
		for _, name := range []string{"error", "message", "detail"} {
			if message, _ := innerMessage(members[name]); message != "" {
				return message
			}
		}
	}
	return string(body)
}

// innerMessage reads "…" or {"message": "…", "code": 502}. A code other than a number counts as none.
func innerMessage(raw json.RawMessage) (message string, code int) {
	if json.Unmarshal(raw, &message) == nil {
		return message, 0
	}
	var inner struct {
		Message string          `json:"message"`
		Code    json.RawMessage `json:"code"`
	}
	_ = json.Unmarshal(raw, &inner) // else there is neither
	_ = json.Unmarshal(inner.Code, &code)
	return inner.Message, code
}

// fail returns an error with a redacted detail.
func (w *wire) fail(kind Kind, detail string) *Error {
	return &Error{Kind: kind, Detail: w.show(detail, maxDetail)}
}

// show returns one line of at most limit characters without secrets. It redacts before it clips, which could leave half
// a secret, and again after it has joined spaces.
func (w *wire) show(s string, limit int) string {
	return w.redact(quote.Line(w.redact(s), limit))
}
