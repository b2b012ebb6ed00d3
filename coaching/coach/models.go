package coach

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"agentd/coaching/backend"
	"agentd/coaching/internal/quote"
	"agentd/coaching/repair"
	"agentd/coaching/repair/prompt"
	"agentd/protocol"
)

const (
	// maxReachCalls bounds the concurrent test calls of one configuration.
	maxReachCalls = 8
	// maxReachTime bounds one test call. A model may have to load first, and MAGMA's
	// clients wait 6 minutes for an answer.
	maxReachTime = 5 * time.Minute
)

// Models are the coach of a session's backends. It asks them in their order, in one slot of
// the session, until one corrects or declines.
type Models struct {
	env  *Env
	list []*model
}

// NewModels makes the coach of backends. The error is protocol.Problems.
func NewModels(env *Env, defs []protocol.CoachingBackend, o backend.Options) (*Models, error) {
	p := &Models{env: env}
	for _, def := range defs {
		b, err := backend.New(def, o)
		if err != nil {
			return nil, protocol.Problems{protocol.NewProblem(protocol.TypeValue, env.Keys.Text(err.Error()), "backends", def.Name)}
		}
		p.list = append(p.list, &model{b, def})
	}
	return p, nil
}

// Ask implements [Coach].
func (p *Models) Ask(ctx context.Context, r *Request) (Reply, error) {
	ctx, cancel := p.env.Session.Within(ctx)
	defer cancel()
	rest, err := p.env.Session.Work(ctx)
	if err != nil {
		return interrupted(ctx)
	}
	defer rest()

	if r.Body.Kind == protocol.CoachingFormat {
		v, err := r.redacted().WithoutModel()
		r.Log.WithoutModel(err)
		if err == nil {
			return corrected(v), nil
		}
	}
	var misses []string // one for each model
	all := Failed("no coach gave an answer.")
	for _, m := range p.list {
		given, err := p.correct(ctx, m, r)
		switch {
		case err != nil:
			return Reply{}, err
		case given.final:
			// People may still correct what a model declined.
			given.final = given.Status != protocol.CoachingAbandoned
			return given, nil
		case given.Status == protocol.CoachingAbandoned:
			all = Abandoned("no coach gave a valid correction.")
		}
		misses = append(misses, given.Reason)
	}
	all.Reason += " " + strings.Join(misses, "; ")
	return all, nil
}

func (p *Models) correct(ctx context.Context, m *model, r *Request) (Reply, error) {
	v, err := p.verdict(ctx, m, r)
	switch {
	case err == nil && v.Corrected:
		return corrected(v), nil
	case err == nil:
		return Abandoned("the coach %q declined: %s", m.Name(), v.Why).last(), nil
	case ctx.Err() != nil:
		return interrupted(ctx)
	case answered(err):
		return Abandoned("%q: %v", m.Name(), err), nil
	default:
		return Failed("%q: %v", m.Name(), err), nil
	}
}

// verdict asks the model until its answer is valid. An invalid answer counts as a try, like a failure.
func (p *Models) verdict(ctx context.Context, m *model, r *Request) (*repair.Verdict, error) {
	tries := int64(0)
	retry := backend.Retry{
		Timeout: protocol.Seconds(m.def.Timeout), Sleep: p.env.Sleep, Rand: p.env.Rand, Now: p.env.Now,
		OnAttempt: func(a backend.Attempt) {
			tries++
			a.Try = int(tries) // Ask begins at 1 after an invalid answer
			r.Attempts++
			r.Log.Attempt(a)
			p.env.Tried(m.Type(), a)
			p.env.Log.Debug().Str("backend", m.Name()).Str("outcome", backend.Outcome(a.Err)).
				Int("try", a.Try).Dur("waited", a.Waited).Dur("took", a.Took).Msg("coach asked")
		},
	}
	q := prompt.Question(r.repair(), m.Budget())
	r.Log.Question(m.Describe(), q)
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
		r.Log.Answer(answer, err)
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

// answered reports whether the model itself answered, though without a correction.
func answered(err error) bool {
	failure, ok := errors.AsType[*backend.Error](err)
	return errors.As(err, new(*invalidAnswer)) ||
		ok && (failure.Kind == backend.KindTruncated || failure.Kind == backend.KindDeclined)
}

// UnreachableError means that backends of a session failed a test call.
type UnreachableError struct {
	Why string // the backends with their reasons, without keys
}

func (e *UnreachableError) Error() string {
	return "coaching backends cannot be used, so the session was not configured: " + e.Why
}

// Reach makes one short test call to each model other than this server's. The error is an
// *UnreachableError, or ctx's if that ended.
func (p *Models) Reach(ctx context.Context) error {
	failures := make([]error, len(p.list))
	var group errgroup.Group
	group.SetLimit(maxReachCalls)
	for i, m := range p.list {
		group.Go(func() error {
			if err := backend.Reach(ctx, m.Backend, min(protocol.Seconds(m.def.Timeout), maxReachTime)); err != nil {
				failures[i] = fmt.Errorf("%q: %w", m.Name(), err)
			}
			return nil
		})
	}
	_ = group.Wait() // no function of it fails
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := errors.Join(failures...); err != nil {
		why := strings.ReplaceAll(err.Error(), "\n", "; ")
		return &UnreachableError{quote.Quoter{Keys: p.env.Keys}.Short(why, MaxReason)}
	}
	return nil
}
