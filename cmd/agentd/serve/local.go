package serve

import (
	"context"
	"errors"
	"io"

	"agentd/cmd/internal/options"
	"agentd/inference/load"
)

// Local is a server in this process, on a free port of this machine, for a command that
// asks it itself.
type Local struct {
	URL   string
	Facts load.EngineInfo

	daemon *Daemon
	model  Model
	served chan error
}

// StartLocal loads the model of a configuration and serves it, with coaching unless
// NoCoaching. It chooses the address itself.
func StartLocal(ctx context.Context, c Config, stderr io.Writer) (*Local, error) {
	c.HTTP.Host, c.HTTP.Port = "127.0.0.1", 0
	d := New(&c, options.Origins{}, stderr)
	if err := d.startCoaching(ctx); err != nil {
		return nil, err
	}
	listener, err := d.listen(ctx)
	if err != nil {
		return nil, errors.Join(err, d.stopCoaching(ctx))
	}
	m, err := d.Load(ctx) // which needs the server: a model that hangs makes it unhealthy
	if err != nil {
		return nil, errors.Join(err, listener.Close(), d.stopCoaching(ctx))
	}
	l := &Local{URL: "http://" + listener.Addr().String(), Facts: m.Info(), daemon: d, model: m, served: make(chan error, 1)}
	go func() { l.served <- d.server.Serve(listener) }()
	d.open(m)
	return l, nil
}

// Stop ends the server and frees the model.
func (l *Local) Stop() error {
	err := l.daemon.stop(nil, l.model)
	return errors.Join(err, <-l.served)
}
