package console

import (
	"crypto/tls"
	"io/fs"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"agentd/internal/base/budget"
	"agentd/protocol/client"
)

// Options configure a Console.
type Options struct {
	// Path is the file of the task store. Open creates a missing one.
	Path string
	// Agent answers requests for candidates; nil: no candidates.
	Agent *client.Client
	// Tokens are the tokens with which people log in; empty: no login.
	Tokens []string
	// PublicHosts are the host names of the page, besides localhost and IP addresses.
	PublicHosts []string
	// AgentsFrom are the addresses of agents; empty: all addresses.
	AgentsFrom []netip.Prefix
	// Claim is the lifetime of a claim that is not renewed; 0: DefaultClaim.
	Claim time.Duration
	// Keep is the retention time of done tasks; 0: DefaultKeep.
	Keep time.Duration
	// Certificates are for TLS; empty: plain HTTP.
	Certificates []tls.Certificate
	// Log receives events, never an answer, a draft or a secret.
	Log zerolog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// NewSecret makes claims and ids; nil: random text.
	NewSecret func() string
	// Memory bounds the memory of all requests; nil: budget.Default bytes.
	Memory *budget.Budget
	// Page has the files of the web page; nil: the embedded ones.
	Page fs.FS
}
