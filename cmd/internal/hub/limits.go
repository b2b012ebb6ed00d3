package hub

import "time"

const (
	maxTries      = 6                      // failures in a row after which an error counts
	firstWait     = 500 * time.Millisecond // after the first failure. It doubles with each further one.
	longestWait   = 6 * time.Minute        // more than any Retry-After of the hub, whose rates count for five minutes
	headerTimeout = 30 * time.Second       // until an answer begins
	stallTimeout  = time.Minute            // without a byte of its body
	lockPause     = 200 * time.Millisecond // between two looks at a lock that another process holds
	listLimit     = 32 << 20               // bytes of the list of a repository's files
	listTime      = 30 * time.Second       // for one try to get it
)
