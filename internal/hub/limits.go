package hub

import "time"

const (
	// maxTries is how often a request fails in a row before its error counts. What a download
	// got in between starts the count again.
	maxTries = 6
	// firstWait is the wait after the first failure. It doubles with each further one.
	firstWait = 500 * time.Millisecond
	// longestWait is more than any Retry-After of the hub. Its rates count for five minutes.
	longestWait = 6 * time.Minute
	// headerTimeout bounds the time until an answer begins, stallTimeout the time without a
	// byte of its body.
	headerTimeout, stallTimeout = 30 * time.Second, time.Minute
	// lockPause is the wait between two looks at a lock that another process holds.
	lockPause = 200 * time.Millisecond
	// listLimit bounds the list of a repository's files, in bytes.
	listLimit = 32 << 20
	// listTime bounds one try to get it.
	listTime = 30 * time.Second
)
