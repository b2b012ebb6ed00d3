package ceiling

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// program is a script in place of llama-batched-bench.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bench")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheContextHoldsAllSequences(t *testing.T) {
	b := Bench{Model: "m.gguf", Threads: 3, Prompt: 250, Output: 6, Widths: []int{8, 4}, Cache: Cache{FlashAttention: "off"}}
	args := b.Args()
	for _, want := range [][]string{{"-m", "m.gguf"}, {"-c", "4096"}, {"-t", "3"}, {"-tb", "3"}, {"-npp", "250"}, {"-ntg", "6"}, {"-npl", "8,4"}, {"--output-format", "jsonl"}, {"-fa", "off"}} {
		if i := slices.Index(args, want[0]); i < 0 || args[i+1] != want[1] {
			t.Errorf("no %v in %v", want, args)
		}
	}
	if slices.Contains(args, "-pps") || !slices.Contains(args, "-no-kvu") {
		t.Errorf("%v", args)
	}
	b.Shared, b.Cache.Unified = true, true
	if args = b.Args(); !slices.Contains(args, "-pps") || !slices.Contains(args, "-kvu") || slices.Contains(args, "-no-kvu") {
		t.Errorf("%v", args)
	}
}

func TestRunReadsWhatTheProgramMeasured(t *testing.T) {
	b := Bench{Program: program(t, "echo loading >&2\ncat <<'X'\n"+written+"\nX\n"), Widths: []int{8}}
	rows, err := b.Run(t.Context())
	if err != nil || len(rows) != 1 || rows[0].Width != 8 {
		t.Errorf("got %+v, %v", rows, err)
	}
	b.Widths = []int{8, 16}
	if _, err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "measured nothing with 16 sequences") {
		t.Errorf("a width is missing: %v", err)
	}
}

func TestAProgramThatFailsSaysWhy(t *testing.T) {
	b := Bench{Program: program(t, "echo one >&2\necho unable to load model >&2\nexit 3\n")}
	if _, err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3: unable to load model") {
		t.Errorf("got %v", err)
	}
}

func TestTheContextEndsTheProgramAndWhatItStarted(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	started := filepath.Join(t.TempDir(), "started")
	b := Bench{Model: started, Program: program(t, "touch \"$2\"\nsleep 3600\nexit 0\n")} // its first arguments are -m MODEL
	done := make(chan error, 1)
	go func() {
		_, err := b.Run(ctx)
		done <- err
	}()
	for {
		if _, err := os.Stat(started); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
