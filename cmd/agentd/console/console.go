// Package console is the command that serves the page on which people coach.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"agentd/cmd/internal/cli"
	web "agentd/coaching/console"
	"agentd/internal/base/budget"
	"agentd/internal/base/version"
)

// Run is the command. It serves until ctx ends or a signal comes.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stdout)
	if err != nil {
		return err
	}
	cli.OutliveReaders()
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()

	log := c.Log.New(stderr)
	log.Info().Str("version", version.Release).Str("commit", version.Commit()).Str("data_dir", c.DataDir).Msg("agentd console starts")
	for _, warning := range c.Command().ExposedSecrets() {
		log.Warn().Msg(warning)
	}
	transport := cli.NewTransport(http.DefaultMaxIdleConnsPerHost)
	defer transport.CloseIdleConnections()
	if err := c.complete(transport, log); err != nil {
		return err
	}
	c.Console.Memory = budget.New(budget.Default)
	c.Console.Memory.Follow(ctx, log)
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	page, err := web.Open(c.Console)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	log.Info().Int("tasks", page.Waiting()).Msg("waiting for people")
	listener, err := c.listen(ctx, log)
	if err != nil {
		return errors.Join(err, page.Close())
	}
	served := make(chan error, 1)
	go func() { served <- page.Serve(listener) }()

	var failure error
	select {
	case failure = <-served:
		served = nil
	case <-ctx.Done():
		log.Info().Msg("stopping")
	}
	// Waiting agents are asked to come back, and answers in flight arrive. The time is short, since tasks are stored.
	ending, cancel := context.WithTimeout(context.Background(), consoleStop)
	defer cancel()
	_ = page.Shutdown(ending) // Close aborts what is still open
	err = page.Close()
	if served != nil {
		failure = <-served
	}
	log.Info().Msg("stopped")
	return errors.Join(failure, err)
}

// complete reads files and addresses, which may have changed since they were checked.
func (c *Config) complete(transport *http.Transport, log zerolog.Logger) (err error) {
	o := &c.Console
	o.Path, o.Log = filepath.Join(c.DataDir, consoleFile), log
	var tokens cli.Tokens
	if o.Certificates, tokens, err = c.HTTP.Load(); err != nil {
		return err
	}
	o.Tokens = tokens.List
	if c.Agent.URL != "" {
		o.Agent, err = cli.Dial(transport, "--agent", c.Agent.URL, "--agent-token-file", c.Agent.TokenFile)
	}
	return err
}

// listen opens the port and warns of what the network may do.
func (c *Config) listen(ctx context.Context, log zerolog.Logger) (net.Listener, error) {
	listener, open, err := c.HTTP.Listen(ctx, log)
	if err != nil {
		return nil, err
	}
	if open && len(c.Console.Tokens) == 0 {
		log.Warn().Msg("the network can reach the page, which asks for no token; see --auth-token-file")
	}
	if open && len(c.Console.AgentsFrom) == 0 {
		log.Warn().Msg("everybody on the network may post tasks; see --agents-from")
	}
	return listener, nil
}

const (
	// consoleFile is the store's name in the data directory.
	consoleFile = "console.db"
	// consoleStop is how long answers in flight may take when the console stops.
	consoleStop = 5 * time.Second
)
