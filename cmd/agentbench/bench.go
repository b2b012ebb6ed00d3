package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"agentd/bench/load"
	"agentd/bench/render"
	"agentd/bench/report"
	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// bench is the subcommand that measures.
func (p *program) bench(ctx context.Context, args []string) error {
	c := newBenchConfig()
	given, _, err := c.command().parse(args, p.stdout)
	switch {
	case errors.Is(err, errDone):
		return nil
	case err != nil:
		return err
	}
	if err := c.check(given); err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	trace, err := c.Trace.load(ctx, p)
	if err != nil {
		return err
	}
	if c.Target == llamaServer && !rendered(trace) {
		return errors.New("--model: llama-server is asked with agentd's tokens, and the trace has none; name the GGUF file that it serves")
	}
	m := measurement{program: p, config: &c, args: args, trace: trace}
	return m.run(ctx)
}

// measurement is one run of a target.
type measurement struct {
	*program
	config *benchConfig
	args   []string
	trace  *workload.Trace
	server map[string]string // its own description
}

// run measures, prints and writes. What was measured before an error or a signal
// is not lost.
func (m *measurement) run(ctx context.Context) (err error) {
	t, err := m.config.open()
	if err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if m.server, err = t.Describe(ctx); err != nil {
		return fmt.Errorf("no %s tells about itself at %s: %w; start it, or see --target and --url", m.config.Target, m.config.URL, err)
	}

	if m.config.Target != agentd {
		m.server[result.Streamed] = strconv.FormatBool(m.config.Load.Target.Stream)
	}
	bar := m.bar(len(m.trace.Turns), m.config.Name)
	o := m.config.Load
	o.Progress = func(at load.Progress) {
		bar.describe(fmt.Sprintf("%s, %d failed", m.config.Name, at.Failed))
		bar.set(at.Answered + at.Failed + at.Left)
	}
	got, failed := load.Run(ctx, t, m.trace, o)
	bar.finish()
	if got.End == load.EndInterrupted {
		failed = nil // it is what a signal looks like from within
	}
	if len(got.Records) == 0 {
		if failed == nil {
			failed = errors.New("interrupted before anything was measured")
		}
		return failed
	}
	f, err := m.file(&got, failed)
	if err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, m.keep(f, &got), m.print(f, &got))
}

// file is the result of a run.
func (m *measurement) file(got *load.Result, failed error) (*result.File, error) {
	c := m.config
	hash, err := m.trace.Hash()
	if err != nil {
		return nil, err
	}
	slo, err := result.ParseSLO(c.SLO)
	if err != nil {
		return nil, err
	}
	ideal, err := m.ideal(got.Records)
	if err != nil {
		return nil, err
	}
	agents, candidates := size(m.trace)
	f := &result.File{
		Version: result.Version,
		Made:    got.Began,
		Run: result.Run{
			Name: c.Name, Target: c.Target, Args: append([]string{"run"}, m.args...), Commit: commit(),
			Model: m.trace.Header.Model, GPU: c.GPU, Threads: c.Threads, Server: m.server,
		},
		Trace:   result.Trace{Hash: hash, Kind: m.trace.Header.Kind, Agents: agents, Turns: len(m.trace.Turns), Candidates: candidates},
		Load:    c.level(agents),
		Options: c.same(),
		SLO:     slo,
		Summary: result.Summarize(result.Input{
			Records: got.Records, Samples: got.Samples, Counts: counts(got.Before, got.After), Ideal: ideal, SLO: slo,
		}),
	}
	f.Run.CPU, f.Run.CPUs = cpu()
	switch {
	case failed != nil:
		f.Interrupted = "error: " + failed.Error()
	case got.End == load.EndInterrupted:
		f.Interrupted = "by a signal"
	}
	return f, nil
}

// ideal counts the unique prompt tokens of the answered requests; unknown where
// the trace was not rendered.
func (m *measurement) ideal(records []result.Record) (result.Value, error) {
	if !rendered(m.trace) {
		return result.Value{}, nil
	}
	answered := map[[2]int]bool{}
	for i := range records {
		if r := &records[i]; r.Failure == "" {
			answered[[2]int{r.Agent, r.Turn}] = true
		}
	}
	part := workload.Trace{Header: m.trace.Header}
	for i := range m.trace.Turns {
		if t := &m.trace.Turns[i]; answered[[2]int{t.Agent, t.Turn}] {
			part.Turns = append(part.Turns, *t)
		}
	}
	sum, err := render.Ideal(&part, nil)
	if err != nil {
		return result.Value{}, err
	}
	return result.Known(float64(sum.UniqueTokens)), nil
}

// counts is what the server counted between two readings.
func counts(before, after *target.Counters) result.Counts {
	if before == nil || after == nil {
		return result.Counts{}
	}
	grown := func(from, to float64) result.Value {
		if from < 0 || to < from { // not told, or the server was started anew
			return result.Value{}
		}
		return result.Known(to - from)
	}
	c := result.Counts{
		Prefilled: grown(before.Prefilled, after.Prefilled),
		Cached:    grown(before.Cached, after.Cached),
		Generated: grown(before.Generated, after.Generated),
		Steps:     grown(before.Steps, after.Steps),
		Rows:      grown(before.Rows, after.Rows),
		Evicted:   grown(before.Evicted, after.Evicted),
		Phases:    map[string]float64{},
	}
	for name, seconds := range after.Phases {
		if v := grown(before.Phases[name], seconds); v.Known {
			c.Phases[name] = v.X
		}
	}
	return c
}

// keep writes the files that were asked for.
func (m *measurement) keep(f *result.File, got *load.Result) error {
	var errs []error
	if m.config.Out != "" {
		if err := result.Save(m.config.Out, f, got.Records, got.Samples); err != nil {
			errs = append(errs, fmt.Errorf("--out: %w", err))
		}
	}
	if m.config.HTML != "" {
		errs = append(errs, writePage(m.config.HTML, []*result.Full{{File: f, Records: got.Records, Samples: got.Samples}}))
	}
	return errors.Join(errs...)
}

// writePage writes the page of a report.
func writePage(path string, runs []*result.Full) error {
	if err := writeWhole(path, fileMode, func(w *bufio.Writer) error { return report.WriteHTML(w, runs) }); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// print writes the table, and what a reader of it has to know.
func (m *measurement) print(f *result.File, got *load.Result) error {
	if err := report.WriteTable(m.stdout, []*result.File{f}); err != nil {
		return err
	}
	note := func(format string, args ...any) { fmt.Fprintf(m.stdout, format+"\n", args...) }
	if got.Unsent > 0 {
		note("%d turns of the trace were not sent; the run ended by: %s", got.Unsent, got.End)
	}
	for _, kind := range slices.Sorted(maps.Keys(got.Examples)) {
		if kind != target.Cancelled {
			note("%s, for example: %s", kind, got.Examples[kind])
		}
	}
	if got.ToCancel > 0 {
		note("%d requests were to be left; %d of them came before the first answer and were not", got.ToCancel, got.Early)
	}
	if got.SampleErrors > 0 {
		note("the server's counters could not be read %d times: %v", got.SampleErrors, got.SampleError)
	}
	if m.config.Out != "" {
		note("written to %s", m.config.Out)
	}
	if m.config.HTML != "" {
		note("plots in %s", m.config.HTML)
	}
	return nil
}
