package human

import "time"

const (
	// DefaultBackoff is the wait before the task is posted again for the first
	// time. It doubles with every failure in a row.
	DefaultBackoff = 500 * time.Millisecond

	// DefaultMaxBackoff is the longest such wait.
	DefaultMaxBackoff = 30 * time.Second

	// MaxFirstFailures is after how many failures in a row an endpoint that never
	// took the task is unreachable: some seconds, so that a wrong endpoint is
	// told at once and one that just starts is found.
	MaxFirstFailures = 5

	// MaxFailures is the same once the task was sent: ten to twenty minutes. A
	// person may be at work on it while the endpoint is restarted or moved.
	MaxFailures = 45

	// steady is how long a wait must have lasted for failures before it not to
	// count: proxies cut quiet connections every minute, and that may go on for as
	// long as the person thinks.
	steady = 5 * time.Second

	// maxAnswer is how many bytes a person's answer may have. Those of callers who
	// left are kept, and no correction is nearly as long.
	maxAnswer = 2 << 20

	// maxErrorBody is how much of the body of an error is read.
	maxErrorBody = 64 << 10

	// maxDetail is how many characters of what an endpoint said are repeated.
	maxDetail = 300
)
