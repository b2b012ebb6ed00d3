package result

import (
	"math"
	"slices"
)

// Distribution of a quantity over all requests, in its unit.
type Distribution struct {
	N    int   `json:"n"` // values; 0: nothing is known
	P50  Value `json:"p50"`
	P90  Value `json:"p90"`
	P99  Value `json:"p99"`
	Mean Value `json:"mean"`
	Max  Value `json:"max"`
}

// Distribute makes the distribution of values, which it sorts.
func Distribute(values []float64) Distribution {
	slices.Sort(values)
	d := Distribution{
		N:   len(values),
		P50: Percentile(values, 50),
		P90: Percentile(values, 90),
		P99: Percentile(values, 99),
	}
	if d.N == 0 {
		return d
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	d.Mean, d.Max = Known(sum/float64(d.N)), Known(values[d.N-1])
	return d
}

// Percentile of sorted values, exact: nothing is put into classes first. Between
// two of them it interpolates: with h = (n-1)·p/100 it is x[⌊h⌋] + (h-⌊h⌋)·
// (x[⌊h⌋+1] - x[⌊h⌋]), counted from 0. This is definition 7 of Hyndman and Fan,
// Sample Quantiles in Statistical Packages (1996), and NumPy's default, so that
// figures can be held against those of other harnesses. Of no values it is unknown.
func Percentile(sorted []float64, p float64) Value {
	if len(sorted) == 0 {
		return Value{}
	}
	h := float64(len(sorted)-1) * p / 100
	low := math.Floor(h)
	i := int(low)
	if i+1 >= len(sorted) {
		return Known(sorted[len(sorted)-1])
	}
	return Known(sorted[i] + (h-low)*(sorted[i+1]-sorted[i]))
}

// Spread is one metric over the repeats of a run.
type Spread struct {
	Median, Min, Max Value
	N                int // repeats in which it is known
}

// SpreadOf repeats. It is unknown when one of them does not know: a median of
// some would not be that of the run.
func SpreadOf(values []Value) Spread {
	known := make([]float64, 0, len(values))
	for _, v := range values {
		if v.Known {
			known = append(known, v.X)
		}
	}
	if len(known) == 0 || len(known) < len(values) {
		return Spread{N: len(known)}
	}
	slices.Sort(known)
	return Spread{Percentile(known, 50), Known(known[0]), Known(known[len(known)-1]), len(known)}
}
