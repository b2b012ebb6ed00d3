package coaching

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"agentd/coaching/backend"
	"agentd/coaching/egress"
	"agentd/internal/retry"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options are the settings of a [Service]. The zero value works.
type Options struct {
	Policy      *egress.Policy // allowed endpoints; nil: the default policy
	People      People         // who coach every session, beside its backends
	Local       backend.Local  // this server's own model; see SetLocal if it loads later
	Workers     int            // requests of one session in progress at once; 0: DefaultWorkers
	Queue       int            // requests of one session that wait for a slot; 0: DefaultQueue, below 0: none
	MaxSessions int            // 0: DefaultMaxSessions, below 0: no bound
	MaxSteps    int            // steps of a trajectory; 0: DefaultMaxSteps, below 0: no bound
	MaxBytes    int64          // of requests in progress or waiting; 0: DefaultMaxBytes
	Idle        time.Duration  // sessions idle for this long are closed; 0: never
	Store       Store          // nil: a MemoryStore
	Registerer  prometheus.Registerer
	Log         zerolog.Logger
	Egress      egress.ClientOptions // for tests; each session sets its own ConnectTimeout

	// Tests replace the clock, sleeping and random numbers. nil means the real ones.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
	Rand  func() float64
}

// withDefaults fills in what is unset.
func (o Options) withDefaults() (Options, error) {
	if o.Policy == nil {
		policy, err := egress.NewPolicy(nil)
		if err != nil {
			return o, err
		}
		o.Policy = policy
	}
	o.People.When = cmp.Or(o.People.When, PeopleFirst)
	o.Workers = cmp.Or(max(o.Workers, 0), DefaultWorkers)
	o.Queue = max(cmp.Or(o.Queue, DefaultQueue), 0)
	o.MaxSessions = max(cmp.Or(o.MaxSessions, DefaultMaxSessions), 0)
	o.MaxSteps = max(cmp.Or(o.MaxSteps, DefaultMaxSteps), 0)
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), DefaultMaxBytes)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Store == nil {
		o.Store = NewMemoryStore(o.Now)
	}
	if o.Sleep == nil {
		o.Sleep = retry.Sleep
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return o, nil
}

// lateLocal is the server's own model. Sessions may be configured before it has loaded.
type lateLocal struct{ model atomic.Pointer[backend.Local] }

func (l *lateLocal) set(model backend.Local) {
	if model != nil {
		l.model.Store(&model)
	}
}

// Ask asks the model if it is loaded.
func (l *lateLocal) Ask(ctx context.Context, q backend.Question) (backend.Answer, error) {
	model := l.model.Load()
	if model == nil {
		return backend.Answer{}, &backend.Error{Kind: backend.KindUnreachable, Detail: "this server has no model of its own that could coach"}
	}
	return (*model).Ask(ctx, q)
}

// Window is the model's, 0 while none is loaded.
func (l *lateLocal) Window() int {
	if model := l.model.Load(); model != nil {
		return (*model).Window()
	}
	return 0
}
