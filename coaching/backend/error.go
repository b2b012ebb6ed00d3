package backend

import (
	"time"
)

// Kind says what went wrong with a try.
type Kind string

// The kinds of errors.
const (
	KindUnreachable Kind = "unreachable" // no connection, or it broke
	KindForbidden   Kind = "forbidden"   // the server may not connect there, or it was sent elsewhere
	KindTimeout     Kind = "timeout"     // no answer in time
	KindRefused     Kind = "refused"     // the endpoint refuses the request (4xx): asking again does not help
	KindBusy        Kind = "busy"        // 429, 503, 529: later
	KindFailed      Kind = "failed"      // the endpoint failed (5xx)
	KindTooLarge    Kind = "too_large"   // the answer is larger than the server reads
	KindGarbled     Kind = "garbled"     // the answer is not what this API answers
	KindTruncated   Kind = "truncated"   // the answer ended at the limit of tokens
	KindDeclined    Kind = "declined"    // the model, or a filter before it, will not answer
	KindClosed      Kind = "closed"      // the session, or the server's own model, is closed
)

// Error is a try that failed. Its text is fit for a client: it names no header's value.
type Error struct {
	Kind       Kind
	Status     int           // the HTTP status, 0 when none came
	RetryAfter time.Duration // how long the endpoint wants to be left alone, 0 when it did not say
	Detail     string        // for a person: redacted and short
	Err        error         // the cause, for errors.Is; its text is not redacted, so never print it
}
