package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// ClientOptions are the settings of a client.
type ClientOptions struct {
	ConnectTimeout time.Duration  // 0: DefaultConnectTimeout
	RootCAs        *x509.CertPool // nil: the system's

	// LookupIP resolves names; nil: the system's configuration, by Go's own
	// resolver. It must return when its context ends.
	LookupIP func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Client makes the connections of one session. It is safe for concurrent use.
type Client struct {
	http      *http.Client
	transport *http.Transport
	dialer    *dialer
}

// NewClient makes a client with the policy. Close must be called.
func (p *Policy) NewClient(o ClientOptions) *Client {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.LookupIP == nil {
		// Lookups of the C library cannot be interrupted and hold a thread each. A slow
		// name server could take all threads.
		o.LookupIP = (&net.Resolver{PreferGo: true}).LookupNetIP
	}
	d := &dialer{policy: p, timeout: o.ConnectTimeout, lookupIP: o.LookupIP, conns: make(map[*conn]struct{})}
	d.base, d.end = context.WithCancel(context.Background())
	t := &http.Transport{
		Proxy:                  nil, // whatever the environment says
		DialContext:            d.dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout:    o.ConnectTimeout,
		DisableCompression:     true, // a small answer must not become a large one
		MaxResponseHeaderBytes: MaxResponseHeader,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	return &Client{
		http: &http.Client{
			Transport: &guard{policy: p, next: t, closed: d.base},
			// The guard already makes redirects errors.
			CheckRedirect: func(*http.Request, []*http.Request) error { return ErrRedirect },
		},
		transport: t,
		dialer:    d,
	}
}

// HTTP returns the HTTP client. It has no timeout; calls end with their context. Its errors
// contain the URL with its query, see [Cause].
func (c *Client) HTTP() *http.Client { return c.http }

// Close closes every connection, also those in use. Running and later calls fail. It
// returns when the descriptors are closed.
func (c *Client) Close() {
	c.dialer.close()
	c.transport.CloseIdleConnections()
}

// guard is the http.RoundTripper of a client. It checks requests and answers.
type guard struct {
	policy *Policy
	next   *http.Transport
	closed context.Context // ends with the client
}

// RoundTrip does one exchange.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.check(req); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	out := req.Clone(req.Context()) // a RoundTripper does not change its request
	out.Header.Set("Accept-Encoding", "identity")
	res, err := g.next.RoundTrip(out)
	if err != nil {
		return nil, g.explain(err)
	}
	if err := g.checkAnswer(res); err != nil {
		res.Body.Close()
		return nil, err
	}
	res.Body = &guardedBody{http.MaxBytesReader(nil, res.Body, MaxResponse), g}
	return res, nil
}

// CloseIdleConnections is for http.Client's method of that name.
func (g *guard) CloseIdleConnections() { g.next.CloseIdleConnections() }

// check checks the URL again, since a request need not come from a checked endpoint.
func (g *guard) check(req *http.Request) error {
	if g.closed.Err() != nil {
		return ErrClosed
	}
	if req.Host != "" && req.Host != req.URL.Host {
		return &ForbiddenError{SafeURL(req.URL.String()), "is asked for in the name of another host"}
	}
	for name := range req.Header {
		if isHopByHop(name) {
			return &ForbiddenError{"header " + name, "is for the connection and not for a request to set"}
		}
	}
	return g.policy.CheckURL(req.URL.String())
}

// checkAnswer checks an answer before its body is read.
func (g *guard) checkAnswer(res *http.Response) error {
	switch res.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return ErrRedirect
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return errors.New("the endpoint switched to another protocol")
	}
	for _, coding := range res.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return ErrEncoded
		}
	}
	if res.ContentLength > MaxResponse {
		return fmt.Errorf("%w: %d bytes announced, %d allowed", ErrTooLarge, res.ContentLength, MaxResponse)
	}
	return nil
}

// explain turns errors of the transport into errors of this package.
func (g *guard) explain(err error) error {
	if g.closed.Err() != nil {
		return ErrClosed
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return fmt.Errorf("%w: its body has more than %d bytes", ErrTooLarge, MaxResponse)
	}
	// net/http has no error values for these. HTTP/1 first, then HTTP/2.
	for _, text := range []string{"server response headers exceeded", "response header list larger"} {
		if strings.Contains(err.Error(), text) {
			return fmt.Errorf("%w: its headers are larger than %d bytes", ErrTooLarge, MaxResponseHeader)
		}
	}
	return err
}

// guardedBody is a body with errors of this package. It fails when it exceeds its limit.
type guardedBody struct {
	io.ReadCloser
	guard *guard
}

func (b *guardedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.guard.explain(err)
	}
	return n, err
}
