// Package load sends a trace to a server and measures it. In a closed loop an agent
// sends its next turn after the answer to the one before. In an open loop requests go
// out at random times, whatever became of earlier ones. Latency counts from when a
// request should be sent, so a server can't look better by delaying the load generator
// (coordinated omission; Tene, "How NOT to Measure Latency").
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// Options of a run.
type Options struct {
	Target target.Options

	// Rate is the mean rate of an open loop with Poisson arrivals, in requests a second.
	// 0 is a closed loop.
	Rate float64
	// SampleEvery is how often the server's counters are read; 0 is at both ends only.
	SampleEvery time.Duration
	// Bound is the bound of goodput on E2EL; 0: none.
	Bound time.Duration
}

// endInterrupted is the reason why no more requests were sent.
const endInterrupted = "interrupted"

// run is a run in progress.
type run struct {
	target target.Target
	trace  *workload.Trace
	o      Options
	began  time.Time
	stop   context.CancelCauseFunc // of all requests

	mu       sync.Mutex
	records  []result.Record
	end      string
	err      error             // that ended the run
	examples map[string]string // the first message of each kind of failure
}

// Run sends a trace and returns after the last answer. The run has no name, host and
// options yet. An error that occurs during the run comes with what was measured before;
// the end of ctx is not an error.
func Run(ctx context.Context, t target.Target, trace *workload.Trace, o Options) (*result.Run, error) {
	if len(trace.Turns) == 0 {
		return nil, errors.New("the trace has no turns")
	}
	hash, err := trace.Hash()
	if err != nil {
		return nil, err
	}
	server, err := t.Describe(ctx)
	if err != nil {
		return nil, fmt.Errorf("the server does not describe itself: %w; is it running, and of this kind?", err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &run{target: t, trace: trace, o: o, stop: stop, examples: map[string]string{}}
	s := &sampler{target: t, every: o.SampleEvery}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	r.began = s.began
	if o.Rate > 0 {
		r.open(ctx)
	} else {
		r.closed(ctx)
	}
	s.finish(ctx)
	if r.err == nil && ctx.Err() != nil {
		r.end = endInterrupted
	}
	slices.SortStableFunc(r.records, func(a, b result.Record) int {
		return cmp.Or(cmp.Compare(a.Intended, b.Intended), cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Agent, b.Agent))
	})
	got := &result.Run{
		Version: result.Version, Made: r.began, Model: trace.Model, Server: server,
		Trace:   result.Trace{Hash: hash, Agents: trace.Agents(), Turns: len(trace.Turns)},
		Load:    result.Load{Rate: o.Rate},
		Records: r.records, Samples: s.samples, Notes: r.notes(s),
	}
	if o.Rate == 0 {
		got.Load.Agents = got.Trace.Agents
	}
	for i := range trace.Turns {
		got.Trace.Candidates += trace.Turns[i].Candidates
	}
	switch {
	case r.err != nil:
		got.Interrupted = r.err.Error()
	case r.end == endInterrupted:
		got.Interrupted = endInterrupted
	}
	got.Summary = result.Summarize(got.Records, got.Samples, r.unique(), ms(o.Bound))
	return got, r.err
}

// unique is the number of unique prompt tokens of the answered requests.
func (r *run) unique() result.Value {
	if !r.trace.Rendered() {
		return result.Value{}
	}
	answered := map[[2]int]bool{}
	for i := range r.records {
		if r.records[i].Failure == "" {
			answered[[2]int{r.records[i].Agent, r.records[i].Turn}] = true
		}
	}
	turns := slices.DeleteFunc(slices.Clone(r.trace.Turns), func(t workload.Turn) bool { return !answered[[2]int{t.Agent, t.Turn}] })
	return result.Known(float64(workload.Count(turns, nil).UniqueTokens))
}

// notes returns what a reader of the figures must know.
func (r *run) notes(s *sampler) []string {
	var list []string
	if unsent := len(r.trace.Turns) - len(r.records); unsent > 0 {
		list = append(list, fmt.Sprintf("%d turns of the trace were not sent: %s", unsent, cmp.Or(r.end, "an error ended the run")))
	}
	for _, kind := range slices.Sorted(maps.Keys(r.examples)) {
		list = append(list, fmt.Sprintf("%s, for example: %s", kind, r.examples[kind]))
	}
	if s.failed > 0 {
		list = append(list, fmt.Sprintf("the server's counters could not be read %d times: %v", s.failed, s.err))
	}
	return list
}

// fail ends the run with its first error.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
		r.stop(err)
	}
}

// wait waits until an intended time. It returns false if the run ends first.
func (r *run) wait(ctx context.Context, until time.Duration) bool {
	if now := time.Since(r.began); until > now {
		timer := time.NewTimer(until - now)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// closed runs a closed loop: each agent sends its turns one after the other.
func (r *run) closed(ctx context.Context) {
	agents := make([][]*workload.Turn, r.trace.Agents())
	for k := range r.trace.Turns {
		t := &r.trace.Turns[k]
		agents[t.Agent] = append(agents[t.Agent], t)
	}
	var all sync.WaitGroup
	for _, turns := range agents {
		all.Go(func() {
			intended := time.Duration(0)
			for _, t := range turns {
				if !r.wait(ctx, intended) {
					return
				}
				r.send(ctx, t, intended)
				intended = time.Since(r.began)
			}
		})
	}
	all.Wait()
}

// open runs an open loop with Poisson arrivals, in the order of the trace.
func (r *run) open(ctx context.Context) {
	rng := rand.New(rand.NewPCG(r.o.Target.Seed, 0))
	var all sync.WaitGroup
	at := 0.0 // seconds
	for k := range r.trace.Turns {
		intended := time.Duration(at * float64(time.Second))
		if !r.wait(ctx, intended) {
			break
		}
		all.Go(func() { r.send(ctx, &r.trace.Turns[k], intended) })
		at += rng.ExpFloat64() / r.o.Rate
	}
	all.Wait()
}

var errCount = errors.New("the answer has another number of candidates than requested")

// send sends one turn and records the result.
func (r *run) send(ctx context.Context, t *workload.Turn, intended time.Duration) {
	sent := time.Since(r.began)
	answer, err := r.target.Ask(ctx, t, r.o.Target)
	record := result.Record{
		Agent: t.Agent, Turn: t.Turn, Candidates: t.Candidates,
		Intended: ms(intended), Sent: ms(sent), Done: ms(time.Since(r.began)),
		TTFT: -1, OutputTokens: -1, PromptTokens: -1, ComputedTokens: -1,
	}
	if err == nil && len(answer.Candidates) != t.Candidates {
		err = &target.Failure{Kind: target.Contract, Err: errCount}
	}
	if err == nil {
		fill(&record, &answer, sent-intended)
		if mismatch := compare(t, answer.Prompt); mismatch != nil {
			r.fail(mismatch)
		}
		r.record(record, "")
		return
	}
	message := ""
	switch f, ok := errors.AsType[*target.Failure](err); {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		record.Failure = target.Cancelled
	case ok:
		record.Failure, message = f.Kind, f.Error()
	default: // the turn can't be sent at all
		r.fail(err)
		record.Failure = target.Contract
	}
	r.record(record, message)
}

// fill copies an answer's numbers into its record. late is the delay before sending.
func fill(r *result.Record, a *target.Answer, late time.Duration) {
	if a.First >= 0 {
		r.TTFT = ms(late + a.First)
	}
	r.OutputTokens, r.PromptTokens, r.ComputedTokens, r.Copies = a.OutputTokens, a.PromptTokens, a.ComputedTokens, a.Copies
	for _, c := range a.Candidates {
		if c.Failure == "" {
			continue
		}
		if r.Failures == nil {
			r.Failures = map[string]int{}
		}
		r.Failures[c.Failure]++
	}
}

// compare compares the server's prompt with the trace's, if both are known.
func compare(t *workload.Turn, got string) error {
	if got == "" || t.Prompt == "" || got == t.Prompt {
		return nil
	}
	at := 0
	for at < len(got) && at < len(t.Prompt) && got[at] == t.Prompt[at] {
		at++
	}
	return fmt.Errorf("agent %d, turn %d: the server's prompt differs from the trace's at byte %d: %q instead of %q; render the trace with the server's model, and run the server with default prompt options",
		t.Agent, t.Turn, at, excerpt(got, at), excerpt(t.Prompt, at))
}

const excerptBytes = 60

func excerpt(text string, at int) string { return text[at:min(len(text), at+excerptBytes)] }

// record keeps a record, and the first message of its kind of failure.
func (r *run) record(record result.Record, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, record)
	if _, has := r.examples[record.Failure]; !has && message != "" {
		r.examples[record.Failure] = message
	}
}

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
