package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"agentd/cmd/agentd/internal/commands"
	"agentd/cmd/agentd/serve"
	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
)

// run is the program: it dispatches args to a command and returns when that is done.
// Cancelling ctx ends the command as a first signal does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || serve.IsModel(args[0]) {
		args = append([]string{"serve"}, args...)
	}
	command, rest := args[0], args[1:]
	if command == "help" && len(rest) > 0 {
		command, rest = rest[0], []string{"--help"}
	}
	runner := commands.Runners[command]
	if runner == nil {
		return fmt.Errorf("unknown command %q; want %s%s", command, cli.Names(), serve.CommandHint(command))
	}
	err := runner(ctx, rest, stdout, stderr)
	switch {
	case err == nil, errors.Is(err, options.ErrDone):
		return nil
	case command == "serve":
		return err
	}
	return fmt.Errorf("%s: %w", command, err)
}

// exitStatus is the program's for an error.
func exitStatus(err error) int {
	var with interface{ ExitStatus() int }
	if errors.As(err, &with) {
		return with.ExitStatus()
	}
	return 1
}
