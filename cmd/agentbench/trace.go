package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentd/bench/render"
	"agentd/bench/workload"
)

const groupFiles = "Files"

// trace is the subcommand that writes a trace.
func (p *program) trace(ctx context.Context, args []string) error {
	s, out := newSource(), ""
	c := command{
		name: "trace",
		page: `agentbench trace writes a trace: what agents ask, turn by turn, the same for every server.
With --model its prompts are rendered as agentd renders them, so that other servers can be
asked with the same tokens, and the tokens that an ideal server computes are counted.

Usage
  agentbench trace --out FILE [options]

Examples
  agentbench trace --agents 16 --turns 6 --candidates 4 --model m.gguf --out t.jsonl
  agentbench trace --kind household --model default --out house.jsonl
  agentbench trace --trace recorded.jsonl --model m.gguf --out rendered.jsonl
      the prompts of a recorded trace
`,
		groups:  []string{groupTrace, groupSynthetic, groupPrompt, groupFiles},
		options: append(s.options(), option{"out", groupFiles, "FILE", "File to write; it must not exist.", text{&out}}),
	}
	given, _, err := c.parse(args, p.stdout)
	switch {
	case errors.Is(err, errDone):
		return nil
	case err != nil:
		return err
	case out == "":
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
	trace, err := s.load(ctx, p)
	if err != nil {
		return err
	}
	if err := writeTrace(out, trace); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return p.describe(out, trace)
}

// describe says what a trace holds.
func (p *program) describe(path string, trace *workload.Trace) error {
	hash, err := trace.Hash()
	if err != nil {
		return err
	}
	agents, candidates := size(trace)
	fmt.Fprintf(p.stdout, "%s: %s, %d agents, %d turns, %d candidates\nhash %s\n", path, trace.Header.Kind, agents, len(trace.Turns), candidates, hash)
	if !rendered(trace) {
		return nil
	}
	counts, err := render.Ideal(trace, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%d prompt tokens, of which %d are unique (%.1f %%)\n", counts.PromptTokens, counts.UniqueTokens,
		100*float64(counts.UniqueTokens)/float64(counts.PromptTokens))
	return nil
}

// size counts agents and candidates.
func size(trace *workload.Trace) (agents, candidates int) {
	seen := map[int]bool{}
	for i := range trace.Turns {
		seen[trace.Turns[i].Agent] = true
		candidates += trace.Turns[i].Candidates
	}
	return len(seen), candidates
}

// absent refuses a file that is there already, or could not be written: better
// before a run than after it.
func absent(flag, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %s exists; remove it or name another file", flag, path)
	}
	return inDirectory(flag, path)
}

// inDirectory refuses a file whose directory is not there.
func inDirectory(flag, path string) error {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: %s is no directory; make it or name another file", flag, dir)
	}
	return nil
}

// writeTrace writes a file whole or not at all.
func writeTrace(path string, trace *workload.Trace) error {
	mode := fileMode
	if trace.Header.Kind == workload.Recorded {
		mode = recordMode
	}
	return writeWhole(path, mode, func(w *bufio.Writer) error { return trace.Write(w) })
}

// writeWhole writes beside the file and puts it in its place when it is whole.
func writeWhole(path string, mode os.FileMode, write func(*bufio.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	if err := errors.Join(write(w), w.Flush(), f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Modes of files: recordings, and traces made of them, hold what people said.
const (
	fileMode   os.FileMode = 0o644
	recordMode os.FileMode = 0o600
)
