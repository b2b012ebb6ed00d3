package main

import (
	"context"
	"errors"
	"fmt"

	"agentd/bench/report"
	"agentd/bench/result"
)

// report is the subcommand that shows results.
func (p *program) report(_ context.Context, args []string) error {
	const group = "Options"
	html := ""
	c := command{
		name:  "report",
		files: true,
		page: `agentbench report shows results side by side: a table, one column for each arm and load,
medians of the repeats; with --html also a page with plots. Results with the same name are
repeats of one arm; the first arm is the one that the ratios speak of.

Usage
  agentbench report FILE.json… [options]

Example
  agentbench report agentd-*.json llama-*.json --html report.html
`,
		groups:  []string{group},
		options: []option{{"html", group, "FILE", "Write one page that needs nothing else. An older one is replaced.", text{&html}}},
	}
	_, paths, err := c.parse(args, p.stdout)
	switch {
	case errors.Is(err, errDone):
		return nil
	case err != nil:
		return err
	case len(paths) == 0:
		return errors.New("no result is named; want the FILE.json of agentbench run --out")
	}
	if html != "" {
		if err := inDirectory("--html", html); err != nil {
			return err
		}
	}
	var runs []*result.Full
	var files []*result.File
	for _, path := range paths {
		run := &result.Full{}
		if html == "" { // the table needs no records
			run.File, err = result.LoadFile(path)
		} else {
			run, err = result.LoadFull(path)
		}
		if err != nil {
			return err
		}
		runs, files = append(runs, run), append(files, run.File)
	}
	if err := report.WriteTable(p.stdout, files); err != nil {
		return err
	}
	if html == "" {
		return nil
	}
	if err := writePage(html, runs); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "plots in %s\n", html)
	return nil
}
