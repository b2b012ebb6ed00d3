package coaching

import (
	"context"
	"errors"
	"fmt"

	"agentd/coaching/repair"
	"agentd/protocol"
)

// coach is asked by a session for corrections: a model, a panel of models, or the
// people at an endpoint. The error is the context's of a caller who left, a *FullError, or
// errSessionClosing.
type coach interface {
	ask(ctx context.Context, r *request) (reply, error)
}

// errSessionClosing is the error of a coach that a closing session does not ask.
var errSessionClosing = errors.New("the coaching session is closing")

// reply is the outcome of asking a coach.
type reply struct {
	status    string // one of protocol.CoachingCorrected, CoachingAbandoned, CoachingFailed
	reason    string // also the reason of a correction
	proposals []protocol.CoachingProposal
	final     bool // no other coach is asked
	byPerson  bool // a person answered, with or without a correction
}

func corrected(v *repair.Verdict) reply {
	return reply{status: protocol.CoachingCorrected, reason: v.Why, proposals: v.Proposals, final: true}
}

func abandoned(format string, args ...any) reply {
	return reply{status: protocol.CoachingAbandoned, reason: fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) reply {
	return reply{status: protocol.CoachingFailed, reason: fmt.Sprintf(format, args...)}
}

// last marks a reply after which no other coach is asked.
func (r reply) last() reply {
	r.final = true
	return r
}

// interrupted is the reply to a request whose context ended while it was in progress.
func interrupted(ctx context.Context) (reply, error) {
	if cause := context.Cause(ctx); errors.Is(cause, ErrShutdown) {
		return failed("the server shut down before a coach had answered; ask again when it is back").last(), nil
	}
	return reply{}, ctx.Err()
}
