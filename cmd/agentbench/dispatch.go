package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"agentd/cmd/internal/options"
	"agentd/internal/base/version"
)

// program has the outputs of a subcommand.
type program struct{ stdout, stderr io.Writer }

// run runs the subcommand that args name. Cancelling ctx ends a measurement as a first
// signal does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		writeHelp(stdout)
		return errors.New("a command is missing; want run, compare, suite, version or help")
	}
	p := &program{stdout, stderr}
	commands := map[string]func(context.Context, []string) error{
		"run": p.measure, "compare": p.compare, "suite": p.suite,
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "--help", "-h":
		writeHelp(stdout)
		return nil
	case "version", "--version":
		fmt.Fprintln(stdout, version.Line("agentbench"))
		return nil
	}
	command, ok := commands[name]
	if !ok {
		return fmt.Errorf("unknown command %q; want run, compare, suite, version or help", name)
	}
	if err := command(ctx, rest); err != nil && !errors.Is(err, options.ErrDone) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
