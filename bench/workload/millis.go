package workload

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Millis is a duration that JSON holds in milliseconds, with a fraction where it
// has one: 1.5.
type Millis time.Duration

// MarshalJSON writes the shortest number that is read as the same duration.
func (m Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/float64(time.Millisecond), 'f', -1, 64), nil
}

// UnmarshalJSON reads a number of milliseconds, at most maxMillis either way.
func (m *Millis) UnmarshalJSON(text []byte) error {
	ms, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("%.40s is not a number of milliseconds", text)
	}
	if math.Abs(ms) > maxMillis {
		return fmt.Errorf("%.40s milliseconds are more than the %d that are possible", text, int64(maxMillis))
	}
	*m = Millis(math.Round(ms * float64(time.Millisecond)))
	return nil
}
