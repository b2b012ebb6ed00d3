package check

import "time"

const (
	// patience is how long an answer is waited for.
	patience = 2 * time.Minute
	// pause is how long the kit waits before it looks again, or sends what a busy server refused.
	pause = 20 * time.Millisecond
	// busyTries bounds how often a request is sent that a busy server refuses.
	busyTries = 3000
	// closingTries bounds how often PUT is sent until a session that closes refuses it.
	closingTries = 500
	// maxAnswer bounds an answer in bytes.
	maxAnswer = 1 << 30
	// maxShown bounds a text of the server in a report, in bytes.
	maxShown = 160
	// clients ask at the same time in the rules of concurrency.
	clients = 8
	// MaxLoad bounds the clients of Config.Load.
	MaxLoad = 1000
)
