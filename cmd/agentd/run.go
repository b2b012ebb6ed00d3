package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"agentd/cmd/agentd/console"
	"agentd/cmd/agentd/demo"
	"agentd/cmd/agentd/eval"
	"agentd/cmd/agentd/export"
	"agentd/cmd/agentd/learn"
	"agentd/cmd/agentd/makemodel"
	"agentd/cmd/agentd/serve"
	"agentd/internal/options"
	"agentd/internal/version"
)

// run is the program: it dispatches args to a command and returns when that is done.
// Cancelling ctx ends the command as a first signal does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		args = append([]string{"serve"}, args...)
	}
	command, rest := args[0], args[1:]
	var err error
	switch command {
	case "serve":
		err = serve.Run(ctx, rest, stdout, stderr)
	case "console":
		err = console.Run(ctx, rest, stdout, stderr)
	case "demo":
		err = demo.Run(ctx, rest, stdout)
	case "eval":
		err = eval.Run(ctx, rest, stdout, stderr)
	case "export":
		err = export.Run(ctx, rest, stdout, stderr)
	case "learn":
		err = learn.Run(ctx, rest, stdout, stderr)
	case "make-model":
		err = makemodel.Run(rest, stdout)
	case "version":
		fmt.Fprintln(stdout, version.Line("agentd"))
	case "help":
		serve.DefaultConfig().Command().WriteHelp(stdout)
	default:
		return fmt.Errorf("unknown command %q; want serve, console, demo, eval, export, learn, make-model, version or help", command)
	}
	switch {
	case err == nil, errors.Is(err, options.ErrDone):
		return nil
	case command == "serve":
		return err
	}
	return fmt.Errorf("%s: %w", command, err)
}
