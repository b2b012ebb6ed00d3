package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// times are agent.turn, intended, sent and done of all records.
func times(records []result.Record) (list []string) {
	for _, c := range records {
		list = append(list, fmt.Sprintf("%d.%d %g %g %g", c.Agent, c.Turn, c.Intended, c.Sent, c.Done))
	}
	return list
}

func TestClosedLoopSendsAfterTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: func(t *workload.Turn) time.Duration { return time.Duration(10+10*t.Agent) * msec }}
		r := must(t, f, trace(2, 3), Options{})
		want := []string{"0.0 0 0 10", "1.0 0 0 20", "0.1 10 10 20", "1.1 20 20 40", "0.2 20 20 30", "1.2 40 40 60"}
		if diff := cmp.Diff(want, times(r.Records)); diff != "" {
			t.Error(diff)
		}
		if r.Interrupted != "" || len(r.Notes) > 0 || f.together != 2 || r.Load.String() != "2 agents" || r.Trace.Candidates != 18 {
			t.Errorf("%+v, %d together", r, f.together)
		}
		wantRecord := result.Record{Done: 10, TTFT: -1, Candidates: 3, OutputTokens: 12, PromptTokens: 100, ComputedTokens: 20}
		if diff := cmp.Diff(wantRecord, r.Records[0]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOpenLoopWaitsForNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: func(*workload.Turn) time.Duration { return time.Hour }}
		r := must(t, f, trace(2, 500), Options{Rate: 100, Target: target.Options{Seed: 1}})
		if f.together != 1000 || r.Load.String() != "100 requests/s" {
			t.Errorf("%d together, %s", f.together, r.Load)
		}
		if mean := r.Records[999].Intended / 999; math.Abs(mean-10) > 1 {
			t.Errorf("a mean gap of %g ms, want 10", mean)
		}
		again := must(t, &fake{}, trace(2, 500), Options{Rate: 100, Target: target.Options{Seed: 1}})
		if again.Records[999].Intended != r.Records[999].Intended {
			t.Error("the same seed gives other times")
		}
	})
}

func TestLatencyCountsFromTheIntendedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(_ *workload.Turn, a *target.Answer) { a.First = 3 * msec }}
		tr := trace(1, 1)
		r := &run{target: f, trace: tr, began: time.Now()}
		time.Sleep(70 * msec)
		r.send(t.Context(), &tr.Turns[0], 20*msec)
		if diff := cmp.Diff([]string{"0.0 20 70 80"}, times(r.records)); diff != "" {
			t.Fatal(diff)
		}
		if c := r.records[0]; c.TTFT != 53 {
			t.Errorf("%+v", c)
		}
	})
}

func TestFailedRequestsDoNotEndARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{
			fails: func(t *workload.Turn) error {
				if t.Turn == 0 {
					return &target.Failure{Kind: target.Refused, Status: 503, Err: fmt.Errorf("full, agent %d", t.Agent)}
				}
				return nil
			},
			answer: func(t *workload.Turn, a *target.Answer) {
				switch t.Turn {
				case 1:
					a.Copies = true
					a.Candidates[0].Failure, a.Candidates[1].Failure = "truncated", "truncated"
				case 2:
					a.Candidates = a.Candidates[:1]
				}
			},
		}
		r := must(t, f, trace(1, 3), Options{})
		none := result.Record{Candidates: 3, TTFT: -1, OutputTokens: -1, PromptTokens: -1, ComputedTokens: -1}
		want := []result.Record{none, none, none}
		for i := range want {
			want[i].Turn, want[i].Intended, want[i].Sent, want[i].Done = i, float64(10*i), float64(10*i), float64(10*i+10)
		}
		want[0].Failure, want[2].Failure = target.Refused, target.Contract
		want[1].OutputTokens, want[1].PromptTokens, want[1].ComputedTokens = 12, 100, 20
		want[1].Failures, want[1].Copies = map[string]int{"truncated": 2}, true
		if diff := cmp.Diff(want, r.Records); diff != "" {
			t.Error(diff)
		}
		wantNotes := []string{"contract, for example: contract: " + errCount.Error(), "refused, for example: refused: full, agent 0"}
		if diff := cmp.Diff(wantNotes, r.Notes); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnotherPromptEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := trace(2, 3)
		for i := range tr.Turns {
			tr.Turns[i].Prompt = "one two three"
		}
		tr.Turns[1].Prompt = "" // not rendered: not compared
		f := &fake{
			takes: func(t *workload.Turn) time.Duration { return time.Duration(10+t.Agent) * msec },
			answer: func(t *workload.Turn, a *target.Answer) {
				a.Prompt = "one two three"
				if t.Agent == 0 && t.Turn == 1 {
					a.Prompt = "one tvo"
				}
			},
		}
		r, err := Run(t.Context(), f, tr, Options{})
		if err == nil || !strings.Contains(err.Error(), `agent 0, turn 1: the server's prompt differs from the trace's at byte 5: "vo" instead of "wo three"`) {
			t.Fatalf("got %v", err)
		}
		if r.Interrupted != err.Error() || len(r.Records) != 4 || r.Records[3].Failure != target.Cancelled {
			t.Errorf("%+v", r)
		}
	})
}

func TestErrorsAndSignalsKeepWhatWasMeasured(t *testing.T) {
	inBubble(t, "a turn that can't be sent", func(t *testing.T) {
		boom := errors.New("not rendered")
		r, err := Run(t.Context(), &fake{fails: func(*workload.Turn) error { return boom }}, trace(1, 3), Options{})
		if !errors.Is(err, boom) || r.Interrupted != boom.Error() || len(r.Records) != 1 || r.Records[0].Failure != target.Contract {
			t.Errorf("%v, %+v", err, r)
		}
	})
	inBubble(t, "a signal during a request", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*msec)
		defer cancel()
		r, err := Run(ctx, &fake{counts: counted}, trace(1, 9), Options{})
		if err != nil || r.Interrupted != endInterrupted || len(r.Records) != 3 || r.Summary.Cancelled != 1 || len(r.Samples) != 2 {
			t.Errorf("%v, %+v", err, r)
		}
	})
	inBubble(t, "a signal while it waits", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*msec)
		defer cancel()
		r, err := Run(ctx, &fake{}, trace(1, 9), Options{Rate: 0.01})
		if err != nil || r.Interrupted != endInterrupted || len(r.Records) != 1 || r.Records[0].Failure != "" {
			t.Errorf("%v, %+v", err, r)
		}
	})
	if _, err := Run(t.Context(), &fake{}, &workload.Trace{}, Options{}); err == nil || !strings.Contains(err.Error(), "no turns") {
		t.Errorf("an empty trace: %v", err)
	}
}

func TestOptionsReachTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := target.Options{FixedTokens: 3, MaxTokens: 4, Greedy: true, Seed: 5}
		must(t, &fake{asked: func(_ *workload.Turn, o target.Options) {
			if o != want {
				t.Errorf("asked with %+v", o)
			}
		}}, trace(1, 1), Options{Target: want})
	})
}

func TestUniqueTokensAreThoseOfAnsweredTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := trace(1, 3)
		for i := range tr.Turns {
			tr.Turns[i].Tokens = []int32{1, 2, int32(10 + i)}
		}
		r := must(t, &fake{fails: func(t *workload.Turn) error {
			if t.Turn == 2 {
				return &target.Failure{Kind: target.Refused, Err: errCount}
			}
			return nil
		}}, tr, Options{})
		if r.Summary.PromptUnique != result.Known(4) {
			t.Errorf("got %v", r.Summary.PromptUnique)
		}
	})
}
