package live

import (
	"context"
	"errors"
	"fmt"

	"agentd/inference/load"
	"agentd/scheduler/generation"
)

// modelVersion is one loaded model and the requests that use it.
type modelVersion struct {
	*load.Model
	service    *Service
	adapters   *adapters // nil with engines at URLs
	queueLimit int
	latency    *latency

	users   int // number of requests; guarded by Service.mu, like retired
	retired bool
	idle    chan struct{} // closed when retired is set and users is 0
}

// openVersion loads a model and its adapters for a service. Errors name the file or the field of cfg and what to
// change.
func openVersion(ctx context.Context, service *Service, cfg load.Config) (*modelVersion, error) {
	m, err := load.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	v := &modelVersion{Model: m, service: service, queueLimit: cfg.Scheduler.QueueLimit, latency: newLatency(), idle: make(chan struct{})}
	if m.Remote != nil {
		return v, nil
	}
	v.adapters = &adapters{engine: m.Engine, model: m.Name(), base: m.AdapterBase(), log: cfg.Log, byName: map[string]*loadedAdapter{}}
	for _, a := range cfg.LoRA {
		if err := v.adapters.set(ctx, a.Name, a.Path); err != nil {
			return nil, errors.Join(fmt.Errorf("Config.LoRA: %w", err), v.Close())
		}
	}
	return v, nil
}

// Close ends running generations and frees the model. Running calls of Decide may fail.
func (v *modelVersion) Close() error {
	err := v.Stop()
	if errors.As(err, new(*generation.StuckError)) {
		return err // a context still uses the model
	}
	v.adapters.close()
	return errors.Join(err, v.Free())
}
