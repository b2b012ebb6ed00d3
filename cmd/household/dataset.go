package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"agentd/cmd/internal/cli"
	"agentd/household"
	"agentd/household/dataset"
)

// writeDataset writes a data set of package dataset: a group of conversations on each line. It
// prints the SHA-256 of what it wrote.
func writeDataset(ctx context.Context, args []string, stdout io.Writer) error {
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	flags := flag.NewFlagSet("dataset", flag.ContinueOnError)
	groups := flags.Int("groups", 1000, "how many groups of conversations to write")
	seed := flags.Uint64("seed", 1, "the data set is a function of it")
	out := flags.String("out", "", "the file to write")
	eval := flags.Bool("eval", false, "houses, words and wordings that no training has")
	lesson := flags.Bool("lesson", false, "small houses and short tasks with all details: what a model learns from first")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || *groups < 1 || flags.NArg() > 0 {
		return errors.New("say which file to write with --out, and --groups of at least 1")
	}
	o := dataset.Options{Groups: *groups, Seed: *seed}
	if *eval {
		o.Split = household.Eval
	}
	o.Lesson = *lesson
	f, err := os.Create(*out)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	w := bufio.NewWriter(io.MultiWriter(f, sum))
	if err := dataset.Write(ctx, w, o); err != nil {
		return err
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%x  %s\n", sum.Sum(nil), *out)
	return nil
}
