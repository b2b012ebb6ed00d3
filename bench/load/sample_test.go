package load

import (
	"errors"
	"strings"
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
	return target.Counters{Prefilled: 10 * x, Steps: 2 * x, Rows: 8 * x, CellsUsed: 100 + x, Phases: map[string]float64{"decode": x}}, nil
}

func TestCountersAreSampledUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{counts: counted, takes: func(*workload.Turn) time.Duration { return 45 * msec }}
		r := must(t, f, trace(1, 1), Options{SampleEvery: 20 * msec})
		var at []float64
		for _, s := range r.Samples {
			at = append(at, s.At)
		}
		if diff := cmp.Diff([]float64{0, 20, 40, 45}, at); diff != "" || r.Samples[3].Prefilled != 40 {
			t.Errorf("%s: %+v", diff, r.Samples)
		}
		s := r.Summary
		if s.Steps != result.Known(6) || s.Width != result.Known(4) || s.KVPeak != result.Known(104) || s.Phases["decode"] != 3 {
			t.Errorf("%+v", s)
		}
	})
}

func TestNoIntervalSamplesBothEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{counts: counted}
		r := must(t, f, trace(1, 3), Options{})
		if len(r.Samples) != 2 || r.Samples[1].At != 30 || f.readings != 2 {
			t.Errorf("%+v, %d readings", r.Samples, f.readings)
		}
		if r := must(t, &fake{}, trace(1, 3), Options{SampleEvery: msec}); r.Samples != nil || len(r.Notes) > 0 {
			t.Errorf("of a server without counters: %+v", r)
		}
	})
}

func TestFailedReadings(t *testing.T) {
	boom := errors.New("boom")
	inBubble(t, "the first one prevents the run", func(t *testing.T) {
		f := &fake{counts: func(int) (target.Counters, error) { return target.Counters{}, boom }}
		if _, err := Run(t.Context(), f, trace(1, 1), Options{}); !errors.Is(err, boom) || len(f.order) > 0 {
			t.Errorf("%v, asked %v", err, f.order)
		}
	})
	inBubble(t, "later ones are counted", func(t *testing.T) {
		r := must(t, &fake{counts: func(n int) (target.Counters, error) {
			if n > 1 {
				return target.Counters{}, boom
			}
			return counted(n)
		}}, trace(1, 3), Options{SampleEvery: 20 * msec})
		if len(r.Samples) != 1 || !strings.Contains(strings.Join(r.Notes, ""), "could not be read 2 times: boom") {
			t.Errorf("%+v", r)
		}
	})
}
