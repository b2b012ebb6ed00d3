package main

import (
	"context"
	"strings"

	"agentd/coaching"
	"agentd/coaching/egress"
)

// startCoaching makes the service of coaching sessions, unless it is switched
// off. Its own model comes later, when it is loaded.
func (d *daemon) startCoaching() error {
	c := &d.config
	if c.Coaching == "off" || c.summarizes() {
		d.log.Info().Msg("coaching is off")
		return nil
	}
	policy, err := egress.NewPolicy(c.CoachingAllow)
	if err != nil {
		return err
	}
	d.coaching, err = coaching.New(coaching.Options{
		Policy:      policy.Named("--coaching-allow"),
		People:      coaching.People{Endpoint: c.CoachHuman, When: c.CoachHumanWhen},
		Workers:     c.CoachingWorkers,
		Queue:       orNone(c.CoachingQueue),
		MaxSessions: c.CoachingSessions,
		MaxSteps:    c.CoachingMaxSteps,
		Idle:        c.CoachingIdle,
		Registerer:  d.registry,
		Log:         d.log,
	})
	if err != nil {
		return err
	}
	allowed := "public and loopback addresses"
	if len(c.CoachingAllow) > 0 {
		allowed = strings.Join(c.CoachingAllow, ", ")
	}
	if c.CoachHuman != "" {
		d.log.Info().Str("endpoint", egress.SafeURL(c.CoachHuman)).Str("when", c.CoachHumanWhen).Msg("people coach every session")
	}
	d.log.Info().
		Str("coaches_may_be_at", allowed).
		Int("workers", c.CoachingWorkers).
		Int("queue", c.CoachingQueue).
		Int("sessions", c.CoachingSessions).
		Stringer("idle", c.CoachingIdle).
		Int("max_steps", c.CoachingMaxSteps).
		Msg("coaching")
	return nil
}

// orNone is a number as coaching.Options takes it, where 0 is the default.
func orNone(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// stopCoaching closes all sessions: it waits for the requests in work until ctx
// ends, then breaks them off.
func (d *daemon) stopCoaching(ctx context.Context) error {
	if d.coaching == nil {
		return nil
	}
	return d.coaching.Close(ctx)
}
