package format

import (
	"testing"

	"agentd/agent/internal/schema"
)

// TestLongestOptionIsTheValue in whatever order the options stand.
func TestLongestOptionIsTheValue(t *testing.T) {
	short, long := "a", "a"+parameterEnd+"b"
	for _, options := range [][]string{{short, long}, {long, short}} {
		value, after, ok := cutValue("\n"+long+parameterEnd+"rest", schema.Member{Kind: schema.Text, Texts: options})
		if !ok || value != "\n"+long+"\n" || after != "rest" {
			t.Errorf("%q: %q, %q, %t", options, value, after, ok)
		}
	}
}
