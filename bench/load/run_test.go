package load

import (
	"context"
	"errors"
	"fmt"
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
func times(r Result) (list []string) {
	for _, c := range r.Records {
		list = append(list, fmt.Sprintf("%d.%d %g %g %g", c.Agent, c.Turn, c.Intended, c.Sent, c.Done))
	}
	return list
}

func TestAClosedLoopSendsWhenTheLastWasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := trace(2, 3)
		tr.Turns[3].Think = workload.Millis(5 * msec) // agent 1, turn 1
		f := &fake{takes: func(t *workload.Turn) time.Duration { return time.Duration(10+10*t.Agent) * msec }}
		r := must(t, f, tr, Options{})
		want := []string{
			"0.0 0 0 10", "1.0 0 0 20", "0.1 10 10 20", "0.2 20 20 30", "1.1 25 25 45", "1.2 45 45 65",
		}
		if diff := cmp.Diff(want, times(r)); diff != "" {
			t.Error(diff)
		}
		if r.End != EndTrace || r.Unsent != 0 || r.Elapsed != 65*msec || f.together != 2 {
			t.Errorf("%+v, %d together", r, f.together)
		}
		wantRecord := result.Record{Done: 10, Queue: -1, TTFT: -1, Candidates: 3, Distinct: 2, OutputTokens: 12, PromptTokens: 100, ComputedTokens: 20}
		if diff := cmp.Diff(wantRecord, r.Records[0]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFewerAgentsAtATimeFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		r := must(t, f, trace(3, 2), Options{Concurrency: 2})
		want := []string{"0.0 0 0 10", "1.0 0 0 10", "0.1 10 10 20", "1.1 10 10 20", "2.0 20 20 30", "2.1 30 30 40"}
		if diff := cmp.Diff(want, times(r)); diff != "" || f.together != 2 {
			t.Errorf("%d together: %s", f.together, diff)
		}
	})
}

func TestAgentsStartOverTheRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(t, &fake{}, trace(4, 1), Options{Ramp: 100 * msec})
		if diff := cmp.Diff([]string{"0.0 0 0 10", "1.0 25 25 35", "2.0 50 50 60", "3.0 75 75 85"}, times(r)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnOpenLoopWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: func(*workload.Turn) time.Duration { return time.Second }}
		r := must(t, f, trace(2, 2), Options{Arrival: Constant, Rate: 100})
		want := []string{"0.0 0 0 1000", "1.0 10 10 1010", "0.1 20 20 1020", "1.1 30 30 1030"}
		if diff := cmp.Diff(want, times(r)); diff != "" || f.together != 4 {
			t.Errorf("%d together: %s", f.together, diff)
		}
	})
}

// TestLatencyCountsFromTheIntendedTime: a harness that is held up sends late, and
// what the server says of its queue and first token comes on top.
func TestLatencyCountsFromTheIntendedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(_ *workload.Turn, a *target.Answer) {
			a.Queue, a.First, a.Gaps = 2*msec, 3*msec, []time.Duration{msec, 4 * msec}
		}}
		r := &run{target: f, trace: trace(1, 1), began: time.Now()}
		time.Sleep(70 * msec)
		r.send(t.Context(), 0, 20*msec)
		if diff := cmp.Diff([]string{"0.0 20 70 80"}, times(r.r)); diff != "" {
			t.Fatal(diff)
		}
		if c := r.r.Records[0]; c.Queue != 52 || c.TTFT != 53 || !cmp.Equal(c.Gaps, []float64{1, 4}) {
			t.Errorf("%+v", c)
		}
	})
}

func TestRecordedTimesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := trace(3, 1)
		for i, at := range []time.Duration{30 * msec, 0, 5 * msec} {
			tr.Turns[i].At = workload.Millis(at)
		}
		r := must(t, &fake{}, tr, Options{Arrival: Recorded})
		if diff := cmp.Diff([]string{"1.0 0 0 10", "2.0 5 5 15", "0.0 30 30 40"}, times(r)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestLimits(t *testing.T) {
	for _, test := range []struct {
		name   string
		o      Options
		sent   int
		end    string
		unsent int
	}{
		{"requests", Options{Requests: 5}, 5, EndRequests, 7},
		{"as many requests as there are", Options{Requests: 12}, 12, EndTrace, 0},
		{"output tokens: what runs then is waited for", Options{OutputTokens: 30}, 4, EndOutputTokens, 8},
		{"duration: what runs then is waited for", Options{Duration: 15 * msec}, 3, EndDuration, 9},
		{"duration of an open loop", Options{Duration: 15 * msec, Arrival: Constant, Rate: 200}, 3, EndDuration, 9},
		{"requests of an open loop", Options{Requests: 2, Arrival: Constant, Rate: 1000}, 2, EndRequests, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last Progress
				test.o.Progress = func(p Progress) { last = p }
				f := &fake{takes: func(t *workload.Turn) time.Duration { return time.Duration(10+6*t.Agent) * msec }}
				r := must(t, f, trace(2, 6), test.o)
				if len(r.Records) != test.sent || r.End != test.end || r.Unsent != test.unsent {
					t.Errorf("%d records, end %q, %d unsent", len(r.Records), r.End, r.Unsent)
				}
				total := 12
				if test.o.Requests > 0 {
					total = test.o.Requests
				}
				if want := (Progress{Sent: test.sent, Answered: test.sent, Total: total, OutputTokens: 12 * test.sent, Elapsed: r.Elapsed}); last != want {
					t.Errorf("progress %+v, want %+v", last, want)
				}
			})
		})
	}
}

// TestAnAgentThatThinksBeyondTheEndHoldsUpNobody: the others go on until the end.
func TestAnAgentThatThinksBeyondTheEndHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := trace(2, 3)
		tr.Turns[2].Think = workload.Millis(time.Hour) // agent 0, turn 1
		r := must(t, &fake{}, tr, Options{Duration: time.Minute})
		if diff := cmp.Diff([]string{"0.0 0 0 10", "1.0 0 0 10", "1.1 10 10 20", "1.2 20 20 30"}, times(r)); diff != "" || r.End != EndDuration || r.Unsent != 2 {
			t.Errorf("end %q, %d unsent: %s", r.End, r.Unsent, diff)
		}
	})
}

func TestWarmupIsMarked(t *testing.T) {
	for name, test := range map[string]struct {
		o    Options
		want string
	}{
		"by turns": {Options{WarmupTurns: 2}, "0.0 1.0 0.1 1.1"},
		"by time":  {Options{Warmup: 15 * msec}, "0.0 1.0 0.1 1.1"},
		"by both":  {Options{WarmupTurns: 1, Warmup: 25 * msec}, "0.0 1.0 0.1 1.1 0.2 1.2"},
		"none":     {Options{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var marked []string
				for _, c := range must(t, &fake{}, trace(2, 4), test.o).Records {
					if c.Warmup {
						marked = append(marked, fmt.Sprintf("%d.%d", c.Agent, c.Turn))
					}
				}
				if got := strings.Join(marked, " "); got != test.want {
					t.Errorf("marked %s, want %s", got, test.want)
				}
			})
		})
	}
}

func TestFailuresAreRecordsAndTheRunGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{
			takes: func(t *workload.Turn) time.Duration {
				if t.Turn == 2 {
					return time.Hour
				}
				return 10 * msec
			},
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
				case 3:
					a.Candidates = a.Candidates[:1]
				}
			},
		}
		r := must(t, f, trace(1, 5), Options{Timeout: 100 * msec})
		none := result.Record{Candidates: 3, Queue: -1, TTFT: -1, OutputTokens: -1, PromptTokens: -1, ComputedTokens: -1}
		want := make([]result.Record, 5)
		for i := range want {
			want[i] = none
			want[i].Turn = i
		}
		want[0].Failure, want[0].Status, want[0].Done = target.Refused, 503, 10
		want[2].Failure, want[3].Failure = target.TimedOut, target.Contract
		for _, i := range []int{1, 4} {
			want[i].Distinct, want[i].OutputTokens, want[i].PromptTokens, want[i].ComputedTokens = 2, 12, 100, 20
		}
		want[1].Distinct, want[1].Failures, want[1].Copies = 1, map[string]int{"truncated": 2}, true
		for i, at := range [][2]float64{{0, 10}, {10, 20}, {20, 120}, {120, 130}, {130, 140}} {
			want[i].Intended, want[i].Sent, want[i].Done = at[0], at[0], at[1]
		}
		if diff := cmp.Diff(want, r.Records); diff != "" {
			t.Error(diff)
		}
		wantExamples := map[string]string{target.Refused: "refused: full, agent 0", target.TimedOut: errTimeout.Error(), target.Contract: "contract: " + errCount.Error()}
		if diff := cmp.Diff(wantExamples, r.Examples); diff != "" {
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
		var got *MismatchError
		if !errors.As(err, &got) || *got != (MismatchError{Agent: 0, Turn: 1, At: 5, Want: "wo three", Got: "vo"}) || !strings.Contains(err.Error(), "agent 0, turn 1") {
			t.Fatalf("got %v", err)
		}
		if r.End != EndError || r.Unsent != 2 || len(r.Records) != 4 || r.Records[3].Failure != target.Cancelled {
			t.Errorf("%+v", r)
		}
	})
}

func TestWhatEndsARun(t *testing.T) {
	inBubble(t, "a turn that can't be asked", func(t *testing.T) {
		boom := errors.New("not rendered")
		r, err := Run(t.Context(), &fake{fails: func(*workload.Turn) error { return boom }}, trace(1, 3), Options{})
		if !errors.Is(err, boom) || r.End != EndError || len(r.Records) != 1 || r.Records[0].Failure != target.Contract {
			t.Errorf("%v, %+v", err, r)
		}
	})
	inBubble(t, "output tokens that are limited and not told", func(t *testing.T) {
		_, err := Run(t.Context(), &fake{answer: func(_ *workload.Turn, a *target.Answer) { a.OutputTokens = -1 }}, trace(1, 3), Options{OutputTokens: 5})
		if !errors.Is(err, errUncounted) {
			t.Error(err)
		}
	})
	inBubble(t, "an interruption", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*msec)
		defer cancel()
		r, err := Run(ctx, &fake{}, trace(1, 9), Options{})
		if !errors.Is(err, context.DeadlineExceeded) || r.End != EndInterrupted || len(r.Records) != 3 || r.Records[2].Failure != target.Cancelled || r.Unsent != 6 {
			t.Errorf("%v, %+v", err, r)
		}
	})
	inBubble(t, "an interruption with a cause", func(t *testing.T) {
		signal := errors.New("signal")
		ctx, cancel := context.WithCancelCause(t.Context())
		f := &fake{asked: func(*workload.Turn, target.Options) { cancel(signal) }}
		r, err := Run(ctx, f, trace(1, 9), Options{})
		if !errors.Is(err, signal) || r.End != EndInterrupted || len(r.Records) != 1 || r.Examples[target.Cancelled] != "signal" {
			t.Errorf("%v, %+v", err, r)
		}
	})
	inBubble(t, "an interruption while it waits", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*msec)
		defer cancel()
		r, err := Run(ctx, &fake{}, trace(1, 9), Options{Arrival: Constant, Rate: 1})
		if !errors.Is(err, context.DeadlineExceeded) || r.End != EndInterrupted || len(r.Records) != 1 || r.Records[0].Failure != "" {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

func TestTheTargetsOptionsArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := target.Options{FixedTokens: 3, MaxTokens: 4, Greedy: true, Seed: 5, Stream: true}
		must(t, &fake{asked: func(_ *workload.Turn, o target.Options) {
			if o != want {
				t.Errorf("asked with %+v", o)
			}
		}}, trace(1, 1), Options{Target: want})
	})
}

func TestOptionsThatAreRefused(t *testing.T) {
	recorded := trace(2, 1)
	recorded.Turns[0].At = -1
	for _, test := range []struct {
		o    Options
		tr   *workload.Trace
		says []string
	}{
		{o: Options{Arrival: "burst"}, says: []string{`arrival "burst": use closed, constant, poisson, gamma or recorded`}},
		{o: Options{Arrival: Poisson}, says: []string{"rate is 0; arrival poisson needs"}},
		{o: Options{Arrival: Constant, Rate: 1e9}, says: []string{"at most 1e+06"}},
		{o: Options{Rate: 2}, says: []string{"arrival closed has none"}},
		{o: Options{Arrival: Gamma, Rate: 2}, says: []string{"shape is 0; arrival gamma needs"}},
		{o: Options{Arrival: Poisson, Rate: 2, Shape: 1, Ramp: 1, Concurrency: 1}, says: []string{"only arrival gamma", "only the closed loop has agents", "concurrency is 1"}},
		{o: Options{Cancel: 1}, says: []string{"cancel is 1"}},
		{o: Options{Concurrency: -1, WarmupTurns: -1, Requests: -1, OutputTokens: -1}, says: []string{"concurrency is -1", "warmup turns is", "requests is", "output tokens is"}},
		{o: Options{Ramp: -1, Warmup: -1, Duration: -1, Timeout: -1, SampleEvery: -1}, says: []string{"ramp is -1ns", "warmup is", "duration is", "timeout is", "sample interval is"}},
		{o: Options{}, tr: &workload.Trace{}, says: []string{"the trace has no turns"}},
		{o: Options{Arrival: Recorded}, tr: trace(2, 1), says: []string{"no recorded times"}},
		{o: Options{Arrival: Recorded}, tr: recorded, says: []string{"turn 0 of agent 0"}},
	} {
		if test.tr == nil {
			test.tr = trace(1, 1)
		}
		_, err := Run(t.Context(), &fake{}, test.tr, test.o)
		for _, says := range test.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
	}
}
