package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/coaching"
	"agentd/coaching/backend"
	store "agentd/coaching/postgres"
	"agentd/inference/load"
	"agentd/internal/base/budget"
	"agentd/internal/base/tracing"
	"agentd/internal/base/version"
	"agentd/scheduler/generation"
	"agentd/server"
)

// Model is a loaded model, ready to decide and to coach: an *live.Service,
// or a fake in tests.
type Model interface {
	server.Inference
	backend.Local
	Collector() prometheus.Collector
	Info() load.EngineInfo
	Close() error
}

// Daemon is one run of the server, from a Config to its exit. Make it with New.
type Daemon struct {
	// Load opens the model. Tests set it.
	Load func(context.Context) (Model, error)
	// Now is the clock by which signals are repeats. Tests set it.
	Now func() time.Time
	// LoadGrace is how long the end of the process waits for Load after it was cancelled.
	LoadGrace time.Duration

	config   *Config
	from     options.Origins
	log      zerolog.Logger
	stderr   io.Writer // for progress on a terminal
	registry *prometheus.Registry
	memory   *budget.Budget    // of requests
	coaching *coaching.Service // nil when switched off
	store    *store.Store      // of the coaching sessions; nil: memory
	tracer   *tracing.Tracer   // nil: off
	server   *server.Server
	signals  <-chan os.Signal
	stuck    chan error // takes one step that does not end, with StuckExit
}

// New makes a daemon that has not started.
func New(c *Config, from options.Origins, stderr io.Writer) *Daemon {
	d := &Daemon{
		config:   c,
		from:     from,
		log:      c.Log.New(stderr),
		stderr:   stderr,
		registry: prometheus.NewRegistry(),
		memory:   budget.New(budget.Default),
		Now:      time.Now,
		stuck:    make(chan error, 1),
	}
	d.Load, d.LoadGrace = d.loadModel, loadGrace
	if c.StuckExit {
		c.Inference.Scheduler.OnStuck = func(e *generation.StuckError) {
			select {
			case d.stuck <- fmt.Errorf("%w; ended by --stuck exit", e):
			default: // it is ending
			}
		}
	}
	return d
}

// loaded is the outcome of loading the model.
type loaded struct {
	model Model // nil with an error
	err   error
}

// Run listens, loads the model while the port is open, serves until ctx ends or a
// signal comes, and drains.
func (d *Daemon) Run(ctx context.Context) (failed error) {
	signals, stopSignals := cli.Signals(d.Now)
	defer stopSignals()
	d.signals = signals
	d.logStart()

	if d.config.Pprof != "" {
		stop, err := startProfiler(ctx, d.config.Pprof, d.log)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, stop()) }()
	}
	if d.tracer, failed = tracing.Open(ctx, version.Release, d.log); failed != nil {
		return &wrongSetting{failed}
	}
	defer func() {
		flush, cancel := context.WithTimeout(context.Background(), flushGrace)
		defer cancel()
		d.tracer.Close(flush)
	}()
	if err := d.startCoaching(ctx); err != nil {
		return err
	}
	listener, err := d.listen(ctx)
	if err != nil {
		return errors.Join(err, d.stopCoaching(ctx))
	}
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(listener) }()
	following, stopFollowing := context.WithCancel(ctx)
	defer stopFollowing()
	d.memory.Follow(following, d.log)

	loadCtx, cancelLoad := context.WithCancel(ctx)
	defer cancelLoad()
	loading := make(chan loaded, 1)
	go func() {
		m, err := d.Load(loadCtx)
		loading <- loaded{m, err}
	}()

	var serving Model
	var failure error
	for stopping := false; !stopping; {
		stopping = true // but for a model that was loaded
		select {
		case result := <-loading:
			loading = nil // received from once
			if failure = result.err; failure != nil {
				d.server.FailLoading()
				break
			}
			stopping, serving = false, result.model
			d.open(serving)
		case failure = <-served:
		case s := <-d.signals:
			d.log.Info().Stringer("signal", s).Msg("draining")
		case failure = <-d.stuck:
			d.server.CancelWork() // its requests would wait for the drain in vain
		case <-ctx.Done():
			d.log.Info().Msg("draining")
		}
	}
	cancelLoad()
	if failure = errors.Join(failure, d.stop(loading, serving)); failure == nil {
		d.log.Info().Msg("stopped")
	}
	return failure
}

// listen opens the port and makes its server.
func (d *Daemon) listen(ctx context.Context) (net.Listener, error) {
	opts := d.config.Server
	opts.Info = d.info()
	opts.Build = server.Build{Version: version.Release, Commit: version.Commit()}
	opts.Log, opts.Registry, opts.Tracer, opts.Memory = d.log, d.registry, d.tracer, d.memory
	if d.coaching != nil { // an interface of a nil pointer is not nil
		opts.Coach = d.coaching
	}
	certificates, tokens, err := d.config.HTTP.Load()
	if err != nil {
		return nil, err
	}
	opts.Certificates, opts.Tokens, opts.Clients, opts.MayChangeWeights = certificates, tokens.List, tokens.Names, tokens.Weights
	if d.server, err = server.New(opts); err != nil {
		return nil, err
	}
	listener, open, err := d.config.HTTP.Listen(ctx, d.log)
	if err != nil {
		return nil, err
	}
	if open && len(opts.Tokens) == 0 {
		d.log.Warn().Msg("the network can reach the server, which asks for no token; see --auth-token-file")
	}
	return listener, nil
}

// open makes the server ready to answer requests.
func (d *Daemon) open(m Model) {
	d.registry.MustRegister(m.Collector())
	if d.coaching != nil && !m.Info().Default { // the default model can't coach
		d.coaching.SetLocal(m)
	}
	d.logModel(m.Info())
	if d.server.Ready(m) {
		d.log.Info().Msg("ready")
	}
}

// stop ends everything in order: no new work, work in flight, coaching sessions,
// connections, model. A further signal turns it into an immediate exit.
func (d *Daemon) stop(loading <-chan loaded, serving Model) error {
	done := make(chan error, 1)
	go func() {
		err := d.drain()
		if loading != nil { // cancelled by now; it ends at its next progress report
			select {
			case result := <-loading:
				serving = result.model
			case <-time.After(d.LoadGrace):
				err = errors.Join(err, fmt.Errorf("the model's load did not end within %s", d.LoadGrace))
			}
		}
		if serving != nil {
			err = errors.Join(err, serving.Close())
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case s := <-d.signals:
		inFlight := d.server.InFlight()
		err := fmt.Errorf("second signal (%s): ended at once with %d requests unanswered", s, inFlight)
		_ = d.server.Close() // its error changes nothing: the program ends
		d.tracer.Drop()
		select {
		case <-done: //nolint:errcheck // its error is that of being closed
		case <-time.After(forcedExitGrace):
		}
		return err
	}
}

// drain lets work in flight finish, or cancels it when the time is up.
func (d *Daemon) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), d.config.DrainTimeout)
	defer cancel()
	var late error
	if err := d.server.Drain(ctx); err != nil {
		late = fmt.Errorf("%d requests were not done within --drain-timeout %s and were cancelled", d.server.InFlight(), d.config.DrainTimeout)
		d.server.CancelWork()
	}
	grace, cancel := context.WithTimeout(context.Background(), cancelGrace)
	defer cancel()
	// Cancelled requests answer within moments. Others are aborted then.
	_ = d.server.Drain(grace)
	if err := d.stopCoaching(grace); err != nil {
		d.log.Warn().Err(err).Msg("coaching sessions aborted")
	}
	if err := d.server.Shutdown(grace); err != nil {
		_ = d.server.Close() // late is the error to report
	}
	return late
}
