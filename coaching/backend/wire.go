package backend

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"agentd/coaching/egress"
	"agentd/protocol"
)

// userAgent has no version, because clients choose the endpoints.
const userAgent = "agentd"

// sdkHeaders are the SDKs' headers that requests keep. The others tell endpoints the operating system and Go version.
var sdkHeaders = []string{"Accept", "Anthropic-Version", "Content-Type"}

// wire sends the requests of one backend. Every request goes through exchange, which sets its URL and headers and turns
// every failed answer into a *Error.
type wire struct {
	client   *http.Client
	endpoint *url.URL
	headers  egress.Headers
	redact   func(string) string
}

func newWire(def protocol.CoachingBackend, o Options) (*wire, error) {
	endpoint, err := resolveEndpoint(def.Type, def.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Client == nil {
		return nil, errors.New("no client to send requests with")
	}
	// Keys are in headers or in the query. Those of this backend are redacted even if the caller's redactor does not
	// know them.
	own := egress.NewRedactor(def.Headers, egress.QueryKeys(def.Endpoint))
	return &wire{
		client:   o.Client.HTTP(),
		endpoint: endpoint,
		headers:  egress.NewHeaders(def.Headers),
		redact:   func(s string) string { return o.Redactor.Text(own.Text(s)) },
	}, nil
}

// base is the URL for an SDK, which appends its own path. exchange replaces that by the endpoint's.
func (w *wire) base() string {
	return (&url.URL{Scheme: w.endpoint.Scheme, Host: w.endpoint.Host, Path: "/"}).String()
}

// exchange sends a request with next and returns an answer whose body is a complete JSON object. It is middleware for
// both SDKs. The error is a *Error, or the context's.
func (w *wire) exchange(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	endpoint := *w.endpoint
	req.URL, req.Host = &endpoint, ""
	header := http.Header{"User-Agent": {userAgent}}
	for _, name := range sdkHeaders {
		if values := req.Header.Values(name); len(values) > 0 {
			header[name] = values
		}
	}
	w.headers.Apply(header)
	req.Header = header

	res, err := next(req)
	if err != nil {
		return nil, w.broken(req.Context(), err)
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, w.refused(res)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, w.broken(req.Context(), err)
	}
	if len(body) > maxAnswer {
		return nil, w.broken(req.Context(), egress.ErrTooLarge)
	}
	if !json.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
		// The SDKs return nil without an error for null.
		return nil, w.fail(KindGarbled, "no JSON object: "+string(body))
	}
	if values(body) > maxValues {
		return nil, w.broken(req.Context(), egress.ErrTooLarge)
	}
	if err := w.hidden(body); err != nil {
		return nil, err
	}
	// Some endpoints label JSON as text, which the SDKs reject.
	res.Header.Set("Content-Type", "application/json")
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// values is the approximate number of elements and members in valid JSON, at all levels.
func values(body []byte) int {
	n, inString := 1, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '\\':
			i++ // only strings have escapes
		case c == '"':
			inString = !inString
		case c == ',' && !inString:
			n++
		}
	}
	return n
}

// broken is the error of a request without a complete answer.
func (w *wire) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := w.fail(KindUnreachable, egress.Cause(err).Error())
	var (
		forbidden   *egress.ForbiddenError
		certificate *tls.CertificateVerificationError
		noTLS       tls.RecordHeaderError
		network     net.Error
		dial        *net.OpError
	)
	switch {
	case errors.As(err, &forbidden):
		e.Kind, e.Err = KindForbidden, forbidden
	case errors.Is(err, egress.ErrRedirect):
		e.Kind, e.Err = KindForbidden, egress.ErrRedirect
	case errors.Is(err, egress.ErrTooLarge):
		e.Kind, e.Err = KindTooLarge, egress.ErrTooLarge
	case errors.Is(err, egress.ErrEncoded):
		e.Kind, e.Err = KindGarbled, egress.ErrEncoded
	case errors.Is(err, egress.ErrClosed):
		e.Kind, e.Err = KindClosed, egress.ErrClosed
	case errors.As(err, &certificate), errors.As(err, &noTLS), errors.Is(err, http.ErrSchemeMismatch):
		e.lasting = true
	case errors.As(err, &dial) && dial.Op == "dial":
		// Not connected, possibly because of the timeout.
	case errors.As(err, &network) && network.Timeout():
		e.Kind = KindTimeout
	}
	return e
}

// refused is the error of an answer with a failing status.
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
	e.Status, e.RetryAfter = res.StatusCode, retryAfter(res.Header, time.Now())
	return e
}

// hidden finds the error in an answer with status 200. Gateways send that status before they have asked the model.
func (w *wire) hidden(body []byte) error {
	var envelope struct {
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return w.fail(KindGarbled, err.Error())
	}
	message, status := innerMessage(envelope.Error)
	if message == "" {
		return nil
	}
	e := w.fail(KindFailed, message)
	if status >= 400 && status <= 599 {
		e.Kind, e.Status = statusKind(status), status
	}
	return e
}

// errorMessage is the message in an error's body: {"error": …} of the APIs, {"message": "…"} or {"detail": "…"} of
// gateways, else the text.
func errorMessage(body []byte) string {
	var envelope struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &envelope) == nil {
		for _, raw := range []json.RawMessage{envelope.Error, envelope.Message, envelope.Detail} {
			if message, _ := innerMessage(raw); message != "" {
				return message
			}
		}
	}
	return string(body)
}

// innerMessage reads "…" or {"message": "…", "code": 502}. A code that is no number counts as none.
func innerMessage(raw json.RawMessage) (message string, code int) {
	if json.Unmarshal(raw, &message) == nil {
		return message, 0
	}
	var inner struct {
		Message string          `json:"message"`
		Code    json.RawMessage `json:"code"`
	}
	if json.Unmarshal(raw, &inner) != nil || json.Unmarshal(inner.Code, &code) != nil {
		code = 0
	}
	return inner.Message, code
}

// fail makes an error with a redacted detail.
func (w *wire) fail(kind Kind, detail string) *Error {
	return &Error{Kind: kind, Detail: w.show(detail, maxDetail)}
}

// settle turns an SDK's error into Ask's. Errors of exchange stay; others are about bodies that the SDK cannot decode.
func (w *wire) settle(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return w.fail(KindGarbled, err.Error())
}

// show makes one line of at most limit characters without secrets. It redacts before clipping, which could leave half a
// secret, and again after joining spaces.
func (w *wire) show(s string, limit int) string {
	return w.redact(oneLine(w.redact(s), limit))
}

// oneLine joins the lines of a text, drops control characters, and clips it to limit characters.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return s
}
