// Package demo is the command that shows a server at work.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"agentd/cmd/agentd/serve"
	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	household "agentd/household/demo"
	"agentd/internal/base/version"
)

// maxTasks is more than anybody watches.
const maxTasks = 100_000

// Config is all settings of the command.
type Config struct {
	Remote cli.Remote
	Play   household.Options
}

// DefaultConfig applies when a user sets nothing.
func DefaultConfig() *Config {
	return &Config{
		Remote: cli.Remote{URL: fmt.Sprintf("http://127.0.0.1:%d", serve.DefaultPort)},
		Play:   household.Options{Seed: 1, Tasks: 5},
	}
}

const (
	intro = `agentd demo lets a server work in a simulated household and shows every step: what
people say, the calls, what the house reports, and whether the task was done.

Usage
  agentd demo [options]

Examples
  agentd demo
      five tasks for the server on this machine; without one, the demo starts one
  agentd demo --url https://agents.example.org --token-file token --tasks 20
`
	outro = `Colours are used on a terminal. NO_COLOR=1 switches them off.
`
)

// Command is the command line that fills c.
func (c *Config) Command() *options.Command {
	option := options.In("Demo")
	return &options.Command{
		Name: "agentd demo", Version: version.Line("agentd"), Intro: intro, Outro: outro,
		Options: slices.Concat([]options.Option{
			option("seed", "N", "Seed of the house and the conversation.", options.Uint64(&c.Play.Seed)),
			option("tasks", "N", "Tasks to do.", options.Int(&c.Play.Tasks, 1, maxTasks)),
		}, c.Remote.Options("The running server to show.")),
	}
}

// Run is the command.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c := DefaultConfig()
	from, _, err := c.Command().Parse(args, os.LookupEnv, stdout)
	if err != nil {
		return err
	}
	cli.WarnOfSecrets(stderr, c.Command())
	_, named := from["url"]
	return c.play(ctx, named, stdout, stderr)
}

// play does the tasks. Where no server answers at a URL that the user did not name, it starts one.
func (c *Config) play(ctx context.Context, named bool, stdout, stderr io.Writer) (failed error) {
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	transport := cli.NewTransport(1)
	defer transport.CloseIdleConnections()
	server, err := c.Remote.Open(ctx, transport)
	if !named && errors.Is(err, syscall.ECONNREFUSED) {
		fmt.Fprintf(stderr, "no server answers at %s; starting one for this demo\n", c.Remote.URL)
		config := serve.DefaultConfig()
		config.NoCoaching = true
		var local *serve.Local
		if local, err = serve.StartLocal(ctx, *config, io.Discard); err == nil {
			defer func() { failed = errors.Join(failed, local.Stop()) }()
			c.Remote.URL = local.URL
			server, err = c.Remote.Open(ctx, transport)
		}
	}
	if err == nil {
		c.Play.Colours = cli.IsTerminal(stdout) && os.Getenv("NO_COLOR") == ""
		_, err = household.Play(ctx, stdout, server, c.Play)
	}
	if ctx.Err() != nil {
		return nil // a signal ended it
	}
	return err
}
