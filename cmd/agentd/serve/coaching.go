package serve

import (
	"context"
	"strings"

	"agentd/coaching"
	"agentd/coaching/egress"
)

// startCoaching starts the service of coaching sessions, unless it is switched off. The
// service gets the local model when it is loaded.
func (d *Daemon) startCoaching() error {
	c, opts := d.config, d.config.Coaching
	if c.NoCoaching || c.summarizes() {
		d.log.Info().Msg("coaching is off")
		return nil
	}
	policy, err := egress.NewPolicy(c.CoachingAllow)
	if err != nil {
		return err
	}
	opts.Policy = policy.Named("--coaching-allow")
	if opts.Queue == 0 { // 0 is the default of coaching.Options
		opts.Queue = -1
	}
	opts.Registerer, opts.Log = d.registry, d.log
	if d.coaching, err = coaching.New(opts); err != nil {
		return err
	}
	allowed := "public and loopback addresses"
	if len(c.CoachingAllow) > 0 {
		allowed = strings.Join(c.CoachingAllow, ", ")
	}
	if people := opts.People; people.Endpoint != "" {
		d.log.Info().Str("endpoint", egress.SafeURL(people.Endpoint)).Str("when", people.When).Msg("people coach every session")
	}
	d.log.Info().
		Str("coaches_may_be_at", allowed).
		Int("workers", opts.Workers).
		Int("queue", c.Coaching.Queue).
		Int("sessions", opts.MaxSessions).
		Stringer("idle", opts.Idle).
		Int("max_steps", opts.MaxSteps).
		Msg("coaching")
	return nil
}

// stopCoaching closes all sessions. It waits for the requests in work until ctx ends,
// then aborts them.
func (d *Daemon) stopCoaching(ctx context.Context) error {
	if d.coaching == nil {
		return nil
	}
	return d.coaching.Close(ctx)
}
