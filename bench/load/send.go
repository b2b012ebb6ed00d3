package load

import (
	"context"
	"errors"
	"time"

	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// Causes for the end of a request's context.
var (
	errTimeout = errors.New("the request's time was up (timeout)")
	errLeft    = errors.New("the harness left the request on purpose")
)

// send asks one turn and records what became of it.
func (r *run) send(ctx context.Context, k int, intended time.Duration) {
	t := &r.trace.Turns[k]
	warmup := t.Turn < r.o.WarmupTurns || intended < r.o.Warmup
	request, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.o.Timeout > 0 {
		timer := time.AfterFunc(r.o.Timeout, func() { cancel(errTimeout) })
		defer timer.Stop()
	}
	if after, leave := r.leave(t, warmup); leave {
		timer := time.AfterFunc(after, func() { cancel(errLeft) })
		defer timer.Stop()
	}
	sent := time.Since(r.began)
	answer, err := r.target.Ask(request, t, r.o.Target)
	done := time.Since(r.began)

	record := result.Record{
		Agent: t.Agent, Turn: t.Turn, Warmup: warmup, Candidates: t.Candidates,
		Intended: ms(intended), Sent: ms(sent), Done: ms(done),
		Queue: -1, TTFT: -1, OutputTokens: -1, PromptTokens: -1, ComputedTokens: -1,
	}
	if err == nil && len(answer.Candidates) != t.Candidates {
		err = &target.Failure{Kind: target.Contract, Err: errCount}
	}
	var example string
	if err == nil {
		fill(&record, &answer, sent-intended)
		if mismatch := compare(t, answer.Prompt); mismatch != nil {
			r.fail(mismatch)
		}
		if r.o.OutputTokens > 0 && answer.OutputTokens < 0 {
			r.fail(errUncounted)
		}
	} else if record.Failure, record.Status, example = classify(request, err); record.Failure == "" {
		r.fail(err)
		record.Failure = target.Contract
	}
	r.record(k, record, done-intended, example)
}

var (
	errCount     = errors.New("the answer has another number of candidates than were asked for")
	errUncounted = errors.New("output tokens are limited, but the server does not say how many it gave; use another limit")
)

// leave is after what time a request is left, if it is.
func (r *run) leave(t *workload.Turn, warmup bool) (after time.Duration, leave bool) {
	part, leave := r.cancels.part(t.Agent, t.Turn)
	if !leave || warmup {
		return 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.r.ToCancel++
	median := r.cancels.median()
	if median == 0 {
		r.r.Early++
		return 0, false
	}
	return time.Duration(part * float64(median)), true
}

// classify is the kind of failure of a request, its HTTP status and message; ""
// when the turn can't be asked at all.
func classify(request context.Context, err error) (kind string, status int, message string) {
	if ctxErr := request.Err(); ctxErr != nil && errors.Is(err, ctxErr) {
		cause := context.Cause(request)
		if errors.Is(cause, errTimeout) {
			return target.TimedOut, 0, cause.Error()
		}
		return target.Cancelled, 0, cause.Error()
	}
	var f *target.Failure
	if errors.As(err, &f) {
		return f.Kind, f.Status, f.Error()
	}
	return "", 0, ""
}

// fill takes an answer's numbers into its record. late is how much later than
// intended the request was sent.
func fill(r *result.Record, a *target.Answer, late time.Duration) {
	if a.Queue >= 0 {
		r.Queue = ms(late + a.Queue)
	}
	if a.First >= 0 {
		r.TTFT = ms(late + a.First)
	}
	for _, gap := range a.Gaps {
		r.Gaps = append(r.Gaps, ms(gap))
	}
	r.OutputTokens, r.PromptTokens, r.ComputedTokens, r.Copies = a.OutputTokens, a.PromptTokens, a.ComputedTokens, a.Copies
	texts := map[string]bool{}
	for i := range a.Candidates {
		c := &a.Candidates[i]
		if c.Failure == "" {
			texts[c.Text] = true
			continue
		}
		if r.Failures == nil {
			r.Failures = map[string]int{}
		}
		r.Failures[c.Failure]++
	}
	r.Distinct = len(texts)
}

// compare holds the server's prompt against the trace's, where both are known.
func compare(t *workload.Turn, got string) error {
	if got == "" || t.Prompt == "" || got == t.Prompt {
		return nil
	}
	at := 0
	for at < len(got) && at < len(t.Prompt) && got[at] == t.Prompt[at] {
		at++
	}
	return &MismatchError{Agent: t.Agent, Turn: t.Turn, At: at, Want: excerpt(t.Prompt, at), Got: excerpt(got, at)}
}

// excerpt is what a text has from a place on, at most excerptBytes.
func excerpt(text string, at int) string { return text[at:min(len(text), at+excerptBytes)] }

const excerptBytes = 60

// record keeps a record and tells the progress.
func (r *run) record(k int, record result.Record, latency time.Duration, example string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.r.Records = append(r.r.Records, record)
	r.order = append(r.order, k)
	if record.Failure != "" {
		if record.Failure == result.Left {
			r.progress.Left++
		} else {
			r.progress.Failed++
		}
		if _, has := r.r.Examples[record.Failure]; !has && example != "" {
			r.r.Examples[record.Failure] = example
		}
	} else {
		r.progress.Answered++
		r.progress.OutputTokens += max(0, record.OutputTokens)
		r.cancels.answered(latency)
	}
	if r.o.Progress != nil {
		p := r.progress
		p.Elapsed = time.Since(r.began)
		r.o.Progress(p)
	}
}

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
