package coaching

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentd/coaching/backend"
	"agentd/coaching/repair"
	"agentd/coaching/repair/prompt"
	"agentd/protocol"

	"golang.org/x/sync/errgroup"
)

// panel is the coach of a session's models. It asks them in their order, in one slot of
// the session, until one corrects or declines.
type panel []*model

// model is the coach of one backend.
type model struct {
	backend.Backend
	def protocol.CoachingBackend
}

func (p panel) ask(ctx context.Context, r *request) (reply, error) {
	ctx, cancel := r.session.within(ctx)
	defer cancel()
	if err := r.session.slots.Acquire(ctx, 1); err != nil {
		return interrupted(ctx)
	}
	defer r.session.slots.Release(1)

	if r.req.Kind == protocol.CoachingFormat {
		v, err := r.redacted().WithoutModel()
		r.log.withoutModel(err)
		if err == nil {
			return corrected(v), nil
		}
	}
	var misses []string // one for each model
	all := failed("no coach gave an answer.")
	for _, m := range p {
		given, err := m.correct(ctx, r)
		switch {
		case err != nil:
			return reply{}, err
		case given.final:
			// People may still correct what a model declined.
			given.final = given.status != protocol.CoachingAbandoned
			return given, nil
		case given.status == protocol.CoachingAbandoned:
			all = abandoned("no coach gave a valid correction.")
		}
		misses = append(misses, given.reason)
	}
	all.reason += " " + strings.Join(misses, "; ")
	return all, nil
}

func (m *model) correct(ctx context.Context, r *request) (reply, error) {
	v, err := m.verdict(ctx, r)
	switch {
	case err == nil && v.Corrected:
		return corrected(v), nil
	case err == nil:
		return abandoned("the coach %q declined: %s", m.Name(), v.Why).last(), nil
	case ctx.Err() != nil:
		return interrupted(ctx)
	case modelAnswered(err):
		return abandoned("%q: %v", m.Name(), err), nil
	default:
		return failed("%q: %v", m.Name(), err), nil
	}
}

// verdict asks the model until its answer is valid. An invalid answer uses up one of its
// tries, like a failure.
func (m *model) verdict(ctx context.Context, r *request) (*repair.Verdict, error) {
	tries := int64(0)
	retry := backend.Retry{
		Timeout: protocol.Seconds(m.def.Timeout),
		Sleep:   r.service.opts.Sleep, Rand: r.service.opts.Rand, Now: r.service.opts.Now,
		OnAttempt: func(a backend.Attempt) { tries++; r.attempted(m, a) },
	}
	q := prompt.Question(r.repair(), m.Budget())
	r.log.question(m.Describe(), q)
	var invalid error
	for asked := 1; ; asked++ {
		retry.Max = m.def.MaxRetry - tries
		answer, err := retry.Ask(ctx, m, q)
		switch {
		case err != nil && invalid != nil:
			return nil, fmt.Errorf("%w; then %w", invalid, err)
		case err != nil:
			return nil, err
		}
		verdict, err := r.redacted().Read(answer.Text)
		r.log.answer(answer, err)
		if err == nil {
			return verdict, nil
		}
		if invalid = (&invalidAnswer{asked, err}); tries > m.def.MaxRetry {
			return nil, invalid
		}
		_, unredacted := r.repair().Read(answer.Text)
		q = prompt.Retry(q, answer.Text, unredacted)
	}
}

// attempted writes a try to the log and the metrics.
func (r *request) attempted(b backend.Backend, a backend.Attempt) {
	r.attempts++
	r.log.attempt(a)
	r.service.metrics.attempt(b.Type(), a)
	r.service.opts.Log.Debug().Str("run_id", shorten(r.req.RunID, maxLogID)).Str("backend", b.Name()).Str("outcome", outcome(a.Err)).
		Int("try", a.Try).Dur("waited", a.Waited).Dur("took", a.Took).Msg("coach asked")
}

// invalidAnswer is a model's last answer, which could not be used.
type invalidAnswer struct {
	asked int
	why   error
}

func (e *invalidAnswer) Error() string {
	if e.asked == 1 {
		return fmt.Sprintf("its answer cannot be used: %v", e.why)
	}
	return fmt.Sprintf("asked %d times, its last answer cannot be used: %v", e.asked, e.why)
}

func (e *invalidAnswer) Unwrap() error { return e.why }

// modelAnswered reports whether the model itself answered, though without a correction.
func modelAnswered(err error) bool {
	if invalid := (*invalidAnswer)(nil); errors.As(err, &invalid) {
		return true
	}
	failure := (*backend.Error)(nil)
	return errors.As(err, &failure) && (failure.Kind == backend.KindTruncated || failure.Kind == backend.KindDeclined)
}

// UnreachableError means that backends of a session failed a test call.
type UnreachableError struct {
	Why string // each of them with its reason, without keys
}

func (e *UnreachableError) Error() string {
	return "coaching backends cannot be used, so the session was not configured: " + e.Why
}

// ConfigureReachable is Configure after one short test call to each backend. A run that
// has a session already makes no calls. The errors are Configure's, an
// *UnreachableError, or ctx's. People and this server's own model are not asked.
func (s *Service) ConfigureReachable(ctx context.Context, runID string, cfg *protocol.CoachingSessionConfig) error {
	if err := s.opts.Policy.CheckConfig(cfg); err != nil {
		return err
	}
	existing, err := s.opts.Store.Get(ctx, runID)
	if err != nil {
		return err
	}
	if existing == nil { // else Configure alone decides
		if err := s.reach(ctx, cfg); err != nil {
			return err
		}
	}
	return s.Configure(ctx, runID, cfg)
}

// reach calls each backend of a configuration once, with connections of its own.
func (s *Service) reach(ctx context.Context, cfg *protocol.CoachingSessionConfig) error {
	if !s.begin() { // Close waits for it
		return ErrShutdown
	}
	defer s.background.Done()
	// A bound, so that clients cannot open more connections here than by sessions.
	defer s.reaching.Add(-1)
	if n := s.reaching.Add(1); s.opts.MaxSessions > 0 && n > int64(s.opts.MaxSessions) {
		return s.metrics.full("sessions", TooManySessions(s.opts.MaxSessions))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.base, cancel)()

	sess, err := s.newSession(Record{Config: cfg})
	if err != nil {
		return err
	}
	defer sess.seal() // nobody is in it, so this releases it

	failures := make([]error, len(sess.models))
	var group errgroup.Group
	group.SetLimit(maxReachCalls)
	for i, m := range sess.models {
		group.Go(func() error {
			timeout := min(protocol.Seconds(cfg.Backends[i].Timeout), maxReachTime)
			if err := backend.Reach(ctx, m.Backend, timeout); err != nil {
				failures[i] = fmt.Errorf("%q: %w", m.Name(), err)
			}
			return nil
		})
	}
	_ = group.Wait() // no function of it fails
	switch {
	case s.base.Err() != nil:
		return ErrShutdown
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if err := errors.Join(failures...); err != nil {
		why := strings.ReplaceAll(err.Error(), "\n", "; ")
		return &UnreachableError{shorten(sess.redactor.Text(why), maxReason)}
	}
	return nil
}
