package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// Reasons for the end of a run.
const (
	EndTrace        = "trace" // all its turns were sent
	EndRequests     = "requests"
	EndOutputTokens = "output tokens"
	EndDuration     = "duration"
	EndInterrupted  = "interrupted"
	EndError        = "error"
)

// Result is what a run gave.
type Result struct {
	Began   time.Time
	Elapsed time.Duration // to the last answer
	// Records of all requests that were sent, in the order of their intended times.
	Records []result.Record
	Samples []result.Sample
	// Before and After are the server's counters at the beginning and the end; nil
	// when it tells none.
	Before, After *target.Counters
	// SampleErrors counts readings that failed; SampleError is the last one.
	SampleErrors int
	SampleError  error
	// End is why no more was sent, Unsent how many turns of the trace were not.
	End    string
	Unsent int
	// ToCancel requests were to be left; Early ones of them were sent before any
	// answer had told the median latency, and so were not. The rest have the failure
	// "cancelled" or were answered first.
	ToCancel, Early int
	// Examples are the first message of each kind of failure.
	Examples map[string]string
}

// MismatchError says that a server gave the model another prompt than the trace
// has, so that what was measured is not what was to be measured.
type MismatchError struct {
	Agent, Turn int
	At          int    // the first byte that differs
	Want, Got   string // from there on, shortened
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("agent %d, turn %d: the server's prompt differs from the trace's at byte %d: %q where the trace has %q; render the trace with the model that the server runs, and its options",
		e.Agent, e.Turn, e.At, e.Got, e.Want)
}

// run is one run in progress.
type run struct {
	target target.Target
	trace  *workload.Trace
	o      Options
	began  time.Time
	stop   context.CancelCauseFunc // of all requests

	mu       sync.Mutex
	r        Result
	order    []int // of r.Records: their turns in the trace
	progress Progress
	cancels  canceller
	err      error // that ended the run
	late     bool  // a turn was not sent because its time lies beyond the duration
}

// Run sends a trace to a server. It returns when all that was sent has been
// answered. The error is that of the options, of a server whose counters can't be
// read at the beginning, of a turn that can't be asked, a *[MismatchError], or the
// context's cause; the result then holds what there was until then.
func Run(ctx context.Context, t target.Target, trace *workload.Trace, o Options) (Result, error) {
	if err := o.fill(trace); err != nil {
		return Result{}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &run{target: t, trace: trace, o: o, stop: stop, cancels: canceller{share: o.Cancel, seed: o.Seed}}
	r.r.Examples = map[string]string{}
	r.progress.Total = len(trace.Turns)
	if o.Requests > 0 {
		r.progress.Total = min(r.progress.Total, o.Requests)
	}

	s := &sampler{target: t, every: o.SampleEvery}
	if err := s.begin(ctx); err != nil {
		return Result{}, err
	}
	r.began = time.Now()
	r.r.Began = r.began
	s.start(ctx, r.began)
	if o.Arrival == Closed {
		r.closed(ctx)
	} else {
		r.open(ctx)
	}
	r.r.Elapsed = time.Since(r.began)
	s.finish(ctx)
	return r.result(ctx, s)
}

// result finishes the result.
func (r *run) result(ctx context.Context, s *sampler) (Result, error) {
	out := &r.r
	out.Unsent = len(r.trace.Turns) - r.progress.Sent
	out.Before, out.After, out.Samples, out.SampleErrors, out.SampleError = s.before, s.after, s.samples, s.failed, s.err
	byTime := make([]int, len(out.Records))
	for i := range byTime {
		byTime[i] = i
	}
	slices.SortFunc(byTime, func(a, b int) int {
		return cmp.Or(cmp.Compare(out.Records[a].Intended, out.Records[b].Intended), cmp.Compare(r.order[a], r.order[b]))
	})
	sorted := make([]result.Record, len(byTime))
	for i, k := range byTime {
		sorted[i] = out.Records[k]
	}
	out.Records = sorted
	err := r.err
	switch {
	case err != nil:
		out.End = EndError
	case ctx.Err() != nil:
		err, out.End = context.Cause(ctx), EndInterrupted
	case out.End != "":
	case r.late:
		out.End = EndDuration
	default:
		out.End = EndTrace
	}
	return *out, err
}

// fail ends the run with an error, the first one.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
		r.stop(err)
	}
}

// may reports whether a turn may still be sent, and counts it as sent.
func (r *run) may(ctx context.Context) bool {
	elapsed := time.Since(r.began)
	r.mu.Lock()
	defer r.mu.Unlock()
	var end string
	switch {
	case ctx.Err() != nil:
		return false
	case r.r.End != "":
		return false
	case r.o.Requests > 0 && r.progress.Sent >= r.o.Requests:
		end = EndRequests
	case r.o.OutputTokens > 0 && r.progress.OutputTokens >= r.o.OutputTokens:
		end = EndOutputTokens
	case r.o.Duration > 0 && elapsed >= r.o.Duration:
		end = EndDuration
	default:
		r.progress.Sent++
		return true
	}
	r.r.End = end
	return false
}

// closed lets the agents send their turns one after the other.
func (r *run) closed(ctx context.Context) {
	agents := agents(r.trace)
	width := len(agents)
	if r.o.Concurrency > 0 {
		width = min(width, r.o.Concurrency)
	}
	next := make(chan []int, len(agents)-width)
	for _, turns := range agents[width:] {
		next <- turns
	}
	close(next)
	var all sync.WaitGroup
	for i := range width {
		all.Go(func() {
			intended := r.o.Ramp * time.Duration(i) / time.Duration(width)
			for turns, more := agents[i], true; more; turns, more = <-next {
				for _, k := range turns {
					intended += time.Duration(r.trace.Turns[k].Think)
					if !r.wait(ctx, intended) || !r.may(ctx) {
						return // until the end, the agent thinks
					}
					r.send(ctx, k, intended)
					intended = time.Since(r.began)
				}
			}
		})
	}
	all.Wait()
}

// agents are the turns of each agent in their order, indices into the trace; the
// agents in the order of their first turns.
func agents(trace *workload.Trace) [][]int {
	var list [][]int
	place := map[int]int{}
	for k := range trace.Turns {
		agent := trace.Turns[k].Agent
		i, known := place[agent]
		if !known {
			i = len(list)
			place[agent] = i
			list = append(list, nil)
		}
		list[i] = append(list[i], k)
	}
	for _, turns := range list {
		slices.SortStableFunc(turns, func(a, b int) int { return cmp.Compare(trace.Turns[a].Turn, trace.Turns[b].Turn) })
	}
	return list
}

// open sends each turn at its time.
func (r *run) open(ctx context.Context) {
	order, at := schedule(r.trace, &r.o)
	var all sync.WaitGroup
	for i, k := range order {
		if !r.wait(ctx, at[i]) || !r.may(ctx) {
			break
		}
		all.Go(func() { r.send(ctx, k, at[i]) })
	}
	all.Wait()
}

// wait waits until a time of the run; false when the run ends first. A time
// beyond the run's duration is not waited for.
func (r *run) wait(ctx context.Context, until time.Duration) bool {
	if limit := r.o.Duration; limit > 0 && until >= limit {
		r.mu.Lock()
		r.late = true // the other agents go on until then
		r.mu.Unlock()
		return false
	}
	left := until - time.Since(r.began)
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
