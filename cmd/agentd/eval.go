package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"agentd/defaultmodel/evaluate"
	"agentd/defaultmodel/household"

	"github.com/schollz/progressbar/v3"
)

// runEval is the subcommand that measures a model.
func runEval(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := loadEvalConfig(args)
	switch {
	case errors.Is(err, errHelp):
		writeEvalHelp(stdout)
		return nil
	case errors.Is(err, errVersion):
		fmt.Fprintln(stdout, versionLine())
		return nil
	case err != nil:
		return fmt.Errorf("eval: %w", err)
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	if err := c.run(ctx, stdout, stderr); err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	return nil
}

// untilSignal is a context that the first signal ends; the next one ends the
// program.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// run measures and prints.
func (c *evalConfig) run(ctx context.Context, stdout, stderr io.Writer) error {
	report := evaluate.Report{Episodes: c.Episodes, Seed: c.Seed}
	var failed error
	for i, constraints := range c.constraints() {
		// How far the model is right is measured once; without constraints only
		// its outputs' validity is new.
		failed = c.measure(ctx, &report, constraints, i == 0, stderr)
		if report.Interrupted = failed != nil || ctx.Err() != nil; report.Interrupted {
			break
		}
	}
	if ctx.Err() != nil {
		failed = nil // it is what a signal looks like from within
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

func (c *evalConfig) print(report *evaluate.Report, stdout io.Writer) error {
	if !c.JSON {
		return report.WriteTable(stdout)
	}
	e := json.NewEncoder(stdout)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// measure asks one server, its own or a running one, with all tool names.
func (c *evalConfig) measure(ctx context.Context, report *evaluate.Report, constraints string, tasks bool, stderr io.Writer) (err error) {
	server := c.Remote
	if server.URL != "" {
		report.Model = "The server at " + server.URL
	} else {
		config := c.Server
		config.Constrain = constraints
		l, err := startLocal(ctx, config, stderr)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.stop()) }()
		server.URL, report.Model = l.url, filepath.Base(l.facts.Path)+", "+l.facts.Description
		if l.facts.Default {
			report.Model = "The default model"
		}
	}
	transport := newTransport(c.Clients)
	defer transport.CloseIdleConnections()
	agent, err := server.open(ctx, transport)
	if err != nil {
		return err
	}
	for _, names := range []string{evaluate.Known, evaluate.Unseen} {
		if c.ToolNames != both && c.ToolNames != names {
			continue
		}
		run := evaluate.Run{ToolNames: names, Constraints: constraints}
		run.Result, err = c.ask(ctx, agent, names, tasks, stderr)
		report.Runs = append(report.Runs, run)
		if err != nil {
			return err
		}
	}
	return nil
}

// ask measures with one kind of tool names, with a bar on a terminal.
func (c *evalConfig) ask(ctx context.Context, server household.Server, names string, tasks bool, stderr io.Writer) (evaluate.Result, error) {
	o := evaluate.Options{Episodes: c.Episodes, Seed: c.Seed, ToolNames: names, Tasks: tasks, Clients: c.Clients}
	if isTerminal(stderr) {
		bar := progressbar.NewOptions(c.Episodes,
			progressbar.OptionSetWriter(stderr),
			progressbar.OptionSetDescription(names+" tool names"),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
		// A bar that cannot be drawn is no reason to stop.
		o.Progress = func(n int) { _ = bar.Set(n) }
		defer func() { _ = bar.Finish() }()
	}
	return evaluate.Measure(ctx, server, o)
}
