package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/waittest"
	"agentd/internal/http/connection"
)

// dial connects to a server without a client that knows HTTP.
func (ls *listening) dial(t *testing.T) net.Conn {
	t.Helper()
	scheme, address, _ := strings.Cut(ls.url, "://")
	var conn net.Conn
	var err error
	if conn, err = net.Dial("tcp", address); err != nil {
		t.Fatal(err)
	}
	if scheme == "https" {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// answer reads one answer after any number of interim ones, which it counts.
func answer(t *testing.T, from *bufio.Reader, method string) (res *http.Response, body string, interim int) {
	t.Helper()
	for ; ; interim++ {
		var err error
		if res, err = http.ReadResponse(from, &http.Request{Method: method}); err != nil {
			t.Fatalf("reading the answer: %v", err)
		}
		if res.StatusCode != http.StatusContinue {
			break
		}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("reading the body: %v", err)
	}
	return res, string(text), interim
}

// raw is the valid request as bytes, with further headers.
func raw(headers string) string {
	return fmt.Sprintf("POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n%s", len(validBody), headers, validBody)
}

// wantDetail checks the one form of errors.
func wantDetail(t *testing.T, res *http.Response, body string, status int, detail string) {
	t.Helper()
	var got struct{ Detail string }
	if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != status || !strings.Contains(got.Detail, detail) {
		t.Errorf("got %s %s (%v), want %d that tells %q", res.Status, body, err, status, detail)
	}
	if kind := res.Header.Get("Content-Type"); kind != "application/json; charset=utf-8" {
		t.Errorf("Content-Type is %q", kind)
	}
}

func TestErrorsOfNetHTTPHaveJSONBodies(t *testing.T) {
	plain, https := listen(t), listenTLS(t)
	plain.Ready(inferenceFunc(echo))
	https.Ready(inferenceFunc(echo))
	slow := newTest(t, Ready, echo)
	slow.http.ReadHeaderTimeout = time.Millisecond
	impatient := serve(t, slow)
	for name, test := range map[string]struct {
		to      *listening
		request string
		status  int
		detail  string
	}{
		"headers too large":            {plain, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2*connection.MaxHeader) + "\r\n\r\n", 431, fmt.Sprint(connection.MaxHeader)},
		"a path too long":              {plain, "GET /" + strings.Repeat("x", 2*connection.MaxHeader) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 431, "request line"},
		"no request line":              {plain, "what\r\n\r\n", 400, "not valid HTTP"},
		"no request line, and a body":  {plain, "what\r\n\r\n" + strings.Repeat("x", 1<<20), 400, "not valid HTTP"},
		"no Host":                      {plain, "GET /health HTTP/1.1\r\n\r\n", 400, "missing required Host header"},
		"an odd Host":                  {plain, "GET /health HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "malformed Host header"},
		"an odd header":                {plain, "GET /health HTTP/1.1\r\nHost: localhost\r\na b: c\r\n\r\n", 400, "not valid HTTP"},
		"two Content-Lengths":          {plain, "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "not valid HTTP"},
		"an unknown Transfer-Encoding": {plain, "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: br\r\n\r\n", 501, "Content-Length"},
		"a version to come":            {plain, "GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n", 505, "HTTP/1.1"},
		"an odd expectation":           {plain, "GET /health HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\n\r\n", 417, "100-continue"},
		"headers that do not come":     {impatient, "GET /health HTTP/1.1\r\nHost:", 408, "in time"},
		"HTTP to a port of HTTPS":      {&listening{url: strings.Replace(https.url, "https", "http", 1)}, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "https://"},
		"the same with a body":         {&listening{url: strings.Replace(https.url, "https", "http", 1)}, raw(""), 400, "https://"},
		"over TLS, headers too large":  {https, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2*connection.MaxHeader) + "\r\n\r\n", 431, fmt.Sprint(connection.MaxHeader)},
		"over TLS, no Host":            {https, "GET /health HTTP/1.1\r\n\r\n", 400, "missing required Host header"},
		"behind an answer, no Host":    {plain, "GET /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\n\r\n", 400, "missing required Host header"},
		"options of the server":        {plain, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "no such path"},
		"the preface of HTTP/2":        {plain, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 404, "no such path"},
		"a broken chunk":               {plain, chunked("5\r\nhello\r\nnonsense\r\n\r\n"), 400, "not valid HTTP: invalid byte in chunk length"},
		"a broken chunk, more behind":  {plain, chunked("x\r\n" + strings.Repeat("x", 1<<20)), 400, "not valid HTTP"},
		"a chunk of another length":    {plain, chunked("3\r\nhello\r\n0\r\n\r\n"), 400, "malformed chunked encoding"},
		"a broken chunk of gzip":       {plain, strings.Replace(chunked("zz\r\n"), "Host: x", "Host: localhost\r\nContent-Encoding: gzip", 1), 400, "not valid HTTP"},
		"over TLS, a broken chunk":     {https, chunked("zz\r\n\r\n"), 400, "not valid HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := test.to.dial(t)
			go io.WriteString(conn, test.request) // a refused client may still be sending
			from := bufio.NewReader(conn)
			if strings.HasPrefix(name, "behind") {
				if res, _, _ := answer(t, from, http.MethodGet); res.StatusCode != http.StatusOK {
					t.Errorf("the first answer is %s", res.Status)
				}
			}
			res, body, _ := answer(t, from, http.MethodGet)
			wantDetail(t, res, body, test.status, test.detail)
		})
	}
	for _, line := range []string{`agentd_http_requests_total{method="OTHER",route="unmatched",status="431"} 2`, `route="/v1/responses",status="400"} 4`} {
		waittest.Eventually(t, "the metric "+line, func() bool {
			return strings.Contains(request{method: "GET", path: "/metrics"}.do(t, plain.Server).Body.String(), line)
		})
	}
}

func chunked(body string) string {
	return "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + body
}

func TestIdleConnectionIsClosedSilently(t *testing.T) {
	s := newTest(t, Ready, echo)
	s.http.IdleTimeout = time.Millisecond
	conn := serve(t, s).dial(t)
	io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
	from := bufio.NewReader(conn)
	if res, _, _ := answer(t, from, http.MethodGet); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	if rest, err := io.ReadAll(from); err != nil || len(rest) > 0 {
		t.Errorf("got %q, %v", rest, err)
	}
}

// closeSending ends what the client sends, and nothing else.
func closeSending(t *testing.T, conn net.Conn) {
	t.Helper()
	if secure, ok := conn.(*tls.Conn); ok {
		if err := secure.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		conn = secure.NetConn()
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// halfClosed sends a request with more headers, waits for the start of its work and closes the sending side.
func halfClosed(t *testing.T, ls *listening, headers string) (*slow, net.Conn) {
	t.Helper()
	d := newSlow()
	ls.Ready(d)
	conn := ls.dial(t)
	io.WriteString(conn, raw(headers))
	wait(t, "the work's start", d.started)
	closeSending(t, conn)
	return d, conn
}

func TestHalfClosedClientGetsItsAnswer(t *testing.T) {
	for name, ls := range map[string]*listening{"plain": listen(t), "TLS": listenTLS(t)} {
		t.Run(name, func(t *testing.T) {
			d, conn := halfClosed(t, ls, "")
			from := bufio.NewReader(conn)
			// The server has noticed when it asks whether the client is still there.
			if line, err := from.Peek(len("HTTP/1.1 100")); err != nil || string(line) != "HTTP/1.1 100" {
				t.Fatalf("got %q, %v", line, err)
			}
			close(d.release)
			res, body, interim := answer(t, from, http.MethodPost)
			if res.StatusCode != http.StatusOK || !strings.Contains(body, `"say":"hi"`) || interim == 0 {
				t.Errorf("got %s %s behind %d interim answers", res.Status, body, interim)
			}
			if err := wait(t, "the end of the work", d.ended); err != nil {
				t.Errorf("the work ended with %v", err)
			}
			if rest, err := io.ReadAll(from); err != nil || len(rest) > 0 {
				t.Errorf("behind the answer: %q, %v", rest, err)
			}
		})
	}
}

func TestHalfClosedClientThatLeavesCancelsItsWork(t *testing.T) {
	for name, ls := range map[string]*listening{"plain": listen(t), "TLS": listenTLS(t)} {
		t.Run(name, func(t *testing.T) {
			for _, headers := range []string{"", "Expect: 100-continue\r\n"} { // which net/http answers itself
				d, conn := halfClosed(t, ls, headers)
				if _, err := bufio.NewReader(conn).Peek(1); err != nil {
					t.Fatal(err)
				}
				conn.Close()
				if err := wait(t, "the end of the work", d.ended); !errors.Is(err, context.Canceled) {
					t.Errorf("with %q the work ended with %v", headers, err)
				}
			}
		})
	}
}

func TestHalfClosedHTTP10ClientCountsAsGone(t *testing.T) {
	ls, d := listen(t), newSlow()
	ls.Ready(d)
	conn := ls.dial(t)
	io.WriteString(conn, strings.Replace(raw(""), "HTTP/1.1", "HTTP/1.0", 1))
	wait(t, "the work's start", d.started)
	closeSending(t, conn)
	if err := wait(t, "the end of the work", d.ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the work ended with %v", err)
	}
	res, body, interim := answer(t, bufio.NewReader(conn), http.MethodPost)
	if wantDetail(t, res, body, http.StatusServiceUnavailable, "closed the connection"); interim != 0 {
		t.Errorf("%d interim answers, which HTTP/1.0 does not know", interim)
	}
}

func TestTruncatedBodyIsAnswered400(t *testing.T) {
	ls := listen(t)
	ls.Ready(inferenceFunc(echo))
	for name, request := range map[string]string{
		"with a length": strings.TrimSuffix(raw(""), "}"),
		"in chunks":     chunked("5\r\nhel"),
	} {
		conn := ls.dial(t)
		io.WriteString(conn, request)
		closeSending(t, conn)
		res, body, _ := answer(t, bufio.NewReader(conn), http.MethodPost)
		if wantDetail(t, res, body, http.StatusBadRequest, "ends before its declared end"); t.Failed() {
			t.Fatal(name)
		}
	}
}

func TestCancelledWorkOfHalfClosedClientIsAnswered(t *testing.T) {
	ls := listen(t)
	_, conn := halfClosed(t, ls, "")
	from := bufio.NewReader(conn)
	if _, err := from.Peek(1); err != nil {
		t.Fatal(err)
	}
	ls.CancelWork()
	res, body, _ := answer(t, from, http.MethodPost)
	wantDetail(t, res, body, http.StatusServiceUnavailable, "shutting down")
}
