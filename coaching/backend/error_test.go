package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"agentd/coaching/egress"
	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

func TestEveryErrorKindHasText(t *testing.T) {
	for _, c := range []struct {
		err  *Error
		want string
	}{
		{&Error{Kind: KindTruncated, Detail: "x"}, "the answer was cut off: x"},
		{&Error{Kind: KindRefused, Status: 404, Detail: "no such model"}, "the model's endpoint refuses the request (404 Not Found): no such model"},
		{&Error{Kind: KindBusy, Status: 529, RetryAfter: 90 * time.Second}, "the model is busy (529) (asks to wait 1m30s)"},
		{&Error{Kind: KindUnreachable, Detail: "connection refused"}, "cannot reach the model: connection refused"},
	} {
		if c.err.Error() != c.want {
			t.Errorf("got %q, want %q", c.err, c.want)
		}
	}
	for kind, text := range kindTexts {
		if text == "" {
			t.Errorf("%s has no text", kind)
		}
	}
}

func TestStatusMapsToErrorKind(t *testing.T) {
	kinds := map[Kind][]int{
		KindTimeout: {408}, KindBusy: {409, 425, 429, 503, 529}, KindFailed: {500, 501, 502, 504, 520, 599},
		KindRefused: {400, 401, 402, 403, 404, 405, 413, 418, 422, 451}, KindGarbled: {100, 300, 304, 399},
	}
	for kind, statuses := range kinds {
		for _, status := range statuses {
			if got := statusKind(status); got != kind {
				t.Errorf("%d is %s, want %s", status, got, kind)
			}
		}
	}
}

func TestErrorsKeepOnlyCausesWithoutSecrets(t *testing.T) {
	w := &wire{redact: func(s string) string { return s }}
	for _, c := range []struct {
		cause error
		kind  Kind
		keeps error
	}{
		{egress.ErrRedirect, KindForbidden, egress.ErrRedirect},
		{egress.ErrTooLarge, KindTooLarge, egress.ErrTooLarge},
		{egress.ErrEncoded, KindGarbled, egress.ErrEncoded},
		{egress.ErrClosed, KindClosed, egress.ErrClosed},
		{io.ErrUnexpectedEOF, KindUnreachable, nil},
		{context.DeadlineExceeded, KindTimeout, nil}, // of a connection: the caller's context has not ended
	} {
		err := w.broken(t.Context(), &url.Error{Op: "Post", URL: "http://h/?key=" + key, Err: c.cause})
		e := mustFail(t, c.kind, err)
		if !errors.Is(e.Unwrap(), c.keeps) || c.keeps == nil && e.Unwrap() != nil {
			t.Errorf("%v keeps %v, want %v", e, e.Unwrap(), c.keeps)
		}
	}
}

func TestBackendPrintsNoHeader(t *testing.T) {
	b := newBackend(t, define(protocol.BackendOpenAI, "http://127.0.0.1/v1"), egress.ClientOptions{})
	inner := b.(*remote)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if text := fmt.Sprintf(verb, b) + fmt.Sprintf(verb, *inner.wire); strings.Contains(text, key) || strings.Contains(text, fmt.Sprintf("%x", key)) {
			t.Errorf("%s prints the key: %s", verb, text)
		}
	}
}

// transport answers every request with the same status and body.
type transport struct {
	status int
	body   string
}

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: f.status, Body: io.NopCloser(strings.NewReader(f.body)), Header: http.Header{}, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// FuzzAnswer feeds the readers of all three APIs with anything an endpoint may answer.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		chatBody(answer, "stop"), chatToolBody(answer), ollamaBody(answer, "stop"), claudeBody(claudeTool, "tool_use"), "null", "{}",
		`{"choices":[null]}`, `{"choices":[{"message":{"tool_calls":[null],"content":{}}}]}`, `{"content":[null,{"type":"tool_use","input":null}]}`,
		`{"error":{"message":"KEY","code":400}}`, `{"error":"\u004bEY"}`, `{"usage":{"prompt_tokens":1e99,"output_tokens":-1}}`,
	} {
		f.Add(200, body)
		f.Add(400, body)
	}
	endpoint := &url.URL{Scheme: "http", Host: "h", Path: "/x"}
	redactor := quote.NewRedactor(protocol.Headers{"x-api-key": key})
	f.Fuzz(func(t *testing.T, status int, body string) {
		answers := transport{100 + (status&0x7fffffff)%900, strings.ReplaceAll(body, "KEY", key)}
		for name, try := range map[string]func(*remote, context.Context, Question, string) (Answer, error){
			"chat": (*remote).tryChat, "ollama": (*remote).tryOllama, "anthropic": (*remote).tryClaude,
		} {
			for _, mode := range []string{ModeSchema, ModeTool, ModeText} {
				r := &remote{
					wire:  &wire{client: &http.Client{Transport: answers}, endpoint: endpoint, redact: redactor.Text, setHeaders: func(http.Header) {}},
					modes: modeFallback{modes: []string{mode}}, model: "m",
				}
				r.try = func(ctx context.Context, q Question, mode string) (Answer, error) { return try(r, ctx, q, mode) }
				a, err := r.Ask(t.Context(), question())
				switch {
				case err != nil:
					e, ok := err.(*Error) //nolint:errorlint // Ask promises this very type
					if !ok || strings.Contains(e.Error(), key) || len([]rune(e.Detail)) > maxDetail {
						t.Errorf("%s in mode %s: %T %v", name, mode, err, err)
					}
				case a.Model == "" || strings.Contains(a.Model, key): // the text may be empty
					t.Errorf("%s in mode %s answers %+v", name, mode, a)
				}
			}
		}
	})
}
