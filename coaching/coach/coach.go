// Package coach asks the coaches of a session for a correction: models in their order, and
// people. The failure of a coach is a reply and not an error.
//
// Each file uses only files after it: models.go, people.go, tasks.go, breaker.go, spans.go, coach.go.
package coach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"agentd/coaching/backend"
	"agentd/coaching/internal/quote"
	"agentd/coaching/logbook"
	"agentd/coaching/repair"
	"agentd/coaching/session"
	"agentd/coaching/store"
	"agentd/protocol"
)

// MaxReason bounds the bytes of a reply's reason, and maxNote the bytes of the note about the cut part.
const (
	MaxReason = 2000
	maxNote   = 50
)

// Coach is the models of a session, or the people at an endpoint. The error is the context's of a
// caller that has left, a *store.FullError, or errClosing.
type Coach interface {
	Ask(ctx context.Context, r *Request) (Reply, error)
}

// Env has what the coaches of a session share.
type Env struct {
	Session *session.Session
	Keys    *quote.Redactor // of the session's configuration
	Log     zerolog.Logger  // names the run
	Tried   func(backendType string, a backend.Attempt)

	Sleep func(ctx context.Context, d time.Duration) error
	Rand  func() float64 // in [0, 1)
	Now   func() time.Time
}

// Request is one coaching request. One goroutine at a time uses it.
type Request struct {
	Body     *protocol.SpecializedCoachingRequest
	ID       string // equal for equal requests of a session; also the id of its task for people
	Lease    *store.Lease
	Log      *logbook.Book
	Keys     *quote.Redactor // of the session's configuration
	Attempts int             // number of calls of models and tasks for people

	Unanswered bool         // people have its task, and nobody here waits for them
	asked      *repair.Case // nil until a coach needs it
}

// repair returns the request, prepared for coaches.
func (r *Request) repair() *repair.Case {
	if r.asked == nil {
		r.asked = repair.NewCase(r.Body)
	}
	return r.asked
}

// redacted returns the prepared request for errors and reasons that clients read: these have no keys. Keys are
// removed before the texts are clipped, since half a key would not be recognised.
func (r *Request) redacted() *repair.Case { return r.repair().Redacted(r.Keys) }

// Reply is the outcome of asking a coach.
type Reply struct {
	Status    string // one of protocol.CoachingCorrected, CoachingAbandoned, CoachingFailed
	Reason    string // also the reason of a correction
	Proposals []protocol.CoachingProposal
	ByPerson  bool // a person answered, with or without a correction
	Decided   bool // people decided, so no other coach is asked

	final bool // no other coach is asked
}

func corrected(v *repair.Verdict) Reply {
	return Reply{Status: protocol.CoachingCorrected, Reason: v.Why, Proposals: v.Proposals, final: true}
}

// Abandoned returns the reply of a coach that declined, or that gave no valid correction.
func Abandoned(format string, args ...any) Reply {
	return Reply{Status: protocol.CoachingAbandoned, Reason: fmt.Sprintf(format, args...)}
}

// Failed returns the reply if no coach could be reached.
func Failed(format string, args ...any) Reply {
	return Reply{Status: protocol.CoachingFailed, Reason: fmt.Sprintf(format, args...)}
}

// last marks a reply after which no other coach is asked.
func (r Reply) last() Reply {
	r.final = true
	return r
}

// errClosing is the error of a coach that a closing session does not ask.
var errClosing = errors.New("the coaching session is closing")

// Ask asks coaches in turn until one decides. The error is the context's of a caller that has
// left, or a *store.FullError.
func Ask(ctx context.Context, coaches []Coach, r *Request) (Reply, error) {
	if len(r.Body.ReinjectionPoints) == 0 {
		return Abandoned("the request has no reinjection points, so a correction could not be put in anywhere; name at least one"), nil
	}
	var all Reply
	for i, c := range coaches {
		next, err := c.Ask(ctx, r)
		switch {
		case errors.Is(err, errClosing):
			return all, nil
		case err != nil:
			return Reply{}, err
		case i == 0:
			all = next
		default:
			all = r.both(all, next)
		}
		if all.final {
			break
		}
	}
	return all, nil
}

// both merges the reply of coaches without a correction and that of the next coach.
func (r *Request) both(first, next Reply) Reply {
	next.ByPerson = next.ByPerson || first.ByPerson
	if next.Status == protocol.CoachingCorrected {
		return next
	}
	if first.Status == protocol.CoachingAbandoned {
		next.Status = protocol.CoachingAbandoned
	}
	// Each gets half of the bytes of a reason.
	half := func(reason string) string { return quote.Quoter{}.Short(r.Keys.Text(reason), MaxReason/2-maxNote) }
	next.Reason = half(first.Reason) + "; then: " + half(next.Reason)
	return next
}

// interrupted returns the reply to a request whose context ended while it was in progress.
func interrupted(ctx context.Context) (Reply, error) {
	if cause := context.Cause(ctx); errors.Is(cause, session.ErrShutdown) {
		return Failed("the server shut down before a coach had answered; ask again when it is back").last(), nil
	}
	return Reply{}, ctx.Err()
}
