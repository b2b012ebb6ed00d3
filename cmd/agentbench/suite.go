package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"agentd/bench/suite"
	"agentd/bench/target"
	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/internal/base/version"
)

// suiteConfig has the options of agentbench suite.
type suiteConfig struct {
	Agentd, Bin string // a program, and the directory of llama-server
	Peers       string // besides llama-server
	Out         string
	Quick       bool
	Repeats     int
	Threads     int
	Loads       string
	AgentdArgs  string
}

// vllmScript installs vLLM and serves a GGUF file with it.
const vllmScript = "third_party/vllm.sh"

// command is the command line of agentbench suite, with the defaults of s.
func (s *suiteConfig) command() *options.Command {
	option := options.In("Options")
	loads, usual := suite.Names()
	*s = suiteConfig{
		Loads:  strings.Join(usual, ","),
		Peers:  target.KindLlamaServer,
		Agentd: "./agentd", Bin: filepath.Join("bench", "bin"), Out: filepath.Join("bench", "results"),
		Threads: min(runtime.NumCPU(), runtime.GOMAXPROCS(0)),
	}
	return &options.Command{
		Name: "agentbench suite",
		Intro: `agentbench suite does the standard comparison on this machine: agentd with llama.cpp's
llama-server in the best of several settings, and with vLLM if you ask for it. It starts all
servers itself, each repeat a fresh one, in turns, and writes tables with a goal for each
ratio. make bench builds everything and calls it.

Usage
  agentbench suite [options]

Examples
  agentbench suite
      about 15 minutes on 2 cores
  agentbench suite --loads all
      about 90 minutes, with the shapes of 0.1B and 0.6B
  agentbench suite --peers vllm --loads 0.1b,0.6b --repeats 3
      about an hour; needs make bench ARGS="--peers vllm ..." once, which installs vLLM
  agentbench suite --quick --loads household
      about 2 minutes
`,
		Outro: `Files, in a directory for each comparison
  suite.md and suite.json    the tables, and all figures
  LOAD.svg                   plots of all repeats of a load
  LOAD-SERVER-N.json         each repeat, for agentbench compare

Signals
  SIGINT or SIGTERM ends the suite and its servers. What was measured before is written.
`,
		Options: []options.Option{
			option("quick", "", "A look: fewer turns, one repeat, fewer settings. Its figures are not precise.", options.Bool(&s.Quick)),
			option("loads", "LIST", "Loads to measure: all, or some of "+strings.Join(loads, ", ")+".", options.Text(&s.Loads)),
			option("repeats", "N", "Repeats of each server. Default: 5, or 1 with --quick.", options.Int(&s.Repeats, 1, maxRepeats)),
			option("threads", "N", "Threads of the model on all sides.", options.Int(&s.Threads, 1, maxThreads)),
			option("agentd", "FILE", "agentd, of make agentd.", options.Text(&s.Agentd)),
			option("agentd-args", "ARGS", "More options of agentd, separated by spaces.", options.Text(&s.AgentdArgs)),
			option("peers", "NAME", "llama-server, or vllm for both: vLLM's CPU build. It has household, 0.1b, 0.6b and moe; the heads of tiny are too small for it, and calls has answers of any length.", options.Choice(&s.Peers, []string{target.KindLlamaServer, target.KindVLLM}, nil)),
			option("bin", "DIR", "Directory with llama-server, of make peers.", options.Text(&s.Bin)),
			option("out", "DIR", "Directory in which the results get a directory.", options.Text(&s.Out)),
		},
	}
}

// suite is the subcommand for the standard comparison.
func (p *program) suite(ctx context.Context, args []string) error {
	var s suiteConfig
	if _, _, err := s.command().Parse(args, os.LookupEnv, p.stdout); err != nil {
		return err
	}
	o, err := s.open(p)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	r, err := suite.Run(ctx, o)
	if r == nil {
		return err
	}
	fmt.Fprintln(p.stdout)
	errs := []error{err, r.WriteMarkdown(p.stdout)}
	fmt.Fprintf(p.stdout, "\nwritten to %s\n", o.Dir)
	for _, m := range r.Loads {
		if m.Error != "" && !r.Interrupted { // else the signal is the error
			errs = append(errs, fmt.Errorf("%s: %s", m.Name, m.Error))
		}
	}
	return errors.Join(errs...)
}

// open checks the options.
func (s *suiteConfig) open(p *program) (suite.Options, error) {
	o := suite.Options{
		LlamaServer: filepath.Join(s.Bin, "llama-server"),
		Dir:         filepath.Join(s.Out, time.Now().UTC().Format("20060102-150405")), Quick: s.Quick, Repeats: s.Repeats, Threads: s.Threads,
		AgentdArgs: strings.Fields(s.AgentdArgs), Commit: version.Commit(), Host: host(""),
		Log: func(line string) { fmt.Fprintln(p.stdout, line) },
	}
	var err error
	if o.Agentd, err = filepath.Abs(s.Agentd); err != nil {
		return o, fmt.Errorf("--agentd: %w", err)
	}
	if s.Peers == target.KindVLLM {
		o.VLLM = vllmScript
	}
	for name := range strings.SplitSeq(s.Loads, ",") {
		if name = strings.TrimSpace(name); name == "all" {
			all, _ := suite.Names()
			o.Loads = append(o.Loads, all...)
			continue
		}
		o.Loads = append(o.Loads, name)
	}
	return o, nil
}
