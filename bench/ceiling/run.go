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
	Cache   Cache
}

// Cache is how llama.cpp keeps and reads keys and values.
type Cache struct {
	Unified        bool   `json:"unified"`         // one KV cache for all sequences, not one for each
	FlashAttention string `json:"flash_attention"` // auto, on or off
}

// String is the cache as command lines have it.
func (c Cache) String() string { return strings.Join(c.Args(), " ") }

// Args are the arguments of llama-server and llama-batched-bench.
func (c Cache) Args() []string {
	kv := "-no-kvu"
	if c.Unified {
		kv = "-kvu"
	}
	return []string{kv, "-fa", c.FlashAttention}
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
	return append(args, b.Cache.Args()...)
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
