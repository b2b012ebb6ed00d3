package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentd/bench/result"
	"agentd/bench/workload"
	"agentd/internal/options"
)

var inFiles = options.In("Files")

// trace is the subcommand that writes a trace.
func (p *program) trace(ctx context.Context, args []string) error {
	s, out := newSource(), ""
	c := options.Command{
		Name: "agentbench trace",
		Intro: `agentbench trace writes a trace: the inputs of agents in the simulated household, turn by
turn, the same for every server. With --model it also has the prompts and tokens that agentd gives to that model, for
other servers.

Usage
  agentbench trace --out FILE [options]

Examples
  agentbench trace --agents 16 --turns 6 --candidates 4 --model m.gguf --out t.jsonl
  agentbench trace --model default --out house.jsonl
`,
		Options: append(s.options(), inFiles("out", "FILE", "File to write; it must not exist.", options.Text(&out))),
	}
	given, _, err := c.Parse(args, os.LookupEnv, p.stdout)
	if err != nil {
		return err
	}
	if out == "" {
		return errors.New("--out: is missing; name the file to write, such as t.jsonl")
	}
	if err := s.check(given); err != nil {
		return err
	}
	if err := absent("--out", out); err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	trace, err := s.load(ctx)
	if err != nil {
		return err
	}
	if err := result.WriteFile(out, trace.Write); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	n := workload.Count(trace.Turns, nil)
	fmt.Fprintf(p.stdout, "%s: %d agents, %d turns, %d candidates\n", out, trace.Agents(), n.Turns, n.Candidates)
	if trace.Rendered() {
		fmt.Fprintf(p.stdout, "%d prompt tokens, %d of them unique\n", n.PromptTokens, n.UniqueTokens)
	}
	return nil
}

// absent refuses a file that exists or has no directory, before the work begins.
func absent(flag, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %s exists; remove it or name another file", flag, path)
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: %s is not a directory; create it or name another file", flag, dir)
	}
	return nil
}
