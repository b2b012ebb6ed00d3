package format

import "testing"

// TestLongestOptionIsTheValue in whatever order the options stand.
func TestLongestOptionIsTheValue(t *testing.T) {
	short, long := "a", "a"+parameterEnd+"b"
	for _, options := range [][]string{{short, long}, {long, short}} {
		value, after, ok := cutValue("\n"+long+parameterEnd+"rest", options)
		if !ok || value != "\n"+long+"\n" || after != "rest" {
			t.Errorf("%q: %q, %q, %t", options, value, after, ok)
		}
	}
}
