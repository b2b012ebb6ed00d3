package check

import "time"

// Limits of the kit.
const (
	patience     = 2 * time.Minute       // for an answer
	slowPatience = 20 * time.Second      // for an answer while another client sends
	hundred      = 120                   // requests of which a server may fail none
	pause        = 20 * time.Millisecond // before the kit looks again, or sends what a busy server refused
	busyTries    = 3000                  // of a request that a busy server refuses
	closingTries = 500                   // of PUT until a session that closes refuses it
	maxAnswer    = 128 << 20             // bytes of an answer
	maxJudged    = 1 << 20               // bytes of a request whose answer is judged by the laws
	maxShown     = 160                   // bytes of a server's text in a report
	clients      = 8                     // that ask at the same time in the rules of concurrency
	MaxLoad      = 1000                  // clients of Config.Load
)
