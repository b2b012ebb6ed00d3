// Package suite is the standard comparison of agentd with llama.cpp's own server and
// with what the machine could do: it makes models and traces, starts the servers,
// measures them in turns, and writes a table with a goal for each figure.
package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/bench/ceiling"
	"agentd/bench/render"
	"agentd/bench/report"
	"agentd/bench/result"
)

// Options of a comparison.
type Options struct {
	// Programs, by their files.
	Agentd, LlamaServer, BatchedBench string
	// Dir is where everything is written; it must not have results yet.
	Dir string
	// Quick is a look: fewer turns, one repeat, the first round of settings only.
	Quick bool
	// Repeats of each arm, each with a server of its own. 0: 5, or 1 of a quick look.
	Repeats int
	// Threads of the model on all sides.
	Threads int
	// Loads to measure, by their names; there must be some.
	Loads []string
	// AgentdArgs are further options of agentd.
	AgentdArgs []string
	// Measure is agentbench run with these arguments.
	Measure func(ctx context.Context, args []string) error
	// Log is told what is going on, a line at a time.
	Log func(line string)
	// Machine and commit, for the table.
	CPU    string
	CPUs   int
	Commit string
}

// defaultRepeats of each arm.
const defaultRepeats = 5

// Limits of the parts, so that a server that hangs ends as an error.
const (
	runLimit   = 4 * time.Minute
	benchLimit = 4 * time.Minute
	stepsLimit = 10 * time.Minute
)

// Names of workloads, in their order: all, and those that are measured by default.
func Names() (all, usual []string) {
	for _, w := range workloads(false) {
		all = append(all, w.Name)
		if !w.long {
			usual = append(usual, w.Name)
		}
	}
	return all, usual
}

// Run does the comparison. What was measured before an error is in the result; one
// workload's error is kept there, too, and does not end the others.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Repeats == 0 {
		if o.Repeats = defaultRepeats; o.Quick {
			o.Repeats = 1
		}
	}
	all, _ := Names()
	if len(o.Loads) == 0 {
		return nil, fmt.Errorf("no loads to measure, of: %s", strings.Join(all, ", "))
	}
	for _, name := range o.Loads {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no load %q, only: %s", name, strings.Join(all, ", "))
		}
	}
	for _, p := range []struct{ path, fix string }{{o.Agentd, "make agentd"}, {o.LlamaServer, "make peers"}, {o.BatchedBench, "make peers"}} {
		if info, err := os.Stat(p.path); err != nil || !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is missing; %s builds it", p.path, p.fix)
		}
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil { //nolint:gosec // figures are no secret
		return nil, err
	}
	began := time.Now()
	r := &Result{
		Version: Version, Made: began.UTC(), Commit: o.Commit, CPU: o.CPU, CPUs: o.CPUs, Threads: o.Threads,
		Quick: o.Quick, Repeats: o.Repeats, Load: load(), AgentdArgs: o.AgentdArgs,
	}
	o.Log("does llama-server answer as it should?")
	if err := check(ctx, &o); err != nil {
		return nil, err
	}
	for _, w := range workloads(o.Quick) {
		if !slices.Contains(o.Loads, w.Name) {
			continue
		}
		s := &session{Options: &o, Workload: w}
		one, err := s.measure(ctx)
		r.Workloads = append(r.Workloads, one)
		if err != nil {
			one.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
			o.Log(w.Name + ": " + err.Error())
		}
		if ctx.Err() != nil {
			r.Interrupted = true
			break
		}
	}
	r.Seconds = time.Since(began).Seconds()
	r.Rows = rows(r)
	return r, errors.Join(r.save(o.Dir), context.Cause(ctx))
}

// load is the machine's load average over the last minute; 0 where it does not tell.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	x, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return x
}

// session is one workload being measured.
type session struct {
	*Options
	*Workload
	best  Setting
	rows  []ceiling.Row // of all calls of llama-batched-bench for the ideal
	limit time.Duration // of one run of a server; 0: runLimit
}

func (s *session) say(format string, args ...any) {
	s.Log(s.Name + ": " + fmt.Sprintf(format, args...))
}

// measure does all of a workload. The result holds what there was before an error.
func (s *session) measure(ctx context.Context) (*Measured, error) {
	began := time.Now()
	m := &Measured{Workload: s.Workload}
	defer func() { m.Seconds = time.Since(began).Seconds() }()
	s.say("model and trace")
	if err := s.prepare(ctx, s.Dir); err != nil {
		return m, err
	}
	m.Counts = s.counts
	if err := s.tune(ctx, m); err != nil {
		return m, err
	}
	if err := s.repeat(ctx, m); err != nil {
		return m, err
	}
	if err := s.steps(ctx, m); err != nil {
		return m, err
	}
	return m, nil
}

// arm runs a server once, freshly started, with a trace; the result is written to
// path.
func (s *session) arm(ctx context.Context, name, trace, path string) (err error) {
	limit := s.limit
	if limit == 0 {
		limit = runLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s took longer than %s", name, limit.Round(time.Second)))
	defer cancel()
	program, args, kind := s.Agentd, s.agentdArgs(s.Options), []string{"--target", "agentd"}
	if name != armAgentd {
		program, args = s.LlamaServer, s.serverArgs(s.Options, s.best)
		kind = []string{"--target", "llama-server", "--mode", string(s.best.Mode)}
	}
	server, err := start(ctx, name, program, args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	flags := append(kind, "--url", server.url, "--threads", strconv.Itoa(s.Threads), "--sample-every", "1s")
	if s.FixedTokens > 0 {
		flags = append(flags, "--fixed-tokens", strconv.Itoa(s.FixedTokens))
	} else {
		flags = append(flags, "--max-tokens", strconv.Itoa(s.MaxTokens))
	}
	for _, run := range []struct {
		trace string
		more  []string
	}{{s.paths.warm, nil}, {trace, []string{"--name", name, "--out", path}}} {
		if err := s.Measure(ctx, slices.Concat(flags, []string{"--trace", run.trace}, run.more)); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Names of the arms.
const (
	armAgentd = "agentd"
	armServer = "llama-server"
)

// run is arm with the whole trace, and reads the result.
func (s *session) run(ctx context.Context, name, trace, file string) (*result.Full, error) {
	path := filepath.Join(s.Dir, file+".json")
	if err := s.arm(ctx, name, trace, path); err != nil {
		return nil, err
	}
	full, err := result.LoadFull(path)
	if err != nil {
		return nil, err
	}
	if n := len(full.Summary.Failures); n > 0 || full.Interrupted != "" {
		return nil, fmt.Errorf("%s: requests failed (%v) or it was interrupted (%q); see %s", name, full.Summary.Failures, full.Interrupted, path)
	}
	return full, nil
}

// repeat measures the arms in turns: agentd, llama-server, the ceiling, and again.
// What was measured before an error counts.
func (s *session) repeat(ctx context.Context, m *Measured) error {
	var runs []*result.Full
	arms := map[string][]*result.File{}
	err := s.turns(ctx, m, func(name string, full *result.Full) {
		runs, arms[name] = append(runs, full), append(arms[name], full.File)
	})
	if len(runs) == 0 {
		return err
	}
	m.Agentd, m.Server = s.figures(arms[armAgentd]), s.figures(arms[armServer])
	page := filepath.Join(s.Dir, s.Name+".html")
	return errors.Join(err, s.ideal(m), write(page, func(w io.Writer) error { return report.WriteHTML(w, runs) }))
}

// turns runs the arms and gives each run as soon as it is done.
func (s *session) turns(ctx context.Context, m *Measured, done func(name string, full *result.Full)) error {
	for i := range s.Repeats {
		for _, name := range []string{armAgentd, armServer} {
			full, err := s.run(ctx, name, s.paths.whole, fmt.Sprintf("%s-%s-%d", s.Name, name, i+1))
			if err != nil {
				return err
			}
			done(name, full)
			s.say("%d of %d: %s %.2f decisions/s", i+1, s.Repeats, name, full.Summary.DecisionRate.X)
		}
		if err := s.ceiling(ctx, m.Batched); err != nil {
			return err
		}
	}
	return nil
}

// ideal is that of the tokens that agentd generated, where the speeds were measured.
func (s *session) ideal(m *Measured) error {
	if len(s.rows) == 0 || !m.Agentd.Output.Median.Known {
		return nil
	}
	speeds, err := ceiling.Fastest(s.rows, s.slots())
	if err != nil {
		return err
	}
	m.Ceiling = speeds
	generated := int(m.Agentd.Output.Median.X)
	m.Ideal = result.Known(speeds.Decisions(ceiling.Load{Decisions: s.counts.Candidates, Unique: s.counts.UniqueTokens, Generated: generated}))
	return nil
}

// figures are the medians of the repeats of an arm.
func (s *session) figures(files []*result.File) Figures {
	arm := result.Arm{Files: files}
	spread := func(name string) Spread {
		metric, _ := result.MetricNamed(name)
		x := arm.Spread(metric)
		return Spread{x.Median, x.Min, x.Max}
	}
	f := Figures{
		Repeats: len(files), Decisions: spread("decisions_s"), TTFT: spread("ttft_p50"), TPOT: spread("tpot_p50"), E2EL: spread("e2el_p50"),
		Width: spread("batch_width"),
	}
	of := func(value func(*result.Summary) result.Value) Spread {
		values := make([]result.Value, len(files))
		for i, file := range files {
			values[i] = value(&file.Summary)
		}
		x := result.SpreadOf(values)
		return Spread{x.Median, x.Min, x.Max}
	}
	// The summary's own ideal knows nothing of the warm-up.
	f.Computed = of(func(x *result.Summary) result.Value {
		return x.PromptComputed.Over(result.Known(float64(s.counts.UniqueTokens)))
	})
	f.Output = of(func(x *result.Summary) result.Value { return x.OutputRate.Times(x.Span.X) })
	return f
}

// ceiling asks llama-batched-bench once for the speeds at a trace's lengths.
func (s *session) ceiling(ctx context.Context, cache ceiling.Cache) error {
	rows, err := s.bench(ctx, s.meanPrompt(), true, min(s.outputTokens(), ceilingTokens), s.widths(), cache)
	s.rows = append(s.rows, rows...)
	return err
}

// ceilingTokens are enough to see a decode rate.
const ceilingTokens = 32

// widths at which the ceiling is measured, up to all candidates at once.
func (s *session) widths() []int {
	var list []int
	for w := 8; w < s.slots(); w *= 2 {
		list = append(list, w)
	}
	return append(list, s.slots())
}

func (s *session) meanPrompt() int { return s.counts.PromptTokens / s.counts.Turns }

func (s *session) bench(ctx context.Context, prompt int, shared bool, output int, widths []int, cache ceiling.Cache) ([]ceiling.Row, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, benchLimit, fmt.Errorf("llama-batched-bench took longer than %s", benchLimit))
	defer cancel()
	b := ceiling.Bench{
		Program: s.BatchedBench, Model: s.file, Threads: s.Threads, Prompt: prompt, Shared: shared, Output: output, Widths: widths, Cache: cache,
	}
	return b.Run(ctx)
}

// Counts are those of a workload's trace, for the table.
type Counts = render.Counts
