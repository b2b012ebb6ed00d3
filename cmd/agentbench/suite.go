package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"agentd/bench/suite"
)

// suiteConfig is everything agentbench suite can be told.
type suiteConfig struct {
	Agentd, Bin string // a program, and the directory of the peers
	Out         string
	Document    string
	Quick       bool
	Repeats     int
	Threads     int
	Loads       string
	AgentdArgs  string
}

// suite is the subcommand that does the standard comparison.
func (p *program) suite(ctx context.Context, args []string) error {
	const group = "Options"
	loads, usual := suite.Names()
	s := suiteConfig{
		Loads:  strings.Join(usual, ","),
		Agentd: "./agentd", Bin: filepath.Join("bench", "bin"), Out: filepath.Join("bench", "results"),
		Threads: min(runtime.NumCPU(), runtime.GOMAXPROCS(0)),
	}
	c := command{
		name: "suite",
		page: `agentbench suite does the standard comparison on this machine: agentd with llama.cpp's
llama-server in the best of several settings, and with the ideal, which is computed from
llama-batched-bench's speeds. It starts the servers itself, each repeat a fresh one, the arms in
turns, and writes a table with a goal for each figure. make bench builds everything and calls it.

Usage
  agentbench suite [options]

Examples
  agentbench suite
      some 15 minutes on 2 cores
  agentbench suite --loads all --document docs/benchmarks.md
      40 to 60 minutes: the 0.6B shape, too, and the document's tables anew
  agentbench suite --quick --loads household
`,
		tail: `Files, in a directory of their own for each comparison
  suite.md and suite.json    the tables, and all figures
  LOAD.html                  plots of all repeats of a load
  LOAD-ARM-N.json            each repeat, for agentbench compare and agentbench report
  LOAD.trace.jsonl           what was sent

Signals
  SIGINT or SIGTERM ends it, and the servers; what was measured until then is written.
`,
		groups: []string{group},
		options: []option{
			{"quick", group, "", "A look in some minutes: fewer turns, one repeat, fewer settings. No figures to show around.", toggle{&s.Quick}},
			{"loads", group, "LIST", "Loads to measure: all, or some of " + strings.Join(loads, ", ") + ". Default: " + s.Loads + "; the other one takes twice as long as these.", text{&s.Loads}},
			{"repeats", group, "N", "Repeats of each arm. Default: 5, or 1 with --quick.", integer{&s.Repeats, 1, maxRepeats}},
			{"threads", group, "N", "Threads of the model on all sides. Default: all CPUs.", integer{&s.Threads, 1, maxThreads}},
			{"agentd", group, "FILE", "agentd, of make agentd.", text{&s.Agentd}},
			{"agentd-args", group, "ARGS", "Further options of agentd, separated by spaces.", text{&s.AgentdArgs}},
			{"peers", group, "DIR", "Directory with llama-server and llama-batched-bench, of make peers.", text{&s.Bin}},
			{"out", group, "DIR", "Directory in which the results get one of their own.", text{&s.Out}},
			{"document", group, "FILE", "Markdown file in which the tables between its marks are replaced.", text{&s.Document}},
		},
	}
	_, _, err := c.parse(args, p.stdout)
	switch {
	case errors.Is(err, errDone):
		return nil
	case err != nil:
		return err
	}
	o, err := s.open(p)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	r, err := suite.Run(ctx, o)
	if r == nil {
		return err
	}
	fmt.Fprintln(p.stdout)
	errs := []error{err, r.WriteMarkdown(p.stdout)}
	fmt.Fprintf(p.stdout, "\nwritten to %s\n", o.Dir)
	whole := err == nil
	for _, m := range r.Workloads {
		if m.Error != "" && !r.Interrupted { // else the signal is the error
			whole = false
			errs = append(errs, fmt.Errorf("%s: %s", m.Name, m.Error))
		}
	}
	if s.Document != "" && whole {
		if err := r.Renew(s.Document); err != nil {
			errs = append(errs, fmt.Errorf("--document: %w", err))
		}
	}
	return errors.Join(errs...)
}

// open checks the options.
func (s *suiteConfig) open(p *program) (suite.Options, error) {
	o := suite.Options{
		LlamaServer: filepath.Join(s.Bin, "llama-server"), BatchedBench: filepath.Join(s.Bin, "llama-batched-bench"),
		Dir: filepath.Join(s.Out, time.Now().UTC().Format("20060102-150405")), Quick: s.Quick, Repeats: s.Repeats, Threads: s.Threads,
		AgentdArgs: strings.Fields(s.AgentdArgs), Commit: commit(),
		Measure: func(ctx context.Context, args []string) error {
			return (&program{io.Discard, p.stderr}).bench(ctx, args)
		},
		Log: func(line string) { fmt.Fprintln(p.stdout, line) },
	}
	var err error
	if o.Agentd, err = filepath.Abs(s.Agentd); err != nil {
		return o, fmt.Errorf("--agentd: %w", err)
	}
	o.CPU, o.CPUs = cpu()
	all, _ := suite.Names()
	for name := range strings.SplitSeq(s.Loads, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "all":
			o.Loads = append(o.Loads, all...)
		case slices.Contains(all, name):
			o.Loads = append(o.Loads, name)
		default:
			return o, fmt.Errorf("--loads: got %q, want all, or some of: %s", name, strings.Join(all, ", "))
		}
	}
	if s.Document != "" && !slices.Equal(slices.Sorted(slices.Values(o.Loads)), slices.Sorted(slices.Values(all))) {
		return o, errors.New("--document: its tables have all loads: give --loads all, too")
	}
	if s.Document != "" {
		if _, err := os.Stat(s.Document); err != nil {
			return o, fmt.Errorf("--document: %w", err)
		}
	}
	return o, nil
}
