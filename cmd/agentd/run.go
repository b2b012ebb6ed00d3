package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"agentd/cmd/agentd/check"
	"agentd/cmd/agentd/console"
	"agentd/cmd/agentd/convert"
	"agentd/cmd/agentd/demo"
	"agentd/cmd/agentd/export"
	"agentd/cmd/agentd/makemodel"
	"agentd/cmd/agentd/pull"
	"agentd/cmd/agentd/serve"
	"agentd/cmd/internal/cli"
	"agentd/internal/options"
	"agentd/internal/version"
)

// runners run the commands of cli.Commands.
var runners = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) error{
	"serve":   serve.Run,
	"pull":    pull.Run,
	"console": console.Run,
	"demo":    demo.Run,
	"check":   check.Run,
	"export":  export.Run,
	"convert": func(_ context.Context, args []string, stdout, _ io.Writer) error {
		return convert.Run(args, stdout)
	},
	"make-model": func(_ context.Context, args []string, stdout, _ io.Writer) error {
		return makemodel.Run(args, stdout)
	},
	"version": func(_ context.Context, _ []string, stdout, _ io.Writer) error {
		fmt.Fprintln(stdout, version.Line("agentd"))
		return nil
	},
	"help": func(_ context.Context, _ []string, stdout, _ io.Writer) error {
		serve.DefaultConfig().Command().WriteHelp(stdout)
		return nil
	},
}

// run is the program: it dispatches args to a command and returns when that is done.
// Cancelling ctx ends the command as a first signal does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || serve.IsModel(args[0]) {
		args = append([]string{"serve"}, args...)
	}
	command, rest := args[0], args[1:]
	runner := runners[command]
	if runner == nil {
		return fmt.Errorf("unknown command %q; want %s%s", command, cli.Names(), serve.HubHint(command))
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
