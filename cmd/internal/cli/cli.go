// Package cli holds what several commands of agentd share: addresses to listen on,
// tokens, logs and servers to ask.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"agentd/cmd/internal/options"
)

// GroupLogs is the heading of the options of [Log] and of files.
const GroupLogs = "Files and logs"

// Log is how a command logs.
type Log struct{ Level, Format string }

// Options are the options of l.
func (l *Log) Options() []options.Option {
	option := options.In(GroupLogs)
	return []options.Option{
		option("log-level", "LEVEL", "trace, debug, info, warn or error.", options.Choice(&l.Level, []string{"trace", "debug", "info", "warn", "error"}, map[string]string{"warning": "warn"})),
		option("log-format", "FORMAT", "console for people, json for machines.", options.Choice(&l.Format, []string{"console", "json"}, nil)),
	}
}

// New is a logger to stderr, coloured on a terminal.
func (l *Log) New(stderr io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(l.Level)
	if err != nil {
		level = zerolog.InfoLevel // the option admits no other word
	}
	out := stderr
	if l.Format == "console" {
		out = zerolog.ConsoleWriter{Out: stderr, NoColor: !IsTerminal(stderr), TimeFormat: time.TimeOnly}
	}
	// Several goroutines log, and stderr need not be safe for that.
	return zerolog.New(zerolog.SyncWriter(out)).Level(level).With().Timestamp().Logger()
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// stopSignals are the signals that ask a command to end. A closed terminal sends SIGHUP, which
// nohup(1) ignores.
func stopSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// signalRepeats is how long the repeats of a signal count with it. timeout(1) sends each signal to its child and to the
// child's group, and people press a key twice.
const signalRepeats = time.Second

// OutliveReaders keeps the program running when the reader of its log ends, as in agentd 2>&1 | head. A write to such a
// pipe is then an error instead of a signal, which nobody here takes.
func OutliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// UntilSignal is a context that the first signal ends. The next signal ends the program.
func UntilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, stopSignals()...)
	context.AfterFunc(ctx, func() { time.AfterFunc(signalRepeats, stop) })
	return ctx, stop
}

// Signals receives stopSignals until stop is called. By the clock now, what comes within a second of a signal counts with
// it.
func Signals(now func() time.Time) (counted <-chan os.Signal, stop func()) {
	all := make(chan os.Signal, 2)
	signal.Notify(all, stopSignals()...)
	return withoutRepeats(all, now), sync.OnceFunc(func() {
		signal.Stop(all)
		close(all)
	})
}

// withoutRepeats passes on the first of several signals within signalRepeats.
func withoutRepeats(all <-chan os.Signal, now func() time.Time) <-chan os.Signal {
	counted := make(chan os.Signal, 2) // the second ends what the first began; nobody takes a third
	go func() {
		defer close(counted)
		var last time.Time
		for s := range all {
			if t := now(); t.Sub(last) >= signalRepeats {
				last = t
				select {
				case counted <- s:
				default:
				}
			}
		}
	}()
	return counted
}

// Absent refuses a file that exists or has no directory, before the work begins. "" names none.
func Absent(flag, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %s exists; remove it or name another file", flag, path)
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: %s is not a directory; create it or name another file", flag, dir)
	}
	return nil
}
