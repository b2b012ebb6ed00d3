package ceiling

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Bench is one call of llama-batched-bench.
type Bench struct {
	Program string // its file
	Model   string // GGUF file
	Threads int
	Prompt  int   // tokens of the prompt
	Shared  bool  // one prompt for all sequences, computed once
	Output  int   // tokens of each sequence
	Widths  []int // sequences that decode at once
	Unified bool  // one KV cache for all sequences, not one for each
}

// cellsAlign is what llama.cpp rounds a sequence's part of the KV cache to.
const cellsAlign = 256

// Args are the arguments of the call.
func (b *Bench) Args() []string {
	widest, widths := 1, make([]string, len(b.Widths))
	for i, w := range b.Widths {
		widest, widths[i] = max(widest, w), strconv.Itoa(w)
	}
	// A token more, for the one that applies the copies of a shared prompt.
	each := (b.Prompt + b.Output + cellsAlign) / cellsAlign * cellsAlign
	args := []string{
		"-m", b.Model, "-c", strconv.Itoa(widest * each), "-b", "2048", "-ub", "512",
		"-t", strconv.Itoa(b.Threads), "-tb", strconv.Itoa(b.Threads),
		"-npp", strconv.Itoa(b.Prompt), "-ntg", strconv.Itoa(b.Output), "-npl", strings.Join(widths, ","),
		"--output-format", "jsonl",
	}
	if b.Shared {
		args = append(args, "-pps")
	}
	if b.Unified {
		return append(args, "-kvu")
	}
	return append(args, "-no-kvu")
}

// waitDelay is how long a killed program's output is waited for.
const waitDelay = 5 * time.Second

// Run calls the program, which ends with the context, and reads what it measured. It
// is an error when a width is missing.
func (b *Bench) Run(ctx context.Context) ([]Row, error) {
	cmd := exec.CommandContext(ctx, b.Program, b.Args()...) //nolint:gosec // the caller names the program
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.WaitDelay = waitDelay
	// A group of its own: the terminal's Ctrl-C comes to the one who started it, and
	// through the context here.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%s: %w: %s", b.Program, err, lastLine(log.String()))
	}
	rows, err := Parse(&out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Program, err)
	}
	for _, w := range b.Widths {
		if _, ok := Rate(rows, w); !ok {
			return nil, fmt.Errorf("%s: measured nothing with %d sequences", b.Program, w)
		}
	}
	return rows, nil
}

// lastLine of a log is where programs say why they end.
func lastLine(log string) string {
	log = strings.TrimSpace(log)
	return log[strings.LastIndexByte(log, '\n')+1:]
}
