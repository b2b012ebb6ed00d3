package result

import (
	"math"
	"slices"
)

// Distribution of a quantity over all requests.
type Distribution struct {
	N   int   `json:"n"` // values
	P50 Value `json:"p50"`
	P90 Value `json:"p90"`
	P99 Value `json:"p99"`
}

// Distribute sorts values and sums them up.
func Distribute(values []float64) Distribution {
	slices.Sort(values)
	return Distribution{len(values), Percentile(values, 50), Percentile(values, 90), Percentile(values, 99)}
}

// Percentile of sorted values by linear interpolation: definition 7 of Hyndman and
// Fan, Sample Quantiles in Statistical Packages (1996), and NumPy's default. It is
// unknown of no values.
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
	Median Value `json:"median"`
	Min    Value `json:"min"`
	Max    Value `json:"max"`
}

// SpreadOf repeats. One unknown repeat makes it unknown.
func SpreadOf(values []Value) Spread {
	known := make([]float64, 0, len(values))
	for _, v := range values {
		if v.Known {
			known = append(known, v.X)
		}
	}
	if len(known) == 0 || len(known) < len(values) {
		return Spread{}
	}
	slices.Sort(known)
	return Spread{Percentile(known, 50), Known(known[0]), Known(known[len(known)-1])}
}
