// Package cli holds what several commands of agentd share: addresses to listen on,
// tokens, logs and servers to ask.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"agentd/internal/options"

	"github.com/rs/zerolog"
	"golang.org/x/term"
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
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// StopSignals are the signals that ask a command to end. A closed terminal sends SIGHUP, which
// nohup(1) ignores.
func StopSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// UntilSignal is a context that the first signal ends. The next signal ends the program.
func UntilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, StopSignals()...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
