package connection

import "time"

// MaxHeader bounds the bytes of request line and headers together.
const MaxHeader = 64 << 10

const (
	headerTimeout    = 10 * time.Second     // for a client to send its headers
	idleTimeout      = 2 * time.Minute      // closes idle keep-alive connections
	writeTimeout     = 5 * time.Second      // for an error or a probe
	descriptorsEvery = time.Minute          // between log lines about a lack of file descriptors
	maxHead          = 64 << 10             // bytes of a request's head that are kept, see mayMislead
	drainTime        = time.Second          // how long to read from a refused client, see Drain
	drainBytes       = 64 << 20             // how many bytes to read from it
	firstPause       = 5 * time.Millisecond // first pause between polls of a half-closed client; it doubles up to maxPause
	maxPause         = time.Second
)
