package connection

import "time"

const (
	// writeTimeout bounds the write of an error or a probe. Both are short, so it only ends
	// writes to a client that reads nothing.
	writeTimeout = 5 * time.Second
	// descriptorsEvery is how often a lack of file descriptors is logged as an error.
	descriptorsEvery = time.Minute
	// maxHead bounds the bytes of a request's head that are kept to compare its headers.
	maxHead = 64 << 10
	// drainTime and drainBytes bound the reading from a refused client, which lets it see the
	// answer.
	drainTime  = time.Second
	drainBytes = 64 << 20
	// firstPause is the first poll interval of a half-closed client. It doubles up to maxPause.
	// Most such clients have left, which the first poll shows.
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)
