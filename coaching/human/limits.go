package human

import "time"

const (
	// DefaultBackoff is the wait after the first failure. It doubles with every further
	// one in a row.
	DefaultBackoff = 500 * time.Millisecond

	// DefaultMaxBackoff is the longest such wait.
	DefaultMaxBackoff = 30 * time.Second

	// MaxFirstFailures in a row make an endpoint unreachable that never took the task.
	// They take some seconds: enough for one that is starting.
	MaxFirstFailures = 5

	// MaxFailures is the same once the task was sent. They take ten to twenty minutes. A
	// person may work on the task while the endpoint restarts or moves.
	MaxFailures = 45

	// steady is the length of a wait that resets the count of failures. Proxies cut idle
	// connections every minute, for as long as the person thinks.
	steady = 5 * time.Second

	// maxAnswer bounds the bytes of a person's answer. Answers for callers who left are
	// kept, and no correction is nearly as long.
	maxAnswer = 2 << 20

	// maxErrorBody bounds what is read of an error's body.
	maxErrorBody = 64 << 10

	// maxDetail bounds the characters of an endpoint's text in an error.
	maxDetail = 300
)
