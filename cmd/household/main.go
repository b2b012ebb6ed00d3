// Command household has what is about the simulated household, and is not part of the server:
//
//	household eval [options]      measure how well a model decides
//	household dataset [options]   write a data set for training the default model
//	household choices [options]   write inputs with options and the right one
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"agentd/cmd/household/eval"
	"agentd/cmd/internal/options"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "household: %v\n", err)
		os.Exit(1)
	}
}

// run is the program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errors.New("no command; want eval, dataset or choices")
	}
	var err error
	switch args[0] {
	case "eval":
		err = eval.Run(ctx, args[1:], stdout, stderr)
	case "dataset":
		err = writeDataset(ctx, args[1:], stdout)
	case "choices":
		err = writeChoices(ctx, args[1:])
	default:
		return fmt.Errorf("unknown command %q; want eval, dataset or choices", args[0])
	}
	if err == nil || errors.Is(err, options.ErrDone) || errors.Is(err, flag.ErrHelp) {
		return nil
	}
	return fmt.Errorf("%s: %w", args[0], err)
}
