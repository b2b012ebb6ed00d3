package quote

import (
	"strings"
	"testing"
)

func TestClipKeepsBothEndsAndWholeCharacters(t *testing.T) {
	text := strings.Repeat("ä", 50) + strings.Repeat("ö", 50)
	got := Clip(text, 31)
	if want := strings.Repeat("ä", 10) + " … [170 of 200 characters left out] … " + strings.Repeat("ö", 5); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
