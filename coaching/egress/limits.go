package egress

import "time"

const (
	// DefaultConnectTimeout bounds lookup and connect together, and then the TLS
	// handshake.
	DefaultConnectTimeout = 10 * time.Second

	// MaxResponse bounds the bytes of an answer's body. A decision has hundreds, and reasoning
	// before it up to some hundred thousand.
	MaxResponse = 2 << 20

	// MaxResponseHeader bounds the bytes of an answer's headers.
	MaxResponseHeader = 64 << 10

	// MaxURL bounds the bytes of an endpoint.
	MaxURL = 2048

	// maxAddresses bounds the addresses of one name that are tried.
	maxAddresses = 8

	// minAddressTime is the least time for each of several addresses.
	minAddressTime = 2 * time.Second

	// idleTimeout closes idle connections.
	idleTimeout = 60 * time.Second

	// maxIdlePerHost bounds the idle connections to one endpoint, about one for each
	// worker of a session.
	maxIdlePerHost = 16

	// keepAliveIdle, keepAliveInterval and keepAliveCount detect a dead peer. People may
	// think for hours, so no timeout would.
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 4

	// pingAfter and pingTimeout do the same for HTTP/2, where a proxy may keep the
	// connection of a dead server alive.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second

	// MaxHeaders bounds the bytes of all headers of a session, and maxHeaderValue the bytes
	// of one value. Servers reject more, and the search for a key in texts takes time
	// quadratic in its length.
	MaxHeaders     = 64 << 10
	maxHeaderValue = 8 << 10

	// MaxBackends bounds the backends of a session. A request may ask all of them.
	MaxBackends = 64

	// maxShown bounds the bytes of a URL in a message.
	maxShown = 200
)
