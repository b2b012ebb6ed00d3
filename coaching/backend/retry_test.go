package backend

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sleepNever(waits *[]time.Duration) func(context.Context, time.Duration) error {
	return func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return ctx.Err()
	}
}

// failing is a backend that fails with its errors, one after the other, and then answers.
type failing struct {
	errs []error
	n    int
	do   func(ctx context.Context)
}

func (f *failing) Name() string     { return "f" }
func (f *failing) Type() string     { return "fake" }
func (f *failing) Describe() string { return "f (fake)" }
func (f *failing) Budget() int      { return 0 }
func (f *failing) Ask(ctx context.Context, _ Question) (Answer, error) {
	f.n++
	if f.do != nil {
		f.do(ctx)
	}
	if f.n <= len(f.errs) {
		return Answer{}, f.errs[f.n-1]
	}
	return Answer{Text: answer}, nil
}

func TestRetry(t *testing.T) {
	busy, down := &Error{Kind: KindBusy}, &Error{Kind: KindUnreachable}
	asks := func(d time.Duration) error { return &Error{Kind: KindBusy, Status: 429, RetryAfter: d} }
	seconds := func(s ...float64) (ds []time.Duration) {
		for _, f := range s {
			ds = append(ds, time.Duration(f*float64(time.Second)))
		}
		return ds
	}
	all := []error{down, down, down, down, down, down, down, down, down, down}
	for _, c := range []struct {
		name  string
		errs  []error
		limit int64
		tries int
		waits []time.Duration
		kind  Kind // "" for an answer
	}{
		{"an answer at once is the only try", nil, 3, 1, nil, ""},
		{"temporary errors are retried", []error{busy, down}, 3, 3, seconds(.5, 1), ""},
		{"the waits double up to the longest", all, 9, 10, seconds(.5, 1, 2, 4, 8, 16, 30, 30, 30), KindUnreachable},
		{"the tries end after max_retry more", all, 2, 3, seconds(.5, 1), KindUnreachable},
		{"no retries means one try", all, 0, 1, nil, KindUnreachable},
		{"the endpoint's wait is obeyed when it is longer", []error{asks(7 * time.Second)}, 3, 2, seconds(7), ""},
		{"the backoff is obeyed when it is longer", []error{busy, asks(time.Millisecond)}, 3, 3, seconds(.5, 1), ""},
		{"the longest wait is still obeyed", []error{asks(MaxRetryAfter)}, 3, 2, seconds(MaxRetryAfter.Seconds()), ""},
		{"a longer one gives up at once", []error{asks(MaxRetryAfter + 1)}, 3, 1, nil, KindBusy},
		{"a refusal is final", []error{&Error{Kind: KindRefused, Status: 401}}, 3, 1, nil, KindRefused},
		{"refused endpoints are final", []error{&Error{Kind: KindForbidden}}, 3, 1, nil, KindForbidden},
		{"garbage is final", []error{&Error{Kind: KindGarbled}}, 3, 1, nil, KindGarbled},
		{"a cut answer is final", []error{&Error{Kind: KindTruncated}}, 3, 1, nil, KindTruncated},
		{"too much is final", []error{&Error{Kind: KindTooLarge}}, 3, 1, nil, KindTooLarge},
		{"a model that declines is final", []error{&Error{Kind: KindDeclined}}, 3, 1, nil, KindDeclined},
		{"the end of the session is final", []error{&Error{Kind: KindClosed}}, 3, 1, nil, KindClosed},
		{"a wrong certificate is final", []error{&Error{Kind: KindUnreachable, lasting: true}}, 3, 1, nil, KindUnreachable},
		{"a timeout and a failure may pass", []error{&Error{Kind: KindTimeout}, &Error{Kind: KindFailed}}, 3, 3, seconds(.5, 1), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var waits []time.Duration
			var attempts []Attempt
			r := impatient(c.limit, &waits)
			r.OnAttempt = func(a Attempt) { attempts = append(attempts, a) }
			clock := time.Unix(0, 0)
			r.Now = func() time.Time { clock = clock.Add(time.Second); return clock }
			b := &failing{errs: c.errs}
			got, err := r.Ask(t.Context(), b, question())
			switch {
			case c.kind != "":
				mustFail(t, c.kind, err)
			case err != nil || got.Text != answer:
				t.Errorf("got %+v, %v, want an answer", got, err)
			}
			if diff := cmp.Diff(c.waits, waits); diff != "" || b.n != c.tries {
				t.Errorf("%d tries, want %d; waits (-want +got):\n%s", b.n, c.tries, diff)
			}
			if len(attempts) != c.tries {
				t.Fatalf("%d attempts were reported, want %d", len(attempts), c.tries)
			}
			for i, a := range attempts {
				var waited time.Duration
				if i > 0 {
					waited = c.waits[i-1]
				}
				if a.Try != i+1 || a.Waited != waited || a.Took != time.Second {
					t.Errorf("attempt %d is reported as %+v", i+1, a)
				}
				if failed := i < len(c.errs); failed && !errors.Is(a.Err, c.errs[i]) || !failed && (a.Err != nil || a.Answer.Text != answer) {
					t.Errorf("attempt %d is reported with %+v, %v", i+1, a.Answer, a.Err)
				}
			}
		})
	}
}

func TestHangingTryTimesOutAndIsRetried(t *testing.T) {
	var waits []time.Duration
	r := impatient(1, &waits)
	r.Timeout = time.Millisecond
	b := &failing{errs: []error{context.DeadlineExceeded, context.DeadlineExceeded}, do: func(ctx context.Context) { <-ctx.Done() }}
	_, err := r.Ask(t.Context(), b, question())
	if e := mustFail(t, KindTimeout, err); b.n != 2 || !e.Temporary() {
		t.Errorf("%d tries, want 2: %v", b.n, e)
	}
}

func TestCancelledCallerEndsTries(t *testing.T) {
	for name, arrange := range map[string]func(r *Retry, b *failing, leave func()){
		"during a try": func(_ *Retry, b *failing, leave func()) { b.do = func(context.Context) { leave() } },
		"during a wait": func(r *Retry, _ *failing, leave func()) {
			r.Sleep = func(ctx context.Context, _ time.Duration) error { leave(); <-ctx.Done(); return ctx.Err() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, b := Retry{Max: 5, Timeout: time.Hour, Rand: rand.Float64, Now: time.Now, OnAttempt: func(Attempt) {}}, &failing{errs: []error{&Error{Kind: KindFailed}, &Error{Kind: KindFailed}}}
			arrange(&r, b, cancel)
			r.OnAttempt = func(a Attempt) {
				if b.do != nil && !errors.Is(a.Err, context.Canceled) {
					t.Errorf("the attempt is reported with %v", a.Err)
				}
			}
			if _, err := r.Ask(ctx, b, question()); !errors.Is(err, context.Canceled) || b.n != 1 {
				t.Errorf("got %v after %d tries", err, b.n)
			}
		})
	}
}

func TestCancelledCallerStartsNoTry(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &failing{}
	if _, err := (Retry{}).Ask(ctx, b, question()); !errors.Is(err, context.Canceled) || b.n != 0 {
		t.Errorf("got %v after %d tries", err, b.n)
	}
}
