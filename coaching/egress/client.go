package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// ClientOptions are the settings of a client.
type ClientOptions struct {
	ConnectTimeout time.Duration  // 0: DefaultConnectTimeout
	MaxResponse    int64          // bytes of a body; 0: DefaultMaxResponse
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

// NewClient makes a client that obeys the policy. Close it.
func (p *Policy) NewClient(o ClientOptions) *Client {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.MaxResponse <= 0 {
		o.MaxResponse = DefaultMaxResponse
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
			Transport: &guard{policy: p, next: t, maxResponse: o.MaxResponse, closed: d.base},
			// The guard already makes redirects errors.
			CheckRedirect: func(*http.Request, []*http.Request) error { return ErrRedirect },
		},
		transport: t,
		dialer:    d,
	}
}

// HTTP is the HTTP client. It has no timeout; calls end with their context. Its errors
// hold the URL with its query; see [Cause].
func (c *Client) HTTP() *http.Client { return c.http }

// Close closes every connection, also those in use. Running and later calls fail. It
// returns when the descriptors are closed.
func (c *Client) Close() {
	c.dialer.close()
	c.transport.CloseIdleConnections()
}
