// Package suite is the standard comparison of agentd with llama.cpp's own server and with
// vLLM. It makes models and traces, starts the servers, measures them in turns, and writes
// tables with a goal for each ratio.
package suite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentd/bench/load"
	"agentd/bench/report"
	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// Options of a comparison.
type Options struct {
	// Program files. VLLM takes a GGUF file as --model; "": vLLM is not measured.
	Agentd, LlamaServer, VLLM string
	// Dir gets the files; it must have no results yet.
	Dir string
	// Quick takes fewer turns, one repeat, and the first round of settings only.
	Quick bool
	// Repeats of each server, each freshly started. 0: 5, or 1 with Quick.
	Repeats int
	// Threads of the model on all sides.
	Threads int
	// Loads by name; at least one.
	Loads []string
	// AgentdArgs are more options of agentd.
	AgentdArgs []string
	// Log gets a line for each step.
	Log func(line string)
	// Host and Commit are for the results.
	Host   result.Host
	Commit string
}

const defaultRepeats = 5

// runLimit of a server, with its start, so that a hanging one ends as an error. vLLM
// compiles a new model.
const runLimit = 15 * time.Minute

// Names are the names of all loads, and of those measured by default.
func Names() (all, usual []string) {
	for _, w := range loads(false) {
		all = append(all, w.Name)
		if !w.long {
			usual = append(usual, w.Name)
		}
	}
	return all, usual
}

// check checks the options and sets defaults.
func (o *Options) check() error {
	if o.Repeats == 0 {
		if o.Repeats = defaultRepeats; o.Quick {
			o.Repeats = 1
		}
	}
	all, _ := Names()
	for _, name := range o.Loads {
		if !slices.Contains(all, name) {
			return fmt.Errorf("there is no load %q; use all, or some of: %s", name, strings.Join(all, ", "))
		}
	}
	if len(o.Loads) == 0 {
		return fmt.Errorf("no load is given; use some of: %s", strings.Join(all, ", "))
	}
	for _, p := range []struct{ path, fix string }{
		{o.Agentd, "make agentd builds it"}, {o.LlamaServer, "make peers builds it"},
		{cmp.Or(o.VLLM, o.Agentd), "start agentbench in the root of a checkout of agentd"},
	} {
		if info, err := os.Stat(p.path); err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("%s is missing; %s", p.path, p.fix)
		}
	}
	return nil
}

// Run does the comparison. The result has what was measured before an error. An error
// of one load is kept in its result, and the other loads go on.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil { //nolint:gosec // figures are not secret
		return nil, err
	}
	began := time.Now()
	load, _ := os.ReadFile("/proc/loadavg") // not on every system
	load, _, _ = bytes.Cut(load, []byte(" "))
	r := &Result{
		Version: Version, Made: began.UTC(), Commit: o.Commit, Host: o.Host, Threads: o.Threads,
		Quick: o.Quick, Repeats: o.Repeats, LoadAverage: number(string(load)), AgentdArgs: o.AgentdArgs,
	}
	for _, w := range loads(o.Quick) {
		if !slices.Contains(o.Loads, w.Name) {
			continue
		}
		s := &session{Options: &o, Load: w, connect: target.Open}
		one, err := s.measure(ctx)
		r.Loads = append(r.Loads, one)
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
	return r, errors.Join(r.save(o.Dir), context.Cause(ctx))
}

// session measures one load.
type session struct {
	*Options
	*Load
	connect func(kind, url, key string) (target.Target, error)
	best    Setting
	limit   time.Duration // of one run of a server; 0: runLimit
}

func (s *session) say(format string, args ...any) {
	s.Log(s.Name + ": " + fmt.Sprintf(format, args...))
}

// measure measures a load. The result has what was measured before an error.
func (s *session) measure(ctx context.Context) (*Measured, error) {
	began := time.Now()
	m := &Measured{Load: s.Load, Figures: map[string]result.Value{}}
	defer func() { m.Seconds = time.Since(began).Seconds() }()
	s.say("model and trace")
	if err := s.prepare(ctx); err != nil {
		return m, err
	}
	m.Counts = s.counts
	if err := s.tune(ctx, m); err != nil {
		return m, err
	}
	return m, s.repeat(ctx, m)
}

// launch starts a server and gives its target.
func (s *session) launch(ctx context.Context, name string) (t target.Target, stop func() error, err error) {
	program, args := s.Agentd, s.agentdArgs(s.Options)
	switch name {
	case target.KindLlamaServer:
		program, args = s.LlamaServer, s.serverArgs(s.Options, s.best)
	case target.KindVLLM:
		program, args = s.VLLM, s.vllmArgs(s.Options)
	}
	server, err := start(ctx, name, program, args)
	if err != nil {
		return nil, nil, err
	}
	t, err = s.connect(name, server.url, "")
	if err != nil {
		return nil, nil, errors.Join(err, server.stop())
	}
	t = &watched{t, server.cmd.Process.Pid}
	return t, func() error { return errors.Join(t.Close(), server.stop()) }, nil
}

// sampleEvery is how often counters are read during a run.
const sampleEvery = time.Second

// run starts a server, warms it up, runs a trace, and writes the result to a file.
func (s *session) run(ctx context.Context, name string, trace *workload.Trace, file string) (r *result.Run, err error) {
	limit := cmp.Or(s.limit, runLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s took longer than %s", name, limit.Round(time.Second)))
	defer cancel()
	t, stop, err := s.launch(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	o := load.Options{Target: target.Options{FixedTokens: s.FixedTokens, MaxTokens: s.MaxTokens, Seed: 1}, SampleEvery: sampleEvery}
	for _, each := range []*workload.Trace{s.warm, trace} {
		if r, err = load.Run(ctx, t, each, o); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.Name, r.Host, r.Commit = name, s.Host, s.Commit
	if err := r.Save(filepath.Join(s.Dir, file+".json")); err != nil {
		return nil, err
	}
	if len(r.Summary.Failures) > 0 {
		return nil, fmt.Errorf("%s: requests failed: %s", name, strings.Join(r.Notes, "; "))
	}
	return r, nil
}

// repeat measures the servers in turns. What was measured before an error counts.
func (s *session) repeat(ctx context.Context, m *Measured) error {
	var runs []*result.Run
	err := s.turns(ctx, func(r *result.Run) { runs = append(runs, r) })
	if len(runs) == 0 {
		return err
	}
	for _, a := range result.Arms(runs) {
		metric := func(name string) result.Spread { return a.Spread(result.MetricNamed(name).Of) }
		*m.server(a.Name) = Server{
			Repeats: len(a.Runs), Decisions: metric(result.DecisionRate), TTFT: metric(result.TTFTp50), Width: metric(result.BatchWidth),
			Turn: metric(result.E2ELp50), TurnP99: metric(result.E2ELp99), Computed: metric(result.Computed),
			Memory: metric(result.MemoryPeak), CPU: metric(result.CPUSeconds),
		}
		if a.Name != target.KindAgentd {
			continue
		}
		// Without the prefix that the warm-up shares.
		computed := func(x *result.Summary) result.Value {
			return x.PromptComputed.Over(result.Known(float64(s.counts.UniqueTokens)))
		}
		m.Figures[rowComputed] = a.Spread(computed).Median
	}
	m.Figures[rowVLLM] = m.Agentd.Decisions.Median.Over(m.VLLM.Decisions.Median)
	m.Figures[rowServer] = m.Agentd.Decisions.Median.Over(m.Server.Decisions.Median)
	page := filepath.Join(s.Dir, s.Name+".svg")
	return errors.Join(err, result.WriteFile(page, func(w io.Writer) error { return report.WritePlots(w, runs) }))
}

// turns runs all repeats and passes on each run.
func (s *session) turns(ctx context.Context, done func(*result.Run)) error {
	for i := range s.Repeats {
		for _, name := range []string{target.KindAgentd, target.KindVLLM, target.KindLlamaServer} {
			if name == target.KindVLLM && (s.VLLM == "" || !s.vllm) {
				continue
			}
			r, err := s.run(ctx, name, s.trace, fmt.Sprintf("%s-%s-%d", s.Name, name, i+1))
			if err != nil {
				return err
			}
			done(r)
			s.say("%d of %d: %s %.2f decisions/s", i+1, s.Repeats, name, r.Summary.DecisionRate.X)
		}
	}
	return nil
}
