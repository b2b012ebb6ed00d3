package connection

import "time"

const (
	// writeTimeout bounds the writing of an error or of a probe: they are so short that
	// only a client that reads nothing at all takes longer.
	writeTimeout = 5 * time.Second
	// drainTime and drainBytes are how much of what a refused client still sends is read, so
	// that it gets to see the answer.
	drainTime  = time.Second
	drainBytes = 64 << 20
	// firstPause is the time between the first two looks at a client. It doubles up to
	// maxPause: most that stop sending have left, which shows at once.
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)
