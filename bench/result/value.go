package result

import (
	"errors"
	"math"
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

// Times is v multiplied by a number.
func (v Value) Times(x float64) Value {
	if !v.Known {
		return Value{}
	}
	return Known(v.X * x)
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
