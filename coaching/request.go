package coaching

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"agentd/coaching/repair"
	"agentd/protocol"

	"github.com/google/uuid"
)

// Coach answers a request for a repair. The error is protocol.Problems for a
// trajectory that is too long, ErrUnknown if the run has no session, or a *FullError if the
// session is full. It is ErrShutdown, or ctx's error if ctx ended first. Everything else is a
// response, failures of coaches included.
func (s *Service) Coach(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error) {
	if n := len(req.Trajectory); s.opts.MaxSteps > 0 && n > s.opts.MaxSteps {
		return nil, protocol.Problems{protocol.NewProblem(protocol.TypeTooLong,
			fmt.Sprintf("has %d steps, this server takes at most %d; send the newest ones, with the target step among them", n, s.opts.MaxSteps), "trajectory")}
	}
	content := req.AppendJSON(nil) // about as long as the request in memory
	bytes := int64(len(content))
	sess, held, err := s.acquire(ctx, req.RunID, bytes)
	if err != nil {
		return nil, s.metrics.full("requests", err)
	}
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	r := &request{service: s, session: sess, lease: held, req: req, entered: s.opts.Now(), provider: sess.record.Config.Provider}
	defer func() {
		held.drop()
		sess.leave(bytes)
	}()
	r.id = taskID(sess, content)
	a, repeated, err := sess.answers.do(ctx, r.id, func() (answer, error) { return r.answerOnce(ctx) })
	switch {
	case err == nil:
		r.provider = a.provider
		r.report(a.res, repeated || a.repeated)
	case ctx.Err() != nil:
		r.report(&protocol.SpecializedCoachingResponse{Status: statusLeft}, repeated)
	}
	return a.res, err
}

// answer asks the coaches and makes the response. One that no coach gave is not kept,
// so that the same request may ask again.
func (r *request) answer(ctx context.Context) (answer, error) {
	r.log = newLogbook(r.session.redactor, r.entered, r.req, r.provider, r.session.record.Config.CaptureLogs)
	reply, err := r.ask(ctx)
	if err != nil {
		return answer{}, err
	}
	res := r.response(reply)
	return answer{res: res, provider: r.provider, keep: reply.byPerson || res.Status != protocol.CoachingFailed}, nil
}

// taskID is an ID for a request and its task for people. It is the same for the same
// content in the same session only.
func taskID(s *session, content []byte) string {
	digest := sha256.Sum256(content) // the ids of run and request are in it
	return uuid.NewSHA1(s.record.ID, digest[:]).String()
}

// request is one coaching request until its response.
type request struct {
	service  *Service
	session  *session
	lease    *lease
	req      *protocol.SpecializedCoachingRequest
	id       string
	prepared *repair.Case // nil until a coach needs it
	log      *logbook

	provider string // of the response: the session's unless a person decided
	entered  time.Time
	attempts int
}

// repair is the request, prepared for coaches.
func (r *request) repair() *repair.Case {
	if r.prepared == nil {
		r.prepared = repair.NewCase(r.req)
	}
	return r.prepared
}

// redacted is the prepared request for texts that others than its coach read. Their
// quotes are clipped, and a key cut in two would not be recognised any more.
func (r *request) redacted() *repair.Case { return r.repair().Redacted(r.session.redactor) }

// ask asks the session's coaches in turn until one of them decides. The error is the
// context's of a caller who left, or a *FullError.
func (r *request) ask(ctx context.Context) (reply, error) {
	if len(r.req.ReinjectionPoints) == 0 {
		return abandoned("the request has no reinjection points, so a correction could not be put in anywhere; name at least one"), nil
	}
	var all reply
	for i, c := range r.session.coaches {
		next, err := c.ask(ctx, r)
		switch {
		case errors.Is(err, errSessionClosing):
			return all, nil
		case err != nil:
			return reply{}, err
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

// both joins the reply of coaches without a correction with the next coach's.
func (r *request) both(first, next reply) reply {
	next.byPerson = next.byPerson || first.byPerson
	if next.status == protocol.CoachingCorrected {
		return next
	}
	if first.status == protocol.CoachingAbandoned {
		next.status = protocol.CoachingAbandoned
	}
	// Each gets half of the bytes of a reason.
	half := func(reason string) string { return shorten(r.session.redactor.Text(reason), maxReason/2-maxClipped) }
	next.reason = half(first.reason) + "; then: " + half(next.reason)
	return next
}

// response is the valid response of a reply.
func (r *request) response(given reply) *protocol.SpecializedCoachingResponse {
	res := r.render(given)
	if err := res.Validate(r.req); err != nil {
		// Proposals were checked before, so this is a bug. It must not reach the
		// orchestrator as a correction.
		r.service.opts.Log.Error().Err(err).Str("run_id", shorten(r.req.RunID, maxLogID)).Str("kind", r.req.Kind).Msg("coaching response is invalid")
		res = r.render(failed("the correction that was found is not a valid response: %v", err))
	}
	return res
}

func (r *request) render(given reply) *protocol.SpecializedCoachingResponse {
	reason := shorten(r.session.redactor.Text(given.reason), maxReason)
	res := &protocol.SpecializedCoachingResponse{RequestID: r.req.RequestID, Status: given.status, Proposals: given.proposals}
	if given.status != protocol.CoachingCorrected {
		res.Reason = reason
	}
	if !r.log.off {
		content := r.log.verdict(res, reason, r.service.opts.Now().Sub(r.entered))
		res.Logs = []protocol.CoachingLog{{CoachingType: r.req.Kind, Content: content}}
	}
	return res
}

// report writes to metrics and the server's log how the request ended. The server logs those
// that ended with an error.
func (r *request) report(res *protocol.SpecializedCoachingResponse, repeated bool) {
	took := r.service.opts.Now().Sub(r.entered)
	r.service.metrics.request(r.req.Kind, r.provider, res.Status, took)
	r.service.opts.Log.Info().
		Str("run_id", shorten(r.req.RunID, maxLogID)).Str("request_id", shorten(r.req.RequestID, maxLogID)).
		Str("kind", r.req.Kind).Str("provider", r.provider).Str("status", res.Status).Str("reason", res.Reason).
		Bool("posted_again", repeated).Int("attempts", r.attempts).Int("proposals", len(res.Proposals)).Dur("took", took).Msg("coached")
}

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
