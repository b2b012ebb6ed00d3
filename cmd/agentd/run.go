package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// run is the program: it dispatches args to a subcommand and returns when that
// is done. Cancelling ctx asks the server to drain, as a first signal does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	command, rest := "serve", args
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, rest = args[0], args[1:]
	}
	switch command {
	case "serve":
		return serve(ctx, rest, stdout, stderr)
	case "console":
		return runConsole(ctx, rest, stdout, stderr)
	case "demo":
		return runDemo(ctx, rest, stdout)
	case "eval":
		return runEval(ctx, rest, stdout, stderr)
	case "make-model":
		return makeModel(rest, stdout)
	case "version":
		fmt.Fprintln(stdout, versionLine())
		return nil
	case "help":
		writeHelp(stdout)
		return nil
	}
	return fmt.Errorf("unknown command %q; want serve, console, demo, eval, make-model, version or help", command)
}

// computes tells whether args start a program that computes with a model itself.
func computes(args []string) bool {
	return len(args) == 0 || args[0] == "serve" || args[0] == "eval" || strings.HasPrefix(args[0], "-")
}

// serve is the default subcommand.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, from, err := loadConfig(args, os.LookupEnv)
	switch {
	case errors.Is(err, errHelp):
		writeHelp(stdout)
		return nil
	case errors.Is(err, errVersion):
		fmt.Fprintln(stdout, versionLine())
		return nil
	case err != nil:
		return err
	}
	return newDaemon(c, from, stderr).run(ctx)
}
