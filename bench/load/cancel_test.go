package load

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

func TestTheSameRequestsAreLeftInEveryRun(t *testing.T) {
	var last Progress
	left := func(seed uint64) (list []string, r Result) {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{takes: func(t *workload.Turn) time.Duration { return time.Duration(100+t.Agent) * msec }}
			r = must(t, f, trace(5, 20), Options{Cancel: 0.3, Seed: seed, WarmupTurns: 1, Progress: func(p Progress) { last = p }})
			for i, c := range times(r) {
				if r.Records[i].Failure == target.Cancelled {
					list = append(list, c)
				}
			}
		})
		return list, r
	}
	first, r := left(7)
	// Nobody failed.
	s := result.Summarize(result.Input{Records: r.Records})
	if s.Left != len(first) || len(s.Failures) > 0 || last.Left != len(first) || last.Failed > 0 {
		t.Errorf("%d of %d left, failures %v, progress %+v", s.Left, len(first), s.Failures, last)
	}
	again, _ := left(7)
	other, _ := left(8)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(first, other) {
		t.Error("another seed leaves the same requests")
	}
	if len(first) < 15 || len(first) > 45 || r.ToCancel < len(first) || r.Early != 0 {
		t.Errorf("%d of 95 left, %d were to be, %d early", len(first), r.ToCancel, r.Early)
	}
	for _, c := range r.Records {
		if c.Failure == target.Cancelled && (c.Warmup || c.Done-c.Sent > 105) {
			t.Errorf("%+v", c)
		}
	}
	if r.Examples[target.Cancelled] != errLeft.Error() {
		t.Errorf("examples %v", r.Examples)
	}
}

func TestWithoutAMedianNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(t, &fake{}, trace(50, 1), Options{Cancel: 0.9})
		if r.ToCancel < 30 || r.Early != r.ToCancel {
			t.Errorf("%d to be left, %d early", r.ToCancel, r.Early)
		}
		for _, c := range r.Records {
			if c.Failure != "" {
				t.Errorf("%+v", c)
			}
		}
	})
}

func TestTheShareAndThePartsAreRandom(t *testing.T) {
	c := canceller{share: 0.25, seed: 3}
	left, sum, n := 0, 0.0, 0
	for agent := range 100 {
		for turn := range 100 {
			part, leave := c.part(agent, turn)
			if n++; leave {
				left++
				sum += part
			}
		}
	}
	if share := float64(left) / float64(n); math.Abs(share-0.25) > 0.02 {
		t.Errorf("share %v", share)
	}
	if mean := sum / float64(left); math.Abs(mean-0.5) > 0.03 {
		t.Errorf("mean part %v", mean)
	}
}

func TestTheMedianIsOfTheNewestAnswers(t *testing.T) {
	var c canceller
	if c.median() != 0 {
		t.Error("a median of nothing")
	}
	for _, d := range []time.Duration{5, 1, 9} {
		c.answered(d)
	}
	if c.median() != 5 {
		t.Errorf("median %v, want 5", c.median())
	}
	for range recentLatencies {
		c.answered(70)
	}
	if c.median() != 70 {
		t.Errorf("median %v, want 70", c.median())
	}
}
