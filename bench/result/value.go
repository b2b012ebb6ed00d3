package result

import (
	"errors"
	"math"
	"slices"
	"strconv"
)

// Value is a number that may be unknown, as its zero value is. Unknown is null in JSON
// and a dash in a table.
type Value struct {
	X     float64 // 0 when unknown
	Known bool
}

// Known is a known number. NaN and infinities are unknown.
func Known(x float64) Value {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return Value{}
	}
	return Value{X: x, Known: true}
}

// Measured is the number of a record or sample, where a negative one is unknown.
func Measured(x float64) Value {
	if x < 0 {
		return Value{}
	}
	return Known(x)
}

// Over divides. It is unknown if one of both is, or if by is 0.
func (v Value) Over(by Value) Value {
	if !v.Known || !by.Known {
		return Value{}
	}
	return Known(v.X / by.X)
}

// MarshalJSON gives the number or null.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Known {
		return []byte("null"), nil
	}
	if math.IsNaN(v.X) || math.IsInf(v.X, 0) {
		return nil, errors.New("a value is not a finite number")
	}
	return strconv.AppendFloat(nil, v.X, 'g', -1, 64), nil
}

// UnmarshalJSON reads a number or null.
func (v *Value) UnmarshalJSON(text []byte) error {
	*v = Value{}
	if string(text) == "null" {
		return nil
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil || text[0] == '"' {
		return errors.New("want a number or null")
	}
	*v = Known(x)
	return nil
}

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
