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

// wire sends the requests of one backend.
type wire struct {
	client   *http.Client
	endpoint *url.URL
	headers  egress.Headers
	version  string // of Anthropic's API; "" for others
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

// post sends a request as JSON and decodes the answer, a complete JSON object, into res. It replaces no member that the
// answer lacks. The error is a *Error, or the context's.
func (w *wire) post(ctx context.Context, request, res any) error {
	sent, err := json.Marshal(request)
	if err != nil {
		return w.fail(KindRefused, "the answer's schema: "+err.Error())
	}
	body, err := w.exchange(ctx, sent)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, res); err != nil {
		return w.fail(KindGarbled, err.Error())
	}
	return nil
}

// exchange sends a body and returns the answer's.
func (w *wire) exchange(ctx context.Context, sent []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.endpoint.String(), bytes.NewReader(sent))
	if err != nil {
		return nil, w.fail(KindRefused, err.Error())
	}
	req.Header = http.Header{"User-Agent": {userAgent}, "Accept": {"application/json"}, "Content-Type": {"application/json"}}
	if w.version != "" {
		req.Header.Set("Anthropic-Version", w.version)
	}
	w.headers.Apply(req.Header)
	res, err := w.client.Do(req)
	if err != nil {
		return nil, w.broken(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, w.refused(res)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, w.broken(ctx, err)
	}
	if len(body) > maxAnswer {
		return nil, w.broken(ctx, egress.ErrTooLarge)
	}
	if !json.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
		return nil, w.fail(KindGarbled, "no JSON object: "+string(body))
	}
	if err := w.hidden(body); err != nil {
		return nil, err
	}
	return body, nil
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
