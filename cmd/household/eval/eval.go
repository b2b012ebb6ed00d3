package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"

	"agentd/cmd/agentd/serve"
	"agentd/cmd/internal/cli"
	"agentd/household"
	"agentd/household/evaluate"
)

// Run is the command.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stdout)
	if err != nil {
		return err
	}
	cli.WarnOfSecrets(stderr, c.Command())
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	return c.run(ctx, stdout, stderr)
}

// run measures and prints.
func (c *Config) run(ctx context.Context, stdout, stderr io.Writer) error {
	report := evaluate.Report{Episodes: c.Episodes, Seed: c.Seed}
	var failed error
	for i, constraints := range c.constraints() {
		// The model's accuracy is measured once. Without constraints only the validity of
		// its outputs is new.
		failed = c.measure(ctx, &report, constraints, i == 0, stderr)
		if report.Interrupted = failed != nil || ctx.Err() != nil; report.Interrupted {
			break
		}
	}
	if ctx.Err() != nil {
		failed = nil // of a signal
	}
	if failed != nil && report.Empty() {
		return failed
	}
	report.Finish()
	if err := c.print(&report, stdout); err != nil {
		return errors.Join(failed, err)
	}
	switch {
	case failed != nil:
		return failed
	case c.Check && report.Interrupted:
		return errors.New("--check: interrupted before everything was measured")
	case c.Check && len(report.Missed) > 0:
		return fmt.Errorf("--check: missed goals: %d", len(report.Missed))
	}
	return nil
}

func (c *Config) print(report *evaluate.Report, stdout io.Writer) error {
	if !c.JSON {
		return report.WriteTable(stdout)
	}
	e := json.NewEncoder(stdout)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// measure asks one server, its own or a running one, with all tool names.
func (c *Config) measure(ctx context.Context, report *evaluate.Report, constraints string, tasks bool, stderr io.Writer) (err error) {
	agent, model, stop, err := c.open(ctx, constraints, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	report.Model = model
	kinds := []string{c.ToolNames}
	if c.ToolNames == both {
		kinds = []string{evaluate.Known, evaluate.Unseen}
	}
	for _, names := range kinds {
		run := evaluate.Run{ToolNames: names, Constraints: constraints}
		run.Result, err = c.ask(ctx, agent, names, tasks, stderr)
		report.Runs = append(report.Runs, run)
		if err != nil {
			return err
		}
	}
	return nil
}

// open starts a server, or connects to a running one. model describes it.
func (c *Config) open(ctx context.Context, constraints string, stderr io.Writer) (agent household.Server, model string, stop func() error, err error) {
	server := c.Remote
	model = "The server at " + server.URL
	transport := cli.NewTransport(c.Clients)
	stop = func() error {
		transport.CloseIdleConnections()
		return nil
	}
	if server.URL == "" {
		config := c.Server
		config.Inference.Agent.Constrain = constraints
		config.NoCoaching = true
		l, err := serve.StartLocal(ctx, config, stderr)
		if err != nil {
			return nil, "", nil, err
		}
		stop = func() error {
			transport.CloseIdleConnections()
			return l.Stop()
		}
		server.URL, model = l.URL, filepath.Base(l.Facts.Path)+", "+l.Facts.Description
		if l.Facts.Default {
			model = "The default model"
		}
	}
	if agent, err = server.Open(ctx, transport); err != nil {
		return nil, "", nil, errors.Join(err, stop())
	}
	return agent, model, stop, nil
}

// ask measures with one kind of tool names, with a bar on a terminal.
func (c *Config) ask(ctx context.Context, server household.Server, names string, tasks bool, stderr io.Writer) (evaluate.Result, error) {
	o := evaluate.Options{Episodes: c.Episodes, Seed: c.Seed, ToolNames: names, Tasks: tasks, Clients: c.Clients}
	if cli.IsTerminal(stderr) {
		bar := progressbar.NewOptions(c.Episodes,
			progressbar.OptionSetWriter(stderr),
			progressbar.OptionSetDescription(names+" tool names"),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
		// A bar that cannot be drawn is not a reason to stop.
		o.Progress = func(n int) { _ = bar.Set(n) }
		defer func() { _ = bar.Finish() }()
	}
	return evaluate.Measure(ctx, server, o)
}
