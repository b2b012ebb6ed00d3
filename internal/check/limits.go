package check

import "time"

// Limits of the kit.
const (
	patience     = 2 * time.Minute       // for an answer
	pause        = 20 * time.Millisecond // before the kit looks again, or sends what a busy server refused
	busyTries    = 3000                  // of a request that a busy server refuses
	closingTries = 500                   // of PUT until a session that closes refuses it
	maxAnswer    = 1 << 30               // bytes of an answer
	maxShown     = 160                   // bytes of a server's text in a report
	clients      = 8                     // that ask at the same time in the rules of concurrency
	MaxLoad      = 1000                  // clients of Config.Load
)
