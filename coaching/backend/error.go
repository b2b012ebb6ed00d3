package backend

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Kind is why a try failed.
type Kind string

// The kinds of errors.
const (
	KindUnreachable Kind = "unreachable" // no connection, or it broke
	KindForbidden   Kind = "forbidden"   // the policy forbids the endpoint, or it redirects
	KindTimeout     Kind = "timeout"     // no answer in time
	KindRefused     Kind = "refused"     // the request was rejected (4xx); a retry does not help
	KindBusy        Kind = "busy"        // 409, 425, 429, 503, 529: later
	KindFailed      Kind = "failed"      // the endpoint failed (5xx)
	KindTooLarge    Kind = "too_large"   // the answer is larger than the server reads
	KindGarbled     Kind = "garbled"     // the answer does not match the API
	KindTruncated   Kind = "truncated"   // the answer reached the token limit
	KindDeclined    Kind = "declined"    // the model or a content filter refused to answer
	KindClosed      Kind = "closed"      // the session is closed, or the server's own model is
)

// kindTexts are the kinds in words.
var kindTexts = map[Kind]string{
	KindUnreachable: "cannot reach the model",
	KindForbidden:   "the server may not connect there",
	KindTimeout:     "the model did not answer in time",
	KindRefused:     "the model's endpoint refuses the request",
	KindBusy:        "the model is busy",
	KindFailed:      "the model's endpoint failed",
	KindTooLarge:    "the answer is too large",
	KindGarbled:     "the answer is not what this kind of endpoint answers",
	KindTruncated:   "the answer was cut off at the limit of tokens",
	KindDeclined:    "the model declines to answer",
	KindClosed:      "the session, or the model, is closed",
}

// Error is a failed try. Its text may go to clients, since it holds no header's value.
type Error struct {
	Kind       Kind
	Status     int           // the HTTP status; 0 if there was none
	RetryAfter time.Duration // the wait that the endpoint asked for; 0 if it did not
	Detail     string        // for a person: redacted, one line, at most 500 characters
	Err        error         // the cause if it is egress's; others are dropped, since they repeat what was sent

	// lasting marks an error of a temporary kind that will not pass, such as a wrong certificate.
	lasting bool
}

// Error is one line for a person.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(kindTexts[e.Kind])
	if e.Status != 0 {
		fmt.Fprintf(&b, " (%s)", strings.TrimSpace(strconv.Itoa(e.Status)+" "+http.StatusText(e.Status)))
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, " (asks to wait %s)", e.RetryAfter.Round(time.Second))
	}
	return b.String()
}

// Unwrap returns the cause, so that errors.Is finds egress's errors.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether a retry may help.
func (e *Error) Temporary() bool {
	switch e.Kind {
	case KindUnreachable, KindTimeout, KindBusy, KindFailed:
		return !e.lasting
	default:
		return false
	}
}

// statusKind is the kind of a failing HTTP status.
func statusKind(status int) Kind {
	switch {
	case status == http.StatusRequestTimeout:
		return KindTimeout
	case status == http.StatusConflict, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status == http.StatusServiceUnavailable, status == statusOverloaded:
		return KindBusy
	case status >= 500:
		return KindFailed
	case status >= 400:
		return KindRefused
	default:
		return KindGarbled
	}
}

// statusOverloaded is Anthropic's status for an overloaded service.
const statusOverloaded = 529
