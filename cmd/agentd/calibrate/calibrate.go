// Package calibrate is the command that finds from recorded decisions when a model should ask.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"agentd/cmd/agentd/export"
	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/internal/base/conformal"
	"agentd/internal/base/version"
)

// Config is all settings of the command.
type Config struct {
	Console string // data directory
	Errors  []float64
	Seed    uint64
	Out     string
}

// DefaultConfig applies when a user sets nothing.
func DefaultConfig() *Config { return &Config{Errors: []float64{0.05, 0.1, 0.2}, Seed: 1} }

const (
	intro = `agentd calibrate finds from recorded decisions with options when to ask a person, so that the set of
options has the right one but for a stated error rate. docs/decide.md has the details.

Usage
  agentd calibrate [options] PATH...

A PATH is what agentd export reads, or a file of labelled decisions (.jsonl).

Examples
  agentd calibrate --out ask.json runs
  agentd calibrate --error 0.1 --out ask.json labelled.jsonl
  agentd --ask ask.json,error=0.1
`
	outro = `A random half of the decisions makes the thresholds, and the other half measures them. What was read
and left out is counted on standard error.
`
)

// Command is the command line that fills c.
func (c *Config) Command() *options.Command {
	option := options.In("Options")
	return &options.Command{
		Name: "agentd calibrate", Version: version.Line("agentd"), Intro: intro, Outro: outro, Arguments: true,
		Options: []options.Option{
			option("error", "LIST", "Error rates between 0 and 1, separated by commas.", options.ListOf(&c.Errors, conformal.MaxRates, rate,
				func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) })),
			option("console", "DIR", "Data directory of a console that does not run, whose corrections count too.", options.Text(&c.Console)),
			option("seed", "N", "Chooses the random half.", options.Uint64(&c.Seed)),
			option("out", "FILE", "File to write. It must not exist. Without it, the calibration goes to standard output.", options.Text(&c.Out)),
		},
	}
}

func rate(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0.0001 && x <= 0.9999) {
		return 0, fmt.Errorf("got %q, want a number from 0.0001 to 0.9999, such as 0.1", text)
	}
	return x, nil
}

// Run is the command.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c := DefaultConfig()
	_, paths, err := c.Command().Parse(args, os.LookupEnv, stdout)
	if err != nil {
		return err
	}
	slices.Sort(c.Errors)
	c.Errors = slices.Compact(c.Errors)
	switch {
	case len(paths) == 0 && c.Console == "":
		return errors.New("nothing to calibrate; name files or folders, or use --console")
	case len(c.Errors) == 0:
		return errors.New("--error: name at least one error rate, such as 0.1")
	}
	if err := cli.Absent("--out", c.Out); err != nil {
		return err
	}
	r := &records{
		right: map[uint64]string{}, seen: map[uint64]bool{}, kinds: map[string]int{}, skipped: map[string]int{},
	}
	if err := r.read(ctx, paths, c.Console); err != nil {
		return err
	}
	list := r.join()
	fmt.Fprintln(stderr, r.summary(len(list)))
	if len(r.kinds) > 1 {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(r.kinds)) {
			kinds = append(kinds, fmt.Sprintf("%s (%d decisions)", kind, r.kinds[kind]))
		}
		return fmt.Errorf("the decisions are of several models or formats; calibrate each by itself: %s",
			strings.Join(kinds, ", "))
	}
	file := &conformal.File{Model: r.model, Format: r.format, Decisions: len(list)}
	if file.Rates, err = conformal.Calibrate(list, c.Errors, c.Seed); err != nil {
		return err
	}
	text, err := file.Text()
	if err != nil {
		return err
	}
	for _, x := range file.Rates {
		h := x.HeldOut
		fmt.Fprintf(stderr, "error %g: threshold %.4g of %d; on %d held out: coverage %.3f (95 %% interval %.3f to %.3f), mean set %.2f, %d asked, %d wrong before and %d after\n",
			x.Error, x.Threshold, x.N, h.N, h.Coverage, h.Interval[0], h.Interval[1], h.MeanSize, h.Asked, h.Wrong, h.Left)
	}
	return export.Write(c.Out, stdout, func(w io.Writer) error { _, err := w.Write(text); return err })
}
