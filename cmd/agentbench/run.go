package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"golang.org/x/term"
)

// version is set by the build with -ldflags "-X main.version=…"; a plain go
// build falls back to what the toolchain recorded.
var version = ""

// commit is the version of agentbench as results carry it.
func commit() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		revision, changes := "", ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changes = "+changes"
			}
		}
		if revision != "" {
			return "devel-" + revision[:min(len(revision), 12)] + changes
		}
	}
	return "devel"
}

func versionLine() string {
	return fmt.Sprintf("agentbench %s (%s, %s/%s)", commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// program is where a subcommand writes.
type program struct{ stdout, stderr io.Writer }

// run is the program: it dispatches args to a subcommand and returns when that is
// done. Cancelling ctx ends a measurement as a first signal does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		writeHelp(stdout)
		return errors.New("a command is missing; want run, trace, record, compare, report, suite, version or help")
	}
	p := &program{stdout, stderr}
	commands := map[string]func(context.Context, []string) error{
		"run": p.bench, "trace": p.trace, "record": p.record, "compare": p.compare, "report": p.report, "suite": p.suite,
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "--help", "-h":
		writeHelp(stdout)
		return nil
	case "version", "--version":
		fmt.Fprintln(stdout, versionLine())
		return nil
	}
	command, ok := commands[name]
	if !ok {
		return fmt.Errorf("unknown command %q; want run, trace, record, compare, report, suite, version or help", name)
	}
	if err := command(ctx, rest); err != nil {
		return fmt.Errorf("%s: %w", name, err)
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

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
