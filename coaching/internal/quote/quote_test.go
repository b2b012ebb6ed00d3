package quote

import (
	"strings"
	"testing"
	"unicode"
)

func TestClipKeepsBothEndsAndWholeCharacters(t *testing.T) {
	text := strings.Repeat("ä", 50) + strings.Repeat("ö", 50)
	got := Clip(text, 31)
	if want := strings.Repeat("ä", 10) + " … [170 of 200 characters left out] … " + strings.Repeat("ö", 5); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\nb\x1b[2J\u202e", 500)
	f.Add("\xff\xfe", 1)
	f.Add(strings.Repeat("é", 100), 10)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 1 + limit&1023
		got := []rune(Line(s, limit))
		if len(got) > limit {
			t.Errorf("%d characters, want at most %d", len(got), limit)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Errorf("%q is left in %q", r, string(got))
			}
		}
	})
}
