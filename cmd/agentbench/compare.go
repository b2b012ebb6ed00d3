package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentd/bench/report"
	"agentd/bench/result"
)

// compare is the subcommand that holds two arms against each other.
func (p *program) compare(_ context.Context, args []string) error {
	const group = "Options"
	under, anyway := "", false
	c := command{
		name:  "compare",
		files: true,
		page: `agentbench compare holds the results of two arms against each other, by the medians of their
repeats. A ratio above 1 says that the first arm is better: first/second where higher is
better, second/first where lower is.

Usage
  agentbench compare A.json B.json [options]
  agentbench compare A1.json,A2.json,A3.json B1.json,B2.json,B3.json [options]

Example
  agentbench compare new.json old.json --fail-under ratio=0.97,ttft_p50=0.9
`,
		tail: `Metrics
` + metricNames() + `
Results of different traces, loads, options, models, machines, GPUs, threads or objectives, streamed
ones with others, and interrupted ones, are not compared. What only some tell of model, GPU and
threads is different.
`,
		groups: []string{group},
		options: []option{
			{"fail-under", group, "LIST", "End with an error when a ratio is less, such as ratio=1.7 (decisions/s) or output_tok_s=0.95,ttft_p50=0.9. A metric that a side does not know is less.", text{&under}},
			{"anyway", group, "", "Compare also what is no fair comparison, and say so.", toggle{&anyway}},
		},
	}
	_, files, err := c.parse(args, p.stdout)
	switch {
	case errors.Is(err, errDone):
		return nil
	case err != nil:
		return err
	case len(files) != 2:
		return fmt.Errorf("got %d arguments, want two: the results of the first arm, joined by commas, and of the second", len(files))
	}
	var rules []result.Rule
	if under != "" {
		if rules, err = result.ParseRules(under); err != nil {
			return fmt.Errorf("--fail-under: %w", err)
		}
	}
	var arms [2][]*result.File
	for i, list := range files {
		for path := range strings.SplitSeq(list, ",") {
			f, err := result.LoadFile(path)
			if err != nil {
				return err
			}
			arms[i] = append(arms[i], f)
		}
	}
	comparison, err := result.Compare(arms[0], arms[1], rules, anyway)
	if err != nil {
		return fmt.Errorf("%w; --anyway compares them nevertheless", err)
	}
	if err := report.WriteComparison(p.stdout, comparison); err != nil {
		return err
	}
	if missed := comparison.Missed(); len(missed) > 0 {
		return fmt.Errorf("--fail-under: %s", strings.Join(missed, "; "))
	}
	return nil
}

// metricNames lists what can be compared.
func metricNames() string {
	names := []string{result.Ratio + " (decisions_s)"}
	for _, m := range result.Metrics() {
		if m.Better != result.Neutral {
			names = append(names, m.Name)
		}
	}
	var b strings.Builder
	for _, line := range report.Wrap(strings.Join(names, ", "), helpWidth-2) {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}
