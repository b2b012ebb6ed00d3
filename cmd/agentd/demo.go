package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"agentd/defaultmodel/demo"
)

// demoConfig is everything agentd demo can be told; see demoOptions.
type demoConfig struct {
	Remote remote
	Seed   uint64
	Tasks  int
}

// maxDemoTasks is more than anybody watches.
const maxDemoTasks = 100_000

func defaultDemoConfig() demoConfig {
	return demoConfig{Remote: remote{URL: fmt.Sprintf("http://127.0.0.1:%d", defaultPort)}, Seed: 1, Tasks: 5}
}

// groupDemo is the heading of the demo's own options.
const groupDemo = "Demo"

// demoOptions binds every option of the demo to its field of c. They are flags only.
func demoOptions(c *demoConfig) []option {
	return slices.Concat(c.Remote.options("The running server to show."), []option{
		{"seed", "", groupDemo, "N", "Which house and conversation: the same number gives the same ones.", seed{&c.Seed}},
		{"tasks", "", groupDemo, "N", "Tasks to do.", integer{p: &c.Tasks, min: 1, max: maxDemoTasks}},
	})
}

// runDemo is the subcommand that shows a running server at work.
func runDemo(ctx context.Context, args []string, stdout io.Writer) error {
	c := defaultDemoConfig()
	_, err := loadFlags("demo", demoOptions(&c), args)
	switch {
	case errors.Is(err, errHelp):
		writeDemoHelp(stdout)
		return nil
	case errors.Is(err, errVersion):
		fmt.Fprintln(stdout, versionLine())
		return nil
	case err != nil:
		return fmt.Errorf("demo: %w", err)
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	if err := c.run(ctx, stdout); err != nil && ctx.Err() == nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

func (c *demoConfig) run(ctx context.Context, stdout io.Writer) error {
	transport := newTransport(1)
	defer transport.CloseIdleConnections()
	server, err := c.Remote.open(ctx, transport)
	if err != nil {
		return err
	}
	_, err = demo.Play(ctx, stdout, server, demo.Options{
		Seed: c.Seed, Tasks: c.Tasks, Colours: isTerminal(stdout) && os.Getenv("NO_COLOR") == "",
	})
	return err
}

// writeDemoHelp prints the page of agentd demo --help.
func writeDemoHelp(w io.Writer) {
	c := defaultDemoConfig()
	opts := demoOptions(&c)
	fmt.Fprint(w, `agentd demo lets a running server work in a simulated household and shows every step: what
people say, the calls, what the house reports, and whether the task was done.

Usage
  agentd demo [options]

Examples
  agentd demo
      five tasks for the server on this machine; start agentd in another terminal first
  agentd demo --url https://agents.example.org --token-file token --tasks 20
`)
	writeOptions(w, opts, groupDemo, groupRemote)
	fmt.Fprint(w, `
Colours are used on a terminal; NO_COLOR=1 switches them off.
`)
}
