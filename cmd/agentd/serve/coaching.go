package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentd/coaching"
	"agentd/coaching/egress"
	store "agentd/coaching/postgres"
)

// startCoaching starts the service of coaching sessions, unless it is switched off. The
// service gets the local model when it is loaded.
func (d *Daemon) startCoaching(ctx context.Context) error {
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
	if err := d.openStore(ctx); err != nil {
		return err
	}
	if d.store != nil {
		opts.Store = d.store
	}
	if d.coaching, err = coaching.New(opts); err != nil {
		return errors.Join(err, d.stopCoaching(ctx))
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

// stopCoaching closes all sessions, or leaves them to other servers if there is a store for
// that. It waits for the requests in progress until ctx ends,
// then aborts them.
func (d *Daemon) stopCoaching(ctx context.Context) error {
	var err error
	if d.coaching != nil {
		err = d.coaching.Close(ctx)
	}
	if d.store != nil {
		d.store.Close()
	}
	return err
}

// openStore connects to the database of --store, if there is one.
func (d *Daemon) openStore(ctx context.Context) error {
	if d.config.Store == "" {
		return nil
	}
	keys, err := readStoreKeys(d.config.StoreKeyFile)
	if err != nil {
		return fmt.Errorf("--store-key-file: %w", err)
	}
	if d.store, err = store.Open(ctx, store.Options{URL: d.config.Store, Keys: keys, Log: d.log}); err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	d.log.Info().Str("database", store.SafeURL(d.config.Store)).Msg("coaching sessions are in a database")
	return nil
}
