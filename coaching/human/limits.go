package human

import "time"

const (
	// firstBackoff is the wait after the first failure, and maxBackoff the longest one. It doubles
	// with every further failure in a row.
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second

	// MaxFirstFailures is how many failures in a row make an endpoint unreachable that has not
	// taken the task. They take some seconds: enough for one that is starting.
	MaxFirstFailures = 5

	// MaxFailures is the same after the task was sent. They take ten to twenty minutes, since
	// a person may work on the task while the endpoint restarts or moves.
	MaxFailures = 45

	// steady is the duration of a wait after which failures are counted from 0 again. Proxies cut
	// idle connections every minute, as long as the person thinks.
	steady = 5 * time.Second

	// maxErrorBody bounds the bytes that are read of an error's body.
	maxErrorBody = 64 << 10

	// maxDetail bounds the characters of an endpoint's text in an error.
	maxDetail = 300
)
