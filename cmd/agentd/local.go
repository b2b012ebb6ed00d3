package main

import (
	"context"
	"errors"
	"io"

	"agentd/inference"
)

// local is a server in this process, on a free port of this machine, for a
// command that asks it itself.
type local struct {
	url    string
	facts  inference.EngineInfo
	daemon *daemon
	model  model
	served chan error
}

// startLocal loads the model of a configuration and serves it. Where it listens,
// it decides itself.
func startLocal(ctx context.Context, c Config, stderr io.Writer) (*local, error) {
	c.Host, c.Port = "127.0.0.1", 0
	d := newDaemon(c, origins{}, stderr)
	m, err := d.load(ctx)
	if err != nil {
		return nil, err
	}
	listener, err := d.listen(ctx)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	l := &local{url: "http://" + listener.Addr().String(), facts: m.Info(), daemon: d, model: m, served: make(chan error, 1)}
	go func() { l.served <- d.server.Serve(listener) }()
	d.open(m)
	return l, nil
}

// stop ends the server and frees the model.
func (l *local) stop() error {
	err := l.daemon.stop(nil, l.model)
	return errors.Join(err, <-l.served)
}
