package coaching

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agentd/coaching/backend"
	"agentd/coaching/coach"
	"agentd/coaching/internal/quote"
	"agentd/coaching/logbook"
	"agentd/coaching/session"
	"agentd/coaching/store"
	"agentd/protocol"
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
	defer func() {
		held.Drop()
		sess.Leave(bytes)
	}()
	digest := sha256.Sum256(content) // the ids of run and request are in it
	id := uuid.NewSHA1(sess.Record.ID, digest[:]).String()
	r := &request{
		Request: &coach.Request{ID: id, Body: req, Lease: held, Keys: sess.keys},
		service: s, room: sess, entered: s.opts.Now(), provider: sess.Record.Config.Provider,
	}
	a, repeated, err := sess.Answers.Do(ctx, r.ID, func() (session.Answer, error) { return r.answerOnce(ctx) })
	switch {
	case err == nil:
		r.provider = a.Provider
		r.report(a.Response, repeated || a.Repeated)
	case ctx.Err() != nil:
		r.report(&protocol.SpecializedCoachingResponse{Status: backend.OutcomeLeft}, repeated)
	}
	return a.Response, s.metrics.full("requests", err)
}

// request is one coaching request until its response.
type request struct {
	*coach.Request
	service  *Service
	room     *room
	entered  time.Time
	provider string // of the response: the session's unless a person decided
	why      string // the reason of a correction too, which the response does not have
}

// answerOnce calls answer, unless another server has the answer or is finding it.
func (r *request) answerOnce(ctx context.Context) (found session.Answer, err error) {
	kept, err := r.Lease.Once(ctx, r.room.Abort, r.ID, func() (*store.Kept, error) {
		var err error
		if found, err = r.answer(ctx); r.Unanswered {
			return new(store.Kept), err
		}
		if err != nil || !found.Keep {
			return nil, err
		}
		return &store.Kept{Provider: found.Provider, Response: found.Response.AppendJSON(nil)}, nil
	})
	switch {
	case err != nil:
		return session.Answer{}, err
	case kept == nil:
		return found, nil
	}
	res, err := protocol.DecodeSpecializedCoachingResponse(kept.Response)
	if err != nil {
		return session.Answer{}, &StoreError{Err: err}
	}
	return session.Answer{Response: res, Provider: kept.Provider, Keep: true, Repeated: true}, nil
}

// answer asks the coaches and makes the response. A response that no coach gave is not kept,
// so that the same request asks again.
func (r *request) answer(ctx context.Context) (session.Answer, error) {
	r.Log = logbook.New(r.room.keys, r.entered, r.Body, r.provider, r.room.Record.Config.CaptureLogs)
	reply, err := coach.Ask(ctx, r.room.coaches, r.Request)
	if err != nil {
		return session.Answer{}, err
	}
	provider := r.provider
	if reply.Decided {
		provider = protocol.ProviderHuman
	}
	res := r.response(reply)
	return session.Answer{Response: res, Provider: provider, Keep: reply.ByPerson || res.Status != protocol.CoachingFailed}, nil
}

// response returns the response for a reply. It is valid in any case.
func (r *request) response(given coach.Reply) *protocol.SpecializedCoachingResponse {
	res := r.render(given)
	if err := res.Validate(r.Body); err != nil {
		// Proposals were checked before, so this is a bug. It must not reach the
		// orchestrator as a correction.
		r.service.opts.Log.Error().Err(err).Str("run_id", quote.ID(r.Body.RunID)).Str("kind", r.Body.Kind).Msg("coaching response is invalid")
		res = r.render(coach.Failed("the correction that was found is not a valid response: %v", err))
	}
	return res
}

func (r *request) render(given coach.Reply) *protocol.SpecializedCoachingResponse {
	r.why = quote.Quoter{}.Short(r.room.keys.Text(given.Reason), coach.MaxReason)
	res := &protocol.SpecializedCoachingResponse{RequestID: r.Body.RequestID, Status: given.Status, Proposals: given.Proposals}
	if given.Status != protocol.CoachingCorrected {
		res.Reason = r.why
	}
	if content := r.Log.Verdict(res, r.why, r.service.opts.Now().Sub(r.entered)); content != "" {
		res.Logs = []protocol.CoachingLog{{CoachingType: r.Body.Kind, Content: content}}
	}
	return res
}

// report writes the result of the request to metrics and log. The server logs requests that ended with an error.
func (r *request) report(res *protocol.SpecializedCoachingResponse, repeated bool) {
	took := r.service.opts.Now().Sub(r.entered)
	r.service.metrics.request(r.Body.Kind, r.provider, res.Status, took)
	r.service.opts.Log.Info().
		Str("run_id", quote.ID(r.Body.RunID)).Str("request_id", quote.ID(r.Body.RequestID)).
		Str("kind", r.Body.Kind).Str("provider", r.provider).Str("status", res.Status).Str("reason", cmp.Or(res.Reason, r.why)).
		Bool("posted_again", repeated).Int("attempts", r.Attempts).Int("proposals", len(res.Proposals)).Dur("took", took).Msg("coached")
}
