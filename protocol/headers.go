package protocol

import (
	"fmt"
	"maps"
	"slices"
)

// Headers are the HTTP headers of a coaching backend, name to value. Values are often secrets, so
// fmt prints only the names, for any verb. AppendJSON of the backend writes the values, since the
// server needs them.
type Headers map[string]string

// Format prints the names, with *** for every value.
func (h Headers) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte("headers{")) // a fmt.State takes what it is given
	for i, name := range slices.Sorted(maps.Keys(h)) {
		if i > 0 {
			_, _ = f.Write([]byte(", "))
		}
		_, _ = f.Write([]byte(name + ": ***"))
	}
	_, _ = f.Write([]byte("}"))
}
