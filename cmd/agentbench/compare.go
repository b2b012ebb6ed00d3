package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"agentd/bench/report"
	"agentd/bench/result"
	"agentd/cmd/internal/options"
)

// compare is the subcommand that shows results side by side.
func (p *program) compare(_ context.Context, args []string) error {
	option := options.In("Options")
	plots := ""
	c := options.Command{
		Name:      "agentbench compare",
		Arguments: true,
		Intro: `agentbench compare shows results side by side: a column for each server and load, with the
medians of the repeats. Results with the same name are repeats. Two columns of the same load
get a ratio, which is above 1 where the first one is better.

Usage
  agentbench compare FILE.json… [options]

Example
  agentbench compare agentd-*.json llama-*.json --plots plots.svg
`,
		Options: []options.Option{option("plots", "FILE.svg", "Write a page of plots. An older one is replaced.", options.Text(&plots))},
	}
	_, paths, err := c.Parse(args, os.LookupEnv, p.stdout)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return errors.New("no result is named; want the FILE.json of agentbench run --out")
	}
	runs := make([]*result.Run, len(paths))
	for i, path := range paths {
		if runs[i], err = result.Read(path); err != nil {
			return err
		}
	}
	if err := report.WriteTable(p.stdout, runs); err != nil {
		return err
	}
	if plots == "" {
		return nil
	}
	if err := result.WriteFile(plots, func(w io.Writer) error { return report.WritePlots(w, runs) }); err != nil {
		return fmt.Errorf("--plots: %w", err)
	}
	fmt.Fprintf(p.stdout, "plots in %s\n", plots)
	return nil
}
