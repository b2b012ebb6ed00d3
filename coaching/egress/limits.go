package egress

import "time"

const (
	// DefaultConnectTimeout bounds looking up a name, connecting to one of its
	// addresses and, by itself again, the TLS handshake.
	DefaultConnectTimeout = 10 * time.Second

	// DefaultMaxResponse is how many bytes the body of an answer may have. A
	// coach answers with one decision; a megabyte would already be odd.
	DefaultMaxResponse = 16 << 20

	// MaxResponseHeader is how many bytes the headers of an answer may have.
	MaxResponseHeader = 64 << 10

	// MaxURL is how many bytes an endpoint may have.
	MaxURL = 2048

	// maxAddresses is how many addresses of one name are tried. A name with a
	// thousand addresses must not become a thousand connections.
	maxAddresses = 8

	// minAddressTime is what one of several addresses gets at least, so that
	// many silent ones do not leave too little for the one that answers.
	minAddressTime = 2 * time.Second

	// idleTimeout ends a connection that nobody has used.
	idleTimeout = 60 * time.Second

	// maxIdlePerHost is how many connections to one endpoint are kept for reuse;
	// about as many as a session has workers.
	maxIdlePerHost = 16

	// keepAliveIdle, keepAliveInterval and keepAliveCount end a connection whose
	// other side is gone without a word. People may think for hours, so nothing
	// else would notice.
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 4

	// pingAfter and pingTimeout do the same for HTTP/2, where a proxy may keep the
	// connection alive for a server that is gone.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second

	// MaxHeaders is how many bytes the names and values of all headers of a session
	// may have, and maxHeaderValue one value. Servers refuse more, and looking for a
	// key in texts takes time with the square of its length.
	MaxHeaders     = 64 << 10
	maxHeaderValue = 8 << 10

	// MaxBackends is how many backends a session may have; each is asked in its turn
	// for every request.
	MaxBackends = 64

	// minSecret is the shortest header value that is searched for in texts:
	// hiding every "1" would leave nothing to read, and is no key.
	minSecret = 4

	// maxShown is how much of a URL a message repeats.
	maxShown = 200
)
