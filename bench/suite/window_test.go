package suite

import (
	"testing"

	"agentd/bench/result"
	"agentd/bench/target"
)

// seen makes samples 10 ms apart: of each running, prefilled, generated, steps.
func seen(list ...[4]float64) []result.Sample {
	var all []result.Sample
	for i, x := range list {
		all = append(all, result.Sample{At: 10 * float64(i), Counters: target.Counters{Running: x[0], Prefilled: x[1], Generated: x[2], Steps: x[3]}})
	}
	return all
}

func TestWindowOfDecoding(t *testing.T) {
	for _, test := range []struct {
		name     string
		seen     []result.Sample
		from, to float64 // of the window, in ms; 0, 0: none
	}{
		{"no samples", nil, 0, 0},
		{"one sample", seen([4]float64{4, 9, 0, 0}), 0, 0},
		{"from the first to the last", seen([4]float64{1, 9, 0, 0}, [4]float64{4, 9, 8, 2}, [4]float64{4, 9, 16, 4}, [4]float64{4, 9, 24, 6}, [4]float64{3, 9, 30, 8}), 10, 30},
		{"a prefill ends it", seen([4]float64{4, 5, 0, 0}, [4]float64{4, 9, 0, 1}, [4]float64{4, 9, 20, 6}), 10, 20},
		{"too few steps", seen([4]float64{1, 9, 0, 0}, [4]float64{4, 9, 4, 1}, [4]float64{4, 9, 16, 4}), 0, 0},
		{"the longest of two", seen([4]float64{1, 9, 0, 0}, [4]float64{4, 9, 4, 1}, [4]float64{4, 9, 20, 5}, [4]float64{3, 9, 20, 5}, [4]float64{4, 9, 24, 6}, [4]float64{4, 9, 40, 10}, [4]float64{4, 9, 60, 15}), 40, 60},
		{"another width", seen([4]float64{5, 9, 0, 0}, [4]float64{5, 9, 20, 5}, [4]float64{5, 9, 40, 10}), 0, 0},
		{"it starts and ends after a step", seen([4]float64{1, 9, 0, 0}, [4]float64{4, 9, 0, 0}, [4]float64{4, 9, 4, 1}, [4]float64{4, 9, 4, 1}, [4]float64{4, 9, 24, 6}, [4]float64{4, 9, 24, 6}), 20, 40},
		{"nothing is known before the first sample", seen([4]float64{4, 9, 0, 0}, [4]float64{4, 9, 20, 5}), 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			from, to, ok := window(test.seen, decoding(4))
			if ok != (test.to > 0) || from.At != test.from || to.At != test.to {
				t.Errorf("from %g to %g, %v", from.At, to.At, ok)
			}
		})
	}
}

func TestBusyWindowAllowsAFewLess(t *testing.T) {
	from, to, ok := window(seen([4]float64{20, 9, 0, 0}, [4]float64{32, 9, 20, 1}, [4]float64{28, 12, 60, 4}, [4]float64{32, 15, 120, 6}, [4]float64{27, 15, 200, 8}, [4]float64{33, 15, 300, 12}), busy(32))
	if !ok || from.At != 10 || to.At != 30 || rate(from, to) != 5000 {
		t.Errorf("from %g to %g, %v, %g tok/s", from.At, to.At, ok, rate(from, to))
	}
}
