package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// names answers every question for the names it has, one list after another; the
// last one stays.
type names map[string][][]string

func (l names) resolve(_ context.Context, _, host string) ([]netip.Addr, error) {
	lists := l[strings.TrimSuffix(host, ".")]
	if len(lists) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "192.0.2.53:53", IsNotFound: true}
	}
	if len(lists) > 1 {
		l[host] = lists[1:]
	}
	var addrs []netip.Addr
	for _, s := range lists[0] {
		addrs = append(addrs, netip.MustParseAddr(s))
	}
	return addrs, nil
}

// newClient makes a client that is closed with the test.
func newClient(t *testing.T, p *Policy, o ClientOptions) *Client {
	t.Helper()
	c := p.NewClient(o)
	t.Cleanup(c.Close)
	return c
}

// serve is a quiet server that is closed with the test.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// counted is a server that counts its requests.
func counted(t *testing.T) (s *httptest.Server, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	return serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) }), requests
}

// named is a server's URL with another host and the same port.
func named(s *httptest.Server, host string) string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return "http://" + net.JoinHostPort(host, port)
}

// post posts a body and returns the answer.
func post(ctx context.Context, c *Client, target string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader("{}"))
	if err != nil {
		return nil, err
	}
	return send(c, req)
}

// send sends a request and returns the answer.
func send(c *Client, req *http.Request) ([]byte, error) {
	res, err := c.HTTP().Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

func TestDialChecksResolvedAddresses(t *testing.T) {
	tests := []struct {
		name    string
		allow   []string
		host    string
		answers []string
		why     string // "" when the request is to arrive
	}{
		{"loopback", nil, "a.example", []string{"127.0.0.1"}, ""},
		{"v4-mapped loopback", nil, "a.example", []string{"::ffff:127.0.0.1"}, ""},
		{"the next address when one does not answer", nil, "a.example", []string{"127.0.0.2", "127.0.0.1"}, ""},
		{"metadata", nil, "a.example", []string{"169.254.169.254"}, "metadata"},
		{"v4-mapped metadata", nil, "a.example", []string{"::ffff:169.254.169.254"}, "metadata"},
		{"NAT64 of metadata", nil, "a.example", []string{"64:ff9b::a9fe:a9fe"}, "metadata"},
		{"link-local with a zone", nil, "a.example", []string{"fe80::1%lo"}, "link-local"},
		{"unspecified", nil, "a.example", []string{"0.0.0.0"}, "unspecified"},
		{"private", nil, "a.example", []string{"10.0.0.1"}, "(allow "},
		{"one forbidden among many", nil, "a.example", []string{"127.0.0.1", "127.0.0.2", "169.254.169.254"}, "metadata"},
		{"one private among many", nil, "a.example", []string{"127.0.0.1", "192.168.0.1"}, "private"},
		{"a listed name vouches for its addresses", []string{"a.example"}, "a.example", []string{"127.0.0.1"}, ""},
		{"but not for those never allowed", []string{"a.example"}, "a.example", []string{"169.254.169.254"}, "metadata"},
		{"a listed domain vouches too", []string{"*.example"}, "a.example", []string{"127.0.0.1"}, ""},
		{"a listed range holds the address", []string{"127.0.0.0/8"}, "a.example", []string{"127.0.0.1"}, ""},
		{"a listed range does not hold the address", []string{"10.0.0.0/8"}, "a.example", []string{"127.0.0.1"}, "(allow "},
		{"another name is listed beside a range", []string{"b.example", "10.0.0.0/8"}, "a.example", []string{"127.0.0.1"}, "(allow "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, requests := counted(t)
			l := names{tt.host: {tt.answers}}
			c := newClient(t, mustPolicy(t, tt.allow...), ClientOptions{LookupIP: l.resolve})
			_, err := post(t.Context(), c, named(s, tt.host))
			if tt.why == "" {
				if err != nil || requests.Load() != 1 {
					t.Fatalf("error %v, %d requests, want one", err, requests.Load())
				}
				return
			}
			var f *ForbiddenError
			if !errors.As(err, &f) || !strings.Contains(f.Why, tt.why) || f.What != tt.host {
				t.Errorf("error %v, want a *ForbiddenError about %s with %q", err, tt.host, tt.why)
			}
			if requests.Load() != 0 {
				t.Errorf("%d requests arrived", requests.Load())
			}
			for _, a := range tt.answers {
				if err != nil && strings.Contains(err.Error(), a) {
					t.Errorf("%v: tells the client the address behind a name", err)
				}
			}
		})
	}
}

func TestReboundNameIsRefusedAtNextDial(t *testing.T) {
	s, requests := counted(t)
	l := names{"a.example": {{"127.0.0.1"}, {"169.254.169.254"}}}
	c := newClient(t, mustPolicy(t), ClientOptions{LookupIP: l.resolve})
	if _, err := post(t.Context(), c, named(s, "a.example")); err != nil {
		t.Fatal(err)
	}
	c.HTTP().CloseIdleConnections()
	_, err := post(t.Context(), c, named(s, "a.example"))
	check(t, "second request", err, false)
	if requests.Load() != 1 {
		t.Errorf("%d requests, want 1", requests.Load())
	}
}

// The client does not rely on the check of names. The dialer's control function checks the
// address again, just before the system connects. 0.0.0.0 would
// reach the server here.
func TestDialerRefusesForbiddenAddresses(t *testing.T) {
	s, requests := counted(t)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	c := newClient(t, mustPolicy(t), ClientOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, vouched := range []bool{false, true} {
		_, err := c.dialer.connect(ctx, []netip.Addr{netip.MustParseAddr("0.0.0.0")}, port, vouched)
		check(t, "connect(0.0.0.0)", err, false)
	}
	if requests.Load() != 0 {
		t.Errorf("%d requests arrived", requests.Load())
	}
}

func TestForbiddenURLsAreNotRequested(t *testing.T) {
	c := newClient(t, mustPolicy(t), ClientOptions{LookupIP: func(context.Context, string, string) ([]netip.Addr, error) {
		t.Error("a name was looked up")
		return nil, errors.New("unexpected")
	}})
	for _, target := range []string{
		"http://169.254.169.254/", "http://2852039166/", "http://metadata.google.internal/", "http://user:pass@127.0.0.1/", "http://10.0.0.1/",
	} {
		_, err := post(t.Context(), c, target)
		check(t, target, err, false)
	}
}

func TestForeignHostOrHopByHopHeadersAreRefused(t *testing.T) {
	s, requests := counted(t)
	c := newClient(t, mustPolicy(t), ClientOptions{})
	for name, change := range map[string]func(*http.Request){
		"other host":          func(r *http.Request) { r.Host = "metadata.google.internal" },
		"upgrade":             func(r *http.Request) { r.Header.Set("Upgrade", "h2c") },
		"connection":          func(r *http.Request) { r.Header.Set("Connection", "x-api-key") },
		"proxy authorization": func(r *http.Request) { r.Header.Set("Proxy-Authorization", "Basic x") },
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		_, err = send(c, req)
		check(t, name, err, false)
	}
	if requests.Load() != 0 {
		t.Errorf("%d requests arrived", requests.Load())
	}
}

func TestEnvironmentProxyIsIgnored(t *testing.T) {
	proxy, proxied := counted(t)
	for _, v := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(v, proxy.URL)
	}
	s, requests := counted(t)
	c := newClient(t, mustPolicy(t), ClientOptions{LookupIP: names{"a.example": {{"127.0.0.1"}}}.resolve})
	if _, err := post(t.Context(), c, named(s, "a.example")); err != nil {
		t.Fatal(err)
	}
	if c.transport.Proxy != nil || proxied.Load() != 0 || requests.Load() != 1 {
		t.Errorf("%d requests to the proxy, %d to the endpoint", proxied.Load(), requests.Load())
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{"http://169.254.169.254/?key=secret", "/elsewhere", "https://api.example.org/secret", "://secret", ""} {
			var requests atomic.Int64
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			})
			c := newClient(t, mustPolicy(t), ClientOptions{})
			_, err := post(t.Context(), c, s.URL)
			if !errors.Is(err, ErrRedirect) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%d to %q: error %v, want ErrRedirect without the location", status, to, err)
			}
			if requests.Load() != 1 {
				t.Errorf("%d to %q: %d requests", status, to, requests.Load())
			}
		}
	}
}

func TestTLSChecksHostAndVersion(t *testing.T) {
	start := func(t *testing.T, change func(*tls.Config)) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS10}
		change(s.TLS)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	pool := func(s *httptest.Server) *x509.CertPool {
		p := x509.NewCertPool()
		p.AddCert(s.Certificate())
		return p
	}
	good := start(t, func(*tls.Config) {})
	old := start(t, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 })
	plain, _ := counted(t)
	l := names{"example.com": {{"127.0.0.1"}}, "wrong.example": {{"127.0.0.1"}}}
	https := func(s *httptest.Server, host string) string {
		return strings.Replace(named(s, host), "http:", "https:", 1)
	}
	for _, tt := range []struct {
		name, target string
		roots        *x509.CertPool
		want         string
	}{
		{"known certificate", https(good, "example.com"), pool(good), ""},
		{"unknown authority", https(good, "example.com"), x509.NewCertPool(), "unknown authority"},
		{"other host", https(good, "wrong.example"), pool(good), "not wrong.example"},
		{"TLS 1.1", https(old, "example.com"), pool(old), "protocol version"},
		{"no TLS", https(plain, "example.com"), nil, "HTTP response to HTTPS client"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, mustPolicy(t), ClientOptions{RootCAs: tt.roots, LookupIP: l.resolve})
			_, err := post(t.Context(), c, tt.target)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// The protocol's longest timeout is the longest there is.
func TestLongestConnectTimeoutWorks(t *testing.T) {
	s, requests := counted(t)
	c := newClient(t, mustPolicy(t), ClientOptions{ConnectTimeout: math.MaxInt64})
	if _, err := post(t.Context(), c, s.URL); err != nil || requests.Load() != 1 {
		t.Errorf("%d requests, error %v", requests.Load(), err)
	}
}

// A server that takes connections and says nothing costs no more than the time
// for connecting.
func TestTLSHandshakeIsBounded(t *testing.T) {
	address, _ := silent(t)
	c := newClient(t, mustPolicy(t), ClientOptions{ConnectTimeout: time.Millisecond})
	if _, err := post(t.Context(), c, "https://"+address); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("error %v, want a timeout", err)
	}
}

func TestErrorsHideURLAndNameServer(t *testing.T) {
	c := newClient(t, mustPolicy(t), ClientOptions{LookupIP: names{}.resolve})
	_, err := post(t.Context(), c, "http://nowhere.example/?key=secret")
	var u *url.Error
	if !errors.As(err, &u) || !strings.Contains(err.Error(), "secret") {
		t.Fatalf("error %v, want net/http's with the URL", err)
	}
	cause := Cause(err)
	if strings.Contains(cause.Error(), "secret") || strings.Contains(cause.Error(), "192.0.2.53") || !strings.Contains(cause.Error(), "no such host") {
		t.Errorf("cause: %v", cause)
	}
	if own := errors.New("own"); !errors.Is(Cause(own), own) || Cause(nil) != nil {
		t.Error("Cause changes errors that have no URL")
	}
}

func TestCauseHidesSourceAddress(t *testing.T) {
	sources := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sources <- r.RemoteAddr
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // a reset
		_ = conn.Close()
	}))
	defer s.Close()
	c := newClient(t, mustPolicy(t), ClientOptions{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = send(c, req)
	source := <-sources
	if err == nil || !strings.Contains(err.Error(), source) {
		t.Fatalf("error %v, want net's with the source %s", err, source)
	}
	cause := Cause(err)
	if strings.Contains(cause.Error(), source) || !strings.Contains(cause.Error(), s.Listener.Addr().String()) || !errors.Is(cause, syscall.ECONNRESET) {
		t.Errorf("cause %v, want the reset without its source", cause)
	}
}

func TestHeaderValuesAreNotInErrors(t *testing.T) {
	c := newClient(t, mustPolicy(t), ClientOptions{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1/", bytes.NewReader(nil))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "secret\nX: y")
	if _, err := send(c, req); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

// Nobody listens at 127.0.0.2.
func TestUnresolvableNamesAreNotForbiddenErrors(t *testing.T) {
	s, _ := counted(t)
	c := newClient(t, mustPolicy(t), ClientOptions{LookupIP: names{"empty.example": {{}}}.resolve})
	for _, u := range []string{named(s, "127.0.0.2"), "http://empty.example/", "http://unknown.example/"} {
		_, err := post(t.Context(), c, u)
		var f *ForbiddenError
		if err == nil || errors.As(err, &f) {
			t.Errorf("%s: error %v, want one that may go away", u, err)
		}
	}
}

func TestOnlyFirstAddressesAreTried(t *testing.T) {
	var many []string
	for range 100 {
		many = append(many, "127.0.0.2")
	}
	c := newClient(t, mustPolicy(t), ClientOptions{LookupIP: names{"a.example": {many}}.resolve})
	s, _ := counted(t)
	_, err := post(t.Context(), c, named(s, "a.example"))
	if err == nil || strings.Count(err.Error(), "127.0.0.2:") != maxAddresses {
		t.Errorf("error %v, want %d tries", err, maxAddresses)
	}
}
