package connection

import "time"

const (
	writeTimeout     = 5 * time.Second      // for an error or a probe: only a client that reads nothing needs longer
	descriptorsEvery = time.Minute          // between errors in the log about a lack of file descriptors
	maxHead          = 64 << 10             // bytes of a request's head that are kept to compare its headers
	drainTime        = time.Second          // of reading from a refused client, which lets it see the answer
	drainBytes       = 64 << 20             // the same in bytes
	firstPause       = 5 * time.Millisecond // between polls of a half-closed client. It doubles up to maxPause.
	maxPause         = time.Second
)
