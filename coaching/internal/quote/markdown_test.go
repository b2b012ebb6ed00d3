package quote

import (
	"testing"
)

func TestWhatQuotesIsLongerThanWhatIsQuoted(t *testing.T) {
	for _, c := range []struct{ text, fence, span string }{
		{"", "```", "`  `"},
		{"plain", "```", "`plain`"},
		{"a`b", "```", "``a`b``"},
		{"`a", "```", "`` `a ``"},
		{"a```b``", "````", "```` a```b`` ````"},
	} {
		if got := Fence(c.text); got != c.fence {
			t.Errorf("the fence of %q is %s, want %s", c.text, got, c.fence)
		}
		if got := Span(c.text); got != c.span {
			t.Errorf("the span of %q is %s, want %s", c.text, got, c.span)
		}
	}
}
