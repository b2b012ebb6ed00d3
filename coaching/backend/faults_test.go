package backend

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/coaching/egress"
	"agentd/coaching/internal/scriptedtest"
	"agentd/protocol"
)

// api is one of the ways to talk to an endpoint, and a good answer there.
type api struct {
	typ, path string
	good      string
}

var apis = map[string]api{
	"openai":       {protocol.BackendOpenAI, "/v1", chatBody(answer, "stop")},
	"ollama's own": {protocol.BackendOllama, ollamaChat, ollamaBody(answer, "stop")},
	"anthropic":    {protocol.BackendAnthropic, "", claudeBody(claudeTool, "tool_use")},
}

// eachAPI runs a test with every API, since each has its own client.
func eachAPI(t *testing.T, test func(t *testing.T, a api)) {
	t.Helper()
	for name, a := range apis {
		t.Run(name, func(t *testing.T) { test(t, a) })
	}
}

// broken answers by doing something to the connection.
func broken(do func(c net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		do(c)
	}
}

func reset(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }

// hang answers nothing until the client goes away.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestTemporaryFaultsAreRetried(t *testing.T) {
	for name, c := range map[string]struct {
		first http.HandlerFunc
		kind  Kind
		wait  time.Duration
	}{
		"500":                       {scriptedtest.Answer(500, `{"error":{"message":"oops"}}`), KindFailed, backoffFirst},
		"502 of a gateway":          {scriptedtest.Answer(502, "<html>bad gateway</html>", "Content-Type", "text/html"), KindFailed, backoffFirst},
		"503":                       {scriptedtest.Answer(503, ""), KindBusy, backoffFirst},
		"529":                       {scriptedtest.Answer(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), KindBusy, backoffFirst},
		"408":                       {scriptedtest.Answer(408, ""), KindTimeout, backoffFirst},
		"409":                       {scriptedtest.Answer(409, ""), KindBusy, backoffFirst},
		"425":                       {scriptedtest.Answer(425, ""), KindBusy, backoffFirst},
		"429":                       {scriptedtest.Answer(429, `{"error":{"message":"slow down"}}`), KindBusy, backoffFirst},
		"429 with seconds":          {scriptedtest.Answer(429, "", "Retry-After", "17"), KindBusy, 17 * time.Second},
		"429 with a date":           {scriptedtest.Answer(429, "", "Date", "Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After", "Wed, 21 Oct 2015 07:28:42 GMT"), KindBusy, 42 * time.Second},
		"429 with a date gone by":   {scriptedtest.Answer(429, "", "Retry-After", "Wed, 21 Oct 2015 07:28:42 GMT"), KindBusy, backoffFirst},
		"429 with nonsense":         {scriptedtest.Answer(429, "", "Retry-After", "soon"), KindBusy, backoffFirst},
		"429 with a negative wait":  {scriptedtest.Answer(429, "", "Retry-After", "-5"), KindBusy, backoffFirst},
		"503 with seconds":          {scriptedtest.Answer(503, "", "Retry-After", "3"), KindBusy, 3 * time.Second},
		"connection reset":          {broken(reset), KindUnreachable, backoffFirst},
		"connection closed":         {broken(func(net.Conn) {}), KindUnreachable, backoffFirst},
		"body cut off":              {broken(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{") }), KindUnreachable, backoffFirst},
		"no HTTP":                   {broken(func(c net.Conn) { _, _ = io.WriteString(c, "220 mail ready\r\n") }), KindUnreachable, backoffFirst},
		"200 that holds a failure":  {scriptedtest.Answer(200, `{"error":{"message":"Provider returned error","code":502}}`), KindFailed, backoffFirst},
		"200 that holds an outage":  {scriptedtest.Answer(200, `{"error":"no healthy upstream"}`), KindFailed, backoffFirst},
		"200 that holds a 429":      {scriptedtest.Answer(200, `{"error":{"message":"slow down","code":429}}`), KindBusy, backoffFirst},
		"200 that holds an odd one": {scriptedtest.Answer(200, `{"error":{"message":"?","code":"E17"}}`), KindFailed, backoffFirst},
	} {
		t.Run(name, func(t *testing.T) {
			eachAPI(t, func(t *testing.T, a api) {
				s := scriptedtest.New(t, c.first, scriptedtest.Answer(200, a.good))
				var waits []time.Duration
				var attempts []Attempt
				r := impatient(3, &waits)
				r.OnAttempt = func(a Attempt) { attempts = append(attempts, a) }
				got, err := r.Ask(t.Context(), newBackend(t, define(a.typ, s.URL+a.path), egress.ClientOptions{}), question())
				if err != nil || got.Text != answer {
					t.Fatalf("got %+v, %v, want an answer", got, err)
				}
				if len(attempts) != 2 || len(s.Calls()) != 2 {
					t.Fatalf("%d attempts, %d requests, want 2 of both", len(attempts), len(s.Calls()))
				}
				mustFail(t, c.kind, attempts[0].Err)
				if diff := cmp.Diff([]time.Duration{c.wait}, waits); diff != "" {
					t.Errorf("the wait differs (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLastingFaultsAreNotRetried(t *testing.T) {
	for name, c := range map[string]struct {
		first http.HandlerFunc
		kind  Kind
		says  string
	}{
		"401 that repeats the key":       {scriptedtest.Answer(401, `{"error":{"message":"Incorrect API key provided: `+key+`"}}`), KindRefused, "(401 Unauthorized): Incorrect API key provided: ***"},
		"401 that repeats the header":    {scriptedtest.Answer(401, "bad credentials 'Bearer "+key+"'"), KindRefused, "bad credentials '***'"},
		"403":                            {scriptedtest.Answer(403, `{"detail":"not yours"}`), KindRefused, "(403 Forbidden): not yours"},
		"402":                            {scriptedtest.Answer(402, `{"message":"no credit"}`), KindRefused, "no credit"},
		"413":                            {scriptedtest.Answer(413, `{"error":"too long"}`), KindRefused, "too long"},
		"absurd Retry-After":             {scriptedtest.Answer(429, "", "Retry-After", "86400000"), KindBusy, "asks to wait 24h0m0s"},
		"Retry-After no int holds":       {scriptedtest.Answer(429, "", "Retry-After", strings.Repeat("9", 40)), KindBusy, "asks to wait 24h0m0s"},
		"Retry-After in the far future":  {scriptedtest.Answer(503, "", "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), KindBusy, "asks to wait 24h0m0s"},
		"redirect":                       {scriptedtest.Answer(307, "", "Location", "http://127.0.0.1:1/"), KindForbidden, "redirect"},
		"redirect to nowhere":            {scriptedtest.Answer(304, ""), KindGarbled, "304"},
		"garbage":                        {scriptedtest.Answer(200, "\x00\xff\x1b[2Jnot JSON "+key), KindGarbled, "not a JSON object"},
		"nothing":                        {scriptedtest.Answer(200, ""), KindGarbled, "not a JSON object"},
		"half of a JSON":                 {scriptedtest.Answer(200, `{"choices":[`), KindGarbled, "not a JSON object"},
		"another JSON":                   {scriptedtest.Answer(200, `{"hello":"world"}`), KindGarbled, ""},
		"no object":                      {scriptedtest.Answer(200, `[1,2,3]`), KindGarbled, "not a JSON object: [1,2,3]"},
		"wrong types":                    {scriptedtest.Answer(200, `{"choices":"none","content":7,"message":[]}`), KindGarbled, ""},
		"null":                           {scriptedtest.Answer(200, `null`), KindGarbled, "not a JSON object: null"},
		"explanation too long":           {scriptedtest.Answer(401, strings.Repeat(key, maxErrorBody/len(key)+1)), KindRefused, "too long to show"},
		"explanation too long to repeat": {scriptedtest.Answer(403, strings.Repeat("x", maxErrorBody)), KindRefused, "xxx…"},
	} {
		t.Run(name, func(t *testing.T) {
			eachAPI(t, func(t *testing.T, a api) {
				s := scriptedtest.New(t, c.first)
				_, err := impatient(3, nil).Ask(t.Context(), newBackend(t, define(a.typ, s.URL+a.path), egress.ClientOptions{}), question())
				if e := mustFail(t, c.kind, err); !strings.Contains(e.Error(), c.says) {
					t.Errorf("it says %q, want %q in it", e, c.says)
				}
				if n := len(s.Calls()); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
			})
		})
	}
}

func TestAnswerBeyondLimitsIsTooLarge(t *testing.T) {
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for block := []byte(strings.Repeat(" ", 1<<16)); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	for name, body := range map[string]http.HandlerFunc{
		"endless":                      endless,
		"one byte too many":            scriptedtest.Answer(200, "{"+strings.Repeat(" ", egress.MaxResponse-1)+"}"),
		"a length that no memory has":  scriptedtest.Answer(200, "", "Content-Length", "9000000000000000000"),
		"compressed though not wanted": scriptedtest.Answer(200, "\x1f\x8b", "Content-Encoding", "gzip"),
	} {
		t.Run(name, func(t *testing.T) {
			eachAPI(t, func(t *testing.T, a api) {
				s := scriptedtest.New(t, body)
				b := newBackend(t, define(a.typ, s.URL+a.path), egress.ClientOptions{})
				_, err := impatient(0, nil).Ask(t.Context(), b, question())
				if strings.HasPrefix(name, "compressed") {
					mustFail(t, KindGarbled, err)
				} else if mustFail(t, KindTooLarge, err); !errors.Is(err, egress.ErrTooLarge) {
					t.Errorf("%v is no egress.ErrTooLarge", err)
				}
			})
		})
	}
}

func TestLargestAnswerIsRead(t *testing.T) {
	eachAPI(t, func(t *testing.T, a api) {
		s := scriptedtest.New(t, scriptedtest.Answer(200, a.good+strings.Repeat(" ", egress.MaxResponse-len(a.good))))
		if got, err := newBackend(t, define(a.typ, s.URL+a.path), egress.ClientOptions{}).Ask(t.Context(), question()); err != nil || got.Text != answer {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestHangingEndpointTimesOut(t *testing.T) {
	half := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"choices":`)
		w.(http.Flusher).Flush()
		hang(w, r)
	}
	for name, first := range map[string]http.HandlerFunc{"before the answer": hang, "within the answer": half} {
		t.Run(name, func(t *testing.T) {
			eachAPI(t, func(t *testing.T, a api) {
				s := scriptedtest.New(t, first)
				var waits []time.Duration
				r := impatient(1, &waits)
				r.Timeout = 50 * time.Millisecond
				_, err := r.Ask(t.Context(), newBackend(t, define(a.typ, s.URL+a.path), egress.ClientOptions{}), question())
				if e := mustFail(t, KindTimeout, err); !strings.Contains(e.Error(), "50ms") {
					t.Errorf("it does not say how long it waited: %v", e)
				}
				if len(waits) != 1 {
					t.Errorf("it was asked again %d times, want once", len(waits))
				}
			})
		})
	}
}

func TestCancelledCallerEndsRequest(t *testing.T) {
	eachAPI(t, func(t *testing.T, a api) {
		ctx, cancel := context.WithCancel(t.Context())
		s := scriptedtest.New(t, func(w http.ResponseWriter, r *http.Request) { cancel(); hang(w, r) })
		_, err := newBackend(t, define(a.typ, s.URL+a.path), egress.ClientOptions{}).Ask(ctx, question())
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %T %v, want the context's error", err, err)
		}
	})
}

func TestTLS(t *testing.T) {
	eachAPI(t, func(t *testing.T, a api) {
		s := scriptedtest.NewTLS(t, scriptedtest.Answer(200, a.good))
		trusted := x509.NewCertPool()
		trusted.AddCert(s.Certificate())
		plain := scriptedtest.New(t, scriptedtest.Answer(200, a.good))
		for name, c := range map[string]struct {
			endpoint string
			roots    *x509.CertPool
			says     string // "" for an answer
		}{
			"a certificate that is trusted":      {s.URL, trusted, ""},
			"an unsigned certificate":            {s.URL, x509.NewCertPool(), "certificate"},
			"https to a server that speaks http": {strings.Replace(plain.URL, "http:", "https:", 1), trusted, "cannot reach the model"},
		} {
			t.Run(name, func(t *testing.T) {
				b := newBackend(t, define(a.typ, c.endpoint+a.path), egress.ClientOptions{RootCAs: c.roots})
				got, err := impatient(3, nil).Ask(t.Context(), b, question())
				if c.says == "" {
					if err != nil || got.Text != answer {
						t.Fatalf("got %+v, %v", got, err)
					}
					return
				}
				if e := mustFail(t, KindUnreachable, err); e.Temporary() || !strings.Contains(e.Error(), c.says) {
					t.Errorf("got %v, temporary %v, want it to last and to say %q", e, e.Temporary(), c.says)
				}
			})
		}
	})
}

func TestClosedPortIsUnreachable(t *testing.T) {
	eachAPI(t, func(t *testing.T, a api) {
		s := scriptedtest.New(t, scriptedtest.Answer(200, a.good))
		url := s.URL
		s.Close()
		var waits []time.Duration
		_, err := impatient(2, &waits).Ask(t.Context(), newBackend(t, define(a.typ, url+a.path), egress.ClientOptions{}), question())
		if e := mustFail(t, KindUnreachable, err); len(waits) != 2 || !strings.Contains(e.Error(), "refused") {
			t.Errorf("asked again %d times: %v", len(waits), e)
		}
	})
}

func TestForbiddenAddressIsNotRetried(t *testing.T) {
	eachAPI(t, func(t *testing.T, a api) {
		// The policy of newBackend allows 127.0.0.1 only; 127.0.0.2 is refused before anything is dialled.
		_, err := impatient(3, nil).Ask(t.Context(), newBackend(t, define(a.typ, "http://127.0.0.2:9"+a.path), egress.ClientOptions{}), question())
		var forbidden *egress.ForbiddenError
		if mustFail(t, KindForbidden, err); !errors.As(err, &forbidden) {
			t.Errorf("%v is no egress.ForbiddenError", err)
		}
	})
}

func TestClosedClientIsKindClosed(t *testing.T) {
	eachAPI(t, func(t *testing.T, a api) {
		policy, err := egress.NewPolicy(nil)
		if err != nil {
			t.Fatal(err)
		}
		client := policy.NewClient(egress.ClientOptions{})
		b, err := New(define(a.typ, "http://127.0.0.1:9"+a.path), Options{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		client.Close()
		_, err = impatient(3, nil).Ask(t.Context(), b, question())
		mustFail(t, KindClosed, err)
	})
}

func TestUnusableAnswersAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		typ, path, body string
		kind            Kind
		says            string
	}{
		"chat: cut off":            {protocol.BackendOpenAI, "", chatBody(`{"why":"b`, "length"), KindTruncated, "limit of tokens"},
		"chat: no choices":         {protocol.BackendOpenAI, "", `{"choices":[]}`, KindGarbled, "no choices"},
		"chat: no message":         {protocol.BackendOpenAI, "", `{"choices":[{"finish_reason":"stop"}]}`, KindGarbled, "no message"},
		"chat: refusal":            {protocol.BackendOpenAI, "", `{"choices":[{"finish_reason":"stop","message":{"content":null,"refusal":"I will not, ` + key + `"}}]}`, KindDeclined, "I will not, ***"},
		"chat: filter":             {protocol.BackendOpenAI, "", chatBody("", "content_filter"), KindDeclined, "content filter"},
		"ollama: cut off":          {protocol.BackendOllama, ollamaChat, ollamaBody(`{"why":"b`, "length"), KindTruncated, ""},
		"ollama: a model unloaded": {protocol.BackendOllama, ollamaChat, `{"model":"m","done_reason":"load","done":true}`, KindGarbled, "no message"},
		"anthropic: no content":    {protocol.BackendAnthropic, "", `{"type":"message","stop_reason":"end_turn"}`, KindGarbled, "no content"},
		"anthropic: cut off":       {protocol.BackendAnthropic, "", claudeBody(claudeTool, "max_tokens"), KindTruncated, ""},
		"anthropic: window full":   {protocol.BackendAnthropic, "", claudeBody("", "model_context_window_exceeded"), KindTruncated, ""},
		"anthropic: refusal":       {protocol.BackendAnthropic, "", claudeBody("", "refusal"), KindDeclined, "declines"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scriptedtest.New(t, scriptedtest.Answer(200, c.body))
			_, err := impatient(3, nil).Ask(t.Context(), newBackend(t, define(c.typ, s.URL+c.path), egress.ClientOptions{}), question())
			if e := mustFail(t, c.kind, err); !strings.Contains(e.Error(), c.says) {
				t.Errorf("it says %q, want %q in it", e, c.says)
			}
			if n := len(s.Calls()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestEmptyTextIsAnAnswer(t *testing.T) {
	for name, c := range map[string]struct{ typ, path, body string }{
		"chat":      {protocol.BackendOpenAI, "", chatBody("", "stop")},
		"chat null": {protocol.BackendOpenAI, "", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":null}}]}`},
		"ollama":    {protocol.BackendOllama, ollamaChat, ollamaBody("", "stop")},
		"anthropic": {protocol.BackendAnthropic, "", claudeBody("", "end_turn")},
	} {
		t.Run(name, func(t *testing.T) {
			s := scriptedtest.New(t, scriptedtest.Answer(200, c.body))
			a, err := newBackend(t, define(c.typ, s.URL+c.path), egress.ClientOptions{}).Ask(t.Context(), question())
			if err != nil || a.Text != "" {
				t.Errorf("got %+v, %v, want an empty answer", a, err)
			}
		})
	}
}

// TestContentPartsAndThoughtsAreRead: parts of a content are read, and thoughts alone are distinguished from
// an answer.
func TestContentPartsAndThoughtsAreRead(t *testing.T) {
	for name, c := range map[string]struct{ message, want string }{
		"parts":          {`"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"{\"a\":"},{"type":"text","text":"1}"}]`, `{"a":1}`},
		"thoughts alone": {`"content":null,"reasoning_content":"{\"a\":1}"`, "<think>\n{\"a\":1}"},
		"thoughts apart": {`"content":"{}","reasoning":"hm"`, "{}"},
		"an odd part":    {`"content":[5,{"type":"text"},null]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := scriptedtest.New(t, scriptedtest.Answer(200, `{"choices":[{"finish_reason":"stop","message":{"role":"assistant",`+c.message+`}}]}`))
			a, err := newBackend(t, define(protocol.BackendOpenAI, s.URL), egress.ClientOptions{}).Ask(t.Context(), question())
			if err != nil || a.Text != c.want {
				t.Errorf("got %+v, %v, want %q", a, err, c.want)
			}
		})
	}
}

func TestQuerySecretsAreNotRepeated(t *testing.T) {
	s := scriptedtest.New(t, scriptedtest.Answer(403, `{"error":"API key `+key+` not valid"}`))
	def := define(protocol.BackendOpenAI, s.URL+"/v1?key="+key)
	def.Headers = nil
	b := newBackend(t, def, egress.ClientOptions{})
	_, err := b.Ask(t.Context(), question())
	mustFail(t, KindRefused, err)
	if strings.Contains(b.Describe(), key) {
		t.Errorf("the key is in %s", b.Describe())
	}
	s.Close()
	_, err = b.Ask(t.Context(), question())
	mustFail(t, KindUnreachable, err)
}
