package coaching

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/coaching/repair"
	"agentd/protocol"
)

// Coach answers a request for a repair. The error is protocol.Problems for a
// trajectory that is too long, ErrUnknown when the run has no session,
// a *FullError when the session has no room, ErrShutdown, or ctx's when it ended
// first. Everything else, failures of coaches included, is a response.
func (s *Service) Coach(ctx context.Context, req *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error) {
	if n := len(req.Trajectory); s.opts.MaxSteps > 0 && n > s.opts.MaxSteps {
		return nil, protocol.Problems{protocol.NewProblem(protocol.TypeTooLong,
			fmt.Sprintf("has %d steps, this server takes at most %d; send the newest ones, with the target step among them", n, s.opts.MaxSteps), "trajectory")}
	}
	bytes := size(req)
	sess, err := s.acquire(ctx, req.RunID, bytes)
	if err != nil {
		return nil, s.metrics.full("requests", err)
	}
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	j := &job{service: s, session: sess, req: req, entered: s.opts.Now(), provider: sess.record.Config.Provider}
	defer func() { sess.leave(j.worked, bytes) }()
	j.id = j.requestID()
	f, again, err := sess.given.once(ctx, j.id, func() (found, error) { return j.find(ctx) })
	switch {
	case err == nil:
		j.provider = f.provider
		j.report(f.res.Status, f.res.Reason, again)
	case ctx.Err() != nil:
		j.report(statusLeft, "", again)
	}
	return f.res, err
}

// find looks for a response. One that no coach gave is not kept: the same request
// may ask again.
func (j *job) find(ctx context.Context) (found, error) {
	if j.session.record.Config.CaptureLogs {
		j.log = newLogbook(j.session.redactor, j.entered, j.req, j.provider)
	}
	verdict, err := j.answer(ctx)
	if err != nil {
		return found{}, err
	}
	res := j.response(verdict)
	return found{res, j.provider, j.person || res.Status != protocol.CoachingFailed}, nil
}

// job is one request on its way to its answer.
type job struct {
	service *Service
	session *session
	req     *protocol.SpecializedCoachingRequest
	id      string
	task    *repair.Case
	log     *logbook // nil when the session wants no logs

	provider string // of the result: that of the session unless a person had the last word
	person   bool   // a person gave an answer, of whatever kind
	entered  time.Time
	worked   time.Duration // in a slot
	attempts int
}

// result is how a request ended.
type result struct {
	status    string
	reason    string // also what the coach says about a correction
	proposals []protocol.CoachingProposal
}

func corrected(v *repair.Verdict) result {
	return result{protocol.CoachingCorrected, v.Why, v.Proposals}
}

func abandoned(format string, args ...any) result {
	return result{protocol.CoachingAbandoned, fmt.Sprintf(format, args...), nil}
}

func failed(format string, args ...any) result {
	return result{protocol.CoachingFailed, fmt.Sprintf(format, args...), nil}
}

// answer finds the result. The error is that of a caller who left.
func (j *job) answer(ctx context.Context) (result, error) {
	if len(j.req.ReinjectionPoints) == 0 {
		return abandoned("the request has no reinjection points, so a correction could not be put in anywhere; name at least one"), nil
	}
	switch s := j.session; {
	case s.coach == nil:
		return j.askModels(ctx)
	case len(s.backends) == 0:
		r, _, err := j.askPerson(ctx)
		return r, err
	case j.service.opts.People.When == PeopleFailed:
		r, err := j.askModels(ctx)
		if err != nil || r.status == protocol.CoachingCorrected || s.open.Err() != nil {
			return r, err
		}
		then, _, err := j.askPerson(ctx)
		return j.both(r, then), err
	default:
		r, final, err := j.askPerson(ctx)
		if err != nil || final {
			return r, err
		}
		then, err := j.askModels(ctx)
		return j.both(r, then), err
	}
}

// both is the result when the first coaches gave no correction and others were
// asked behind them.
func (j *job) both(first, then result) result {
	if then.status == protocol.CoachingCorrected {
		return then
	}
	status := protocol.CoachingFailed
	if first.status == protocol.CoachingAbandoned || then.status == protocol.CoachingAbandoned {
		status = protocol.CoachingAbandoned
	}
	// Each has its part of the room for a reason.
	part := func(reason string) string { return clip(j.session.redactor.Text(reason), maxReason/2-maxClipped) }
	return result{status, part(first.reason) + "; then: " + part(then.reason), nil}
}

// interrupted is the end of a request whose context ended while it was in work.
func interrupted(ctx context.Context) (result, error) {
	if cause := context.Cause(ctx); errors.Is(cause, ErrShutdown) {
		return failed("the server shut down before a coach had answered; ask again when it is back"), nil
	}
	return result{}, ctx.Err()
}

// response makes the response of a result; it is valid.
func (j *job) response(r result) *protocol.SpecializedCoachingResponse {
	res := j.render(r)
	if err := res.Validate(j.req); err != nil {
		// What is proposed was checked before, so this is a mistake of ours; it
		// must not reach the orchestrator as a correction.
		j.service.opts.Log.Error().Err(err).Str("run_id", clip(j.req.RunID, maxLogID)).Str("kind", j.req.Kind).Msg("coaching response is invalid")
		res = j.render(failed("the correction that was found is not a valid response: %v", err))
	}
	return res
}

func (j *job) render(r result) *protocol.SpecializedCoachingResponse {
	reason := clip(j.session.redactor.Text(r.reason), maxReason)
	res := &protocol.SpecializedCoachingResponse{RequestID: j.req.RequestID, Status: r.status, Proposals: r.proposals}
	if r.status != protocol.CoachingCorrected {
		res.Reason = reason
	}
	if j.log != nil {
		content := j.log.verdict(res, reason, j.service.opts.Now().Sub(j.entered))
		res.Logs = []protocol.CoachingLog{{CoachingType: j.req.Kind, Content: content}}
	}
	return res
}

// report tells metrics and the server's log how the request ended.
func (j *job) report(status, reason string, again bool) {
	took := j.service.opts.Now().Sub(j.entered)
	j.service.metrics.request(j.req.Kind, j.provider, status, took)
	j.service.opts.Log.Info().
		Str("run_id", clip(j.req.RunID, maxLogID)).Str("request_id", clip(j.req.RequestID, maxLogID)).
		Str("kind", j.req.Kind).Str("provider", j.provider).Str("status", status).Str("reason", reason).
		Bool("posted_again", again).Int("attempts", j.attempts).Dur("took", took).Msg("coached")
}
