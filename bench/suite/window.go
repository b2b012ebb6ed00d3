package suite

import "agentd/bench/result"

// windowSteps is the least number of steps of a window.
const windowSteps = 4

// window is the longest time in which all samples fulfil a condition; false if there is
// none. It starts and ends right after a step, since half a step at an end would change
// the rate.
func window(seen []result.Sample, condition func(first, x *result.Sample) bool) (first, last result.Sample, ok bool) {
	stepped := func(i int) bool { return i > 0 && seen[i].Steps > seen[i-1].Steps }
	for i := 0; i < len(seen); i++ {
		k := i
		for k < len(seen) && condition(&seen[i], &seen[k]) {
			k++
		}
		if k-i < 2 {
			continue
		}
		from, to := i, k-1
		for from < to && !stepped(from) {
			from++
		}
		for from < to && !stepped(to) {
			to--
		}
		a, b := seen[from], seen[to]
		if b.Steps-a.Steps >= windowSteps && b.Generated > a.Generated && b.At-a.At > last.At-first.At {
			first, last, ok = a, b, true
		}
		i = k - 1
	}
	return first, last, ok
}

// rate is the tokens a second of a window.
func rate(first, last result.Sample) float64 {
	return (last.Generated - first.Generated) / (last.At - first.At) * 1000
}

// decoding is the condition that width sequences decode and nothing is prefilled.
func decoding(width int) func(first, x *result.Sample) bool {
	return func(first, x *result.Sample) bool {
		return int(x.Running) == width && x.Prefilled == first.Prefilled
	}
}

// busy is the condition that width sequences or a few less run.
func busy(width int) func(first, x *result.Sample) bool {
	return func(_, x *result.Sample) bool { return int(x.Running) <= width && 8*int(x.Running) >= 7*width }
}
