package result

import (
	"errors"
	"math"
	"strconv"
)

// Value is a number that may be unknown; its zero value is. JSON has null for it,
// a table a dash.
type Value struct {
	X     float64 // 0 when unknown
	Known bool
}

// Known is a known number. What a division by zero leaves, NaN or an infinity, is
// unknown.
func Known(x float64) Value {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return Value{}
	}
	return Value{X: x, Known: true}
}

// Measured is the number of a record or sample, where below 0 means unknown.
func Measured(x float64) Value {
	if x < 0 {
		return Value{}
	}
	return Known(x)
}

// Over divides; it is unknown when one of both is, or by is 0.
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
