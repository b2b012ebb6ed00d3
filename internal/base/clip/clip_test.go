package clip

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTextEndsBetweenCharacters(t *testing.T) {
	const whole = "aé😀b"
	for n := range len(whole) + 1 {
		got := Text(whole, n)
		head, cut := strings.CutSuffix(got, "…")
		if !strings.HasPrefix(whole, head) || !utf8.ValidString(got) || len(head) > n || cut == (n == len(whole)) || head != Head(whole, n) {
			t.Errorf("at %d bytes: %q", n, got)
		}
	}
	if got := Head("\xa9\xa9", 1); got != "" {
		t.Errorf("parts of a character: %q", got)
	}
}
