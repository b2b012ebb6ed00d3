package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
)

// counted is the n-th reading of a server that counts evenly.
func counted(n int) (target.Counters, error) {
	x := float64(n)
	return target.Counters{Prefilled: 10 * x, Cached: 30 * x, Generated: 5 * x, Steps: 2 * x, Rows: 8 * x, CellsUsed: 100 + x, Running: x, Waiting: 1,
		Phases: map[string]float64{"decode": x}}, nil
}

func TestCountersAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{counts: counted, takes: func(*workload.Turn) time.Duration { return 45 * msec }}
		r := must(t, f, trace(1, 1), Options{SampleEvery: 20 * msec})
		want := []result.Sample{
			{At: 0, Running: 1, Waiting: 1, CellsUsed: 101, Width: -1, CacheHits: -1}, // nothing came before
			{At: 20, Running: 2, Waiting: 1, CellsUsed: 102, Width: 4, CacheHits: 0.75},
			{At: 40, Running: 3, Waiting: 1, CellsUsed: 103, Width: 4, CacheHits: 0.75},
			{At: 45, Running: 4, Waiting: 1, CellsUsed: 104, Width: 4, CacheHits: 0.75},
		}
		if diff := cmp.Diff(want, r.Samples); diff != "" {
			t.Error(diff)
		}
		if r.Before.Generated != 5 || r.After.Generated != 20 || r.After.Phases["decode"] != 4 || r.SampleErrors != 0 {
			t.Errorf("before %+v, after %+v, %d errors", r.Before, r.After, r.SampleErrors)
		}
	})
}

func TestWithoutAnIntervalTheEndsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{counts: counted}
		r := must(t, f, trace(1, 3), Options{})
		if len(r.Samples) != 2 || r.Samples[1].At != 30 || r.After == nil || f.readings != 2 {
			t.Errorf("%+v, %d readings", r.Samples, f.readings)
		}
	})
}

func TestAServerWithoutCountersHasNoSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(t, &fake{}, trace(1, 3), Options{SampleEvery: msec})
		if r.Samples != nil || r.Before != nil || r.After != nil || r.SampleErrors != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestReadingsThatFail(t *testing.T) {
	boom := errors.New("boom")
	inBubble(t, "the first one ends the run before it begins", func(t *testing.T) {
		f := &fake{counts: func(int) (target.Counters, error) { return target.Counters{}, boom }}
		if _, err := Run(t.Context(), f, trace(1, 1), Options{}); !errors.Is(err, boom) || len(f.order) > 0 {
			t.Errorf("%v, asked %v", err, f.order)
		}
	})
	inBubble(t, "others are counted", func(t *testing.T) {
		r := must(t, &fake{counts: func(n int) (target.Counters, error) {
			if n > 1 {
				return target.Counters{}, boom
			}
			return counted(n)
		}}, trace(1, 3), Options{SampleEvery: 20 * msec})
		if len(r.Samples) != 1 || r.SampleErrors != 2 || !errors.Is(r.SampleError, boom) || r.After != nil {
			t.Errorf("%+v", r)
		}
	})
	inBubble(t, "an interrupted run is counted to its end", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*msec)
		defer cancel()
		r, err := Run(ctx, &fake{counts: counted}, trace(1, 9), Options{})
		if !errors.Is(err, context.DeadlineExceeded) || r.After == nil || len(r.Samples) != 2 {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

func TestWhatIsNotToldIsNotSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			second target.Counters
			want   result.Sample
		}{
			"unknown numbers":           {target.Counters{Steps: 9, Rows: -1, Cached: 9, Prefilled: -1, CellsUsed: -1}, result.Sample{At: 10, CellsUsed: -1, Width: -1, CacheHits: -1}},
			"a server that began anew":  {target.Counters{Steps: 1, Rows: 1, Cached: 1, Prefilled: 1}, result.Sample{At: 10, Width: -1, CacheHits: -1}},
			"a server that did nothing": {target.Counters{Steps: 5, Rows: 5, Cached: 5, Prefilled: 5}, result.Sample{At: 10, Width: -1, CacheHits: -1}},
		} {
			r := must(t, &fake{counts: func(n int) (target.Counters, error) {
				if n == 1 {
					return target.Counters{Steps: 5, Rows: 5, Cached: 5, Prefilled: 5}, nil
				}
				return test.second, nil
			}}, trace(1, 1), Options{})
			if diff := cmp.Diff(test.want, r.Samples[1]); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
}
