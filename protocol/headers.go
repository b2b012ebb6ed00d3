package protocol

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Headers are the HTTP headers of a coaching backend, often secrets: fmt
// prints only the names. AppendJSON of the backend writes the values.
type Headers map[string]string

// Format prints the names, with *** for every value.
func (h Headers) Format(f fmt.State, _ rune) {
	names := slices.Sorted(maps.Keys(h))
	for i := range names {
		names[i] += ": ***"
	}
	_, _ = io.WriteString(f, "headers{"+strings.Join(names, ", ")+"}") // a fmt.State takes what it is given
}
