package format

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheMarkIsACharacterThatNoTextHas(t *testing.T) {
	var escapes, characters strings.Builder
	for r := firstPrivate; r < lastPrivate; r++ {
		fmt.Fprintf(&escapes, `\u%04X`, r)
		characters.WriteRune(r)
	}
	for _, test := range []struct {
		name, vars, template string
		want                 rune
	}{
		{"nothing is taken", `"a"`, "{{ b }}", firstPrivate},
		{"the first one is in the text", "\ue000", "", firstPrivate + 1},
		{"the first ones are escaped, in any case", `\ue000 \uE001`, `\uE002`, firstPrivate + 3},
		{"an escape that is cut", `\ue00`, "", firstPrivate},
		{"all but the last are escaped", escapes.String(), "", lastPrivate},
		{"all but the last are in the template", "", characters.String(), lastPrivate},
		// Once for each of the 6,400 characters it took minutes.
		{"a long text", strings.Repeat("ue00", 1<<20) + escapes.String(), "", lastPrivate},
	} {
		if got := newMarker([]byte(test.vars), test.template).sentinel; got != test.want {
			t.Errorf("%s: %U, want %U", test.name, got, test.want)
		}
	}
}
