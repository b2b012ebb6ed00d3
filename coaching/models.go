package coaching

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentd/coaching/backend"
	"agentd/coaching/repair"
	"agentd/protocol"
)

// askModels asks the session's models in their order, in a slot of the session.
func (j *job) askModels(ctx context.Context) (result, error) {
	ctx, cancel := j.session.within(ctx)
	defer cancel()
	if err := j.session.slots.Acquire(ctx, 1); err != nil {
		return interrupted(ctx)
	}
	defer j.session.slots.Release(1)
	started := j.service.opts.Now()
	defer func() { j.worked = j.service.opts.Now().Sub(started) }()

	if j.task == nil {
		j.task = repair.NewCase(j.req)
	}
	if j.req.Kind == protocol.CoachingFormat {
		v, err := j.told().WithoutModel()
		j.log.withoutModel(err)
		if err == nil {
			return corrected(v), nil
		}
	}
	var misses []string // why each model gave nothing
	answered := false
	for i, b := range j.session.backends {
		v, err := j.askModel(ctx, b, j.session.record.Config.Backends[i])
		switch {
		case err == nil && v.Corrected:
			return corrected(v), nil
		case err == nil:
			return abandoned("the coach %q declined: %s", b.Name(), v.Why), nil
		case ctx.Err() != nil:
			return interrupted(ctx)
		}
		answered = answered || hasAnswered(err)
		misses = append(misses, fmt.Sprintf("%q: %v", b.Name(), err))
	}
	if answered {
		return abandoned("no coach gave a valid correction. %s", strings.Join(misses, "; ")), nil
	}
	return failed("no coach gave an answer. %s", strings.Join(misses, "; ")), nil
}

// askModel asks one model until its answer is valid. An answer that is not takes one of
// the model's tries, as a failure does.
func (j *job) askModel(ctx context.Context, b backend.Backend, def protocol.CoachingBackend) (*repair.Verdict, error) {
	tries := int64(0)
	retry := backend.Retry{
		Timeout: protocol.Seconds(def.Timeout),
		Sleep:   j.service.opts.Sleep, Rand: j.service.opts.Rand, Now: j.service.opts.Now,
		OnAttempt: func(a backend.Attempt) { tries++; j.attempt(b, a) },
	}
	q := j.task.Question(b.Budget())
	j.log.question(b.Describe(), q)
	var invalid error
	for asked := 1; ; asked++ {
		retry.Max = def.MaxRetry - tries
		answer, err := retry.Ask(ctx, b, q)
		switch {
		case err != nil && invalid != nil:
			return nil, fmt.Errorf("%w; then %w", invalid, err)
		case err != nil:
			return nil, err
		}
		verdict, err := j.told().Read(answer.Text)
		j.log.answer(answer, err)
		if err == nil {
			return verdict, nil
		}
		if invalid = (&invalidAnswer{asked, err}); tries > def.MaxRetry {
			return nil, invalid
		}
		_, whole := j.task.Read(answer.Text)
		q = j.task.Retry(q, answer.Text, whole)
	}
}

// told is the task for what is told to others than its coach: its errors and reasons
// quote texts cut short, and half a key is not recognised any more.
func (j *job) told() *repair.Case { return j.task.Redacted(j.session.redactor) }

// attempt tells the log and the metrics about a try.
func (j *job) attempt(b backend.Backend, a backend.Attempt) {
	j.attempts++
	j.log.attempt(a)
	j.service.metrics.attempt(b.Type(), a)
	j.service.opts.Log.Debug().Str("run_id", clip(j.req.RunID, maxLogID)).Str("backend", b.Name()).Str("outcome", outcome(a.Err)).
		Int("try", a.Try).Dur("waited", a.Waited).Dur("took", a.Took).Msg("coach asked")
}

// invalidAnswer is a model's last answer that could not be used.
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

// hasAnswered reports whether the coach itself answered, though not with a
// correction.
func hasAnswered(err error) bool {
	if invalid := (*invalidAnswer)(nil); errors.As(err, &invalid) {
		return true
	}
	failure := (*backend.Error)(nil)
	return errors.As(err, &failure) && (failure.Kind == backend.KindTruncated || failure.Kind == backend.KindDeclined)
}
