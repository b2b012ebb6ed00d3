package coaching

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"agentd/coaching/backend"
	"agentd/coaching/egress"
	"agentd/coaching/store"
	"agentd/internal/base/retry"
)

// Options are the settings of a [Service]. The zero value works.
type Options struct {
	Policy      *egress.Policy // allowed endpoints; nil: the default policy
	People      People         // people who coach every session besides its backends
	Local       backend.Local  // this server's model; see SetLocal if it loads later
	Workers     int            // requests of one session in progress at once; 0: DefaultWorkers
	Queue       int            // requests of one session that wait for a slot; 0: DefaultQueue, below 0: none
	MaxSessions int            // 0: DefaultMaxSessions, below 0: no bound
	MaxSteps    int            // steps of a trajectory; 0: DefaultMaxSteps, below 0: no bound
	MaxBytes    int64          // of requests in progress or waiting; 0: DefaultMaxBytes
	Idle        time.Duration  // sessions idle for this long are closed; 0: never
	Store       store.Store    // nil: in memory
	Registerer  prometheus.Registerer
	Log         zerolog.Logger
	Egress      egress.ClientOptions // for tests; each session sets its own ConnectTimeout

	// Tests replace the clock, sleeping and random numbers. nil means the real ones.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
	Rand  func() float64
}

// withDefaults returns the options with defaults for unset fields.
func (o Options) withDefaults() Options {
	o.Policy = cmp.Or(o.Policy, new(egress.Policy))
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
		o.Store = store.NewMemory(o.Now)
	}
	if o.Sleep == nil {
		o.Sleep = retry.Sleep
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return o
}

// People coach every session for the server's operator, besides the session's backends.
// In a session with provider human only the session's own people are asked.
type People struct {
	Endpoint string // "": no people
	When     string // PeopleFirst or PeopleFailed; "": PeopleFirst
}

// Values of People.When.
const (
	PeopleFirst  = "first"  // before the backends, which are asked if no person answers
	PeopleFailed = "failed" // if the backends gave no correction
)

// policy allows connections to the people's endpoint only, which may have a private address since the operator chose
// it. The error is about an endpoint that is not a usable URL.
func (p People) policy() (*egress.Policy, error) {
	if !slices.Contains([]string{"", PeopleFirst, PeopleFailed}, p.When) {
		return nil, fmt.Errorf("people can be asked %s or %s, not %q", PeopleFirst, PeopleFailed, p.When)
	}
	return egress.PolicyFor(p.Endpoint)
}

// Check checks the endpoint.
func (p People) Check() error {
	_, err := p.policy()
	return err
}
