package server

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"agentd/protocol"
)

// patience is how long a test waits for what must happen; only failures take it.
const patience = 30 * time.Second

// slow is a fake Inference that announces each call and waits for a signal.
type slow struct {
	started chan struct{}
	release chan struct{}
	ended   chan error // what ended the call's context, nil when released
}

func newSlow() *slow {
	return &slow{make(chan struct{}, 8), make(chan struct{}), make(chan error, 8)}
}

// wait is a call's work. Its error is the context's.
func (d *slow) wait(ctx context.Context) (err error) {
	d.started <- struct{}{}
	select {
	case <-d.release:
	case <-ctx.Done():
		err = ctx.Err()
	}
	d.ended <- err
	return err
}

func (d *slow) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	return echo(ctx, req)
}

// listening is a server on a free port with its own client.
type listening struct {
	*Server
	url    string
	client *http.Client
	served chan error
}

func listen(t *testing.T, change ...func(*Options)) *listening {
	t.Helper()
	return serve(t, newTest(t, Loading, nil, change...))
}

// serve lets a server listen.
func serve(t *testing.T, s *Server) *listening {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	ls := &listening{s, "http://" + l.Addr().String(), &http.Client{Transport: transport}, make(chan error, 1)}
	go func() { ls.served <- s.Serve(l) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
	})
	return ls
}

// post sends the valid request and delivers its status and body.
func (ls *listening) post(t *testing.T) <-chan string {
	t.Helper()
	return ls.send(t, http.MethodPost, "/v1/responses", validBody)
}

// send sends a request and delivers its status and body.
func (ls *listening) send(t *testing.T, method, path, body string) <-chan string {
	t.Helper()
	answer := make(chan string, 1)
	req, err := http.NewRequestWithContext(t.Context(), method, ls.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		resp, err := ls.client.Do(req)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- fmt.Sprint(resp.StatusCode, " ", string(text))
	}()
	return answer
}

// wait receives from ch or fails the test.
func wait[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
	return v
}

func TestWorkThatOutlastsTheDrainIsAnswered503(t *testing.T) {
	ls, d := listen(t), newSlow()
	ls.Ready(d)
	answer := ls.post(t)
	wait(t, "the work's start", d.started)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := ls.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("drain with work in flight returned %v", err)
	}
	ls.CancelWork()
	if got := wait(t, "the answer", answer); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "shutting down") {
		t.Errorf("cancelled work was answered %s", got)
	}
	if err := wait(t, "the end of the work", d.ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the work ended with %v", err)
	}
	if err := ls.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	if ls.Ready(d) || ls.State() != Draining {
		t.Error("a draining server became ready again")
	}
}

func TestLeavingClientCancelsItsWork(t *testing.T) {
	ls, d := listen(t), newSlow()
	ls.Ready(d)
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ls.url+"/v1/responses", strings.NewReader(validBody))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() {
		resp, err := ls.client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		gone <- err
	}()
	wait(t, "the work's start", d.started)
	cancel()
	if err := wait(t, "the client's end", gone); !errors.Is(err, context.Canceled) {
		t.Fatalf("client got %v", err)
	}
	if err := wait(t, "the end of the work", d.ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the work ended with %v", err)
	}
	if err := ls.Shutdown(context.Background()); err != nil { // waits for the counters after the handler, as Drain does not
		t.Fatal(err)
	}
	page := request{method: "GET", path: "/metrics"}.do(t, ls.Server).Body.String()
	if want := `route="/v1/responses",status="499"} 1`; !strings.Contains(page, want) {
		t.Errorf("the metrics lack %s", want)
	}
}

func TestRequestTimeoutReachesInference(t *testing.T) {
	d := newSlow()
	s := newTest(t, Ready, d.Decide, func(o *Options) { o.RequestTimeout = time.Millisecond })
	request{"POST", "/v1/responses", validBody, nil}.do(t, s)
	if err := wait(t, "the end of the work", d.ended); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the work ended with %v", err)
	}
}

// listenTLS is listen with its own certificate.
func listenTLS(t *testing.T) *listening {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ls := listen(t, func(o *Options) {
		o.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	})
	ls.url = strings.Replace(ls.url, "http:", "https:", 1)
	return ls
}

func TestTLS(t *testing.T) {
	ls := listenTLS(t)
	ls.Ready(inferenceFunc(echo))
	if got := wait(t, "the answer", ls.post(t)); !strings.HasPrefix(got, "200 ") {
		t.Errorf("got %s", got)
	}
	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(ls.url, "https://"), old); err == nil {
		conn.Close()
		t.Error("TLS 1.1 was accepted")
	}
}

// TestRefusedBodiesAreAnswered: a client that sends its whole body before it reads
// gets the answer, not a connection reset.
func TestRefusedBodiesAreAnswered(t *testing.T) {
	ready, loading := listen(t), listen(t, func(o *Options) { o.Tokens = []string{"0123456789abcdef"} })
	ready.Ready(inferenceFunc(echo))
	const token = "\r\nAuthorization: Bearer 0123456789abcdef"
	for name, test := range map[string]struct {
		to            *listening
		size, status  int
		length, extra string // headers; without a length the body is chunked
	}{
		"too large, declared":   {ready, maxBody + 1, 413, fmt.Sprintf("Content-Length: %d", maxBody+1), ""},
		"too large, undeclared": {ready, maxBody + 1, 413, "", ""},
		"of another type":       {ready, 16 << 20, 415, fmt.Sprintf("Content-Length: %d", 16<<20), "\r\nContent-Type: text/plain"},
		"while loading":         {loading, 16 << 20, 503, fmt.Sprintf("Content-Length: %d", 16<<20), token},
		"without a token":       {loading, 16 << 20, 401, fmt.Sprintf("Content-Length: %d", 16<<20), ""},
	} {
		t.Run(name, func(t *testing.T) {
			conn := test.to.dial(t)
			var body io.Writer = conn
			if test.length == "" {
				body = httputil.NewChunkedWriter(conn)
				test.length = "Transfer-Encoding: chunked"
			}
			fmt.Fprintf(conn, "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n\r\n", test.length, test.extra)
			if _, err := io.CopyN(body, spaces{}, int64(test.size)); err != nil {
				t.Fatalf("sending: %v", err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("reading the answer: %v", err)
			}
			defer resp.Body.Close()
			if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != test.status || !strings.Contains(string(text), `"detail":`) {
				t.Errorf("got %s %s (%v), want %d", resp.Status, text, err, test.status)
			}
		})
	}
}
