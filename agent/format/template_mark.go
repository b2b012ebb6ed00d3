package format

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
)

// marker keeps special tokens' texts in user strings apart from those that the
// template writes. Before rendering it puts a character that occurs nowhere else
// inside each, so that afterwards only the template's are whole; then it takes
// the character out again.
type marker struct {
	sentinel rune
	removal  *strings.Replacer
}

// The private use area of the Basic Multilingual Plane.
const (
	firstPrivate = '\uE000'
	lastPrivate  = '\uF8FF'
)

// newMarker chooses a character that neither text contains, literally or
// escaped.
func newMarker(vars []byte, template string) *marker {
	var taken [lastPrivate - firstPrivate + 1]bool
	note(&taken, string(vars))
	note(&taken, template)
	m := &marker{sentinel: lastPrivate}
	if free := slices.Index(taken[:], false); free >= 0 {
		m.sentinel = firstPrivate + rune(free)
	}
	m.removal = strings.NewReplacer(string(m.sentinel), "",
		fmt.Sprintf(`\u%04x`, m.sentinel), "", fmt.Sprintf(`\u%04X`, m.sentinel), "")
	return m
}

// note marks the private characters that a text has, and those that it has the
// escape of, in one pass: a text can have all of them.
func note(taken *[lastPrivate - firstPrivate + 1]bool, text string) {
	for i, r := range text {
		if (r == 'u' || r == 'U') && i+4 < len(text) {
			n, err := strconv.ParseUint(text[i+1:i+5], 16, 16)
			if err != nil {
				continue
			}
			r = rune(n)
		}
		if r >= firstPrivate && r <= lastPrivate {
			taken[r-firstPrivate] = true
		}
	}
}

// mark puts the character into every special token's text that occurs inside a
// string of a JSON text.
func (m *marker) mark(vars protocol.Raw, split *splitter) []byte {
	// Fewest escapes: a token's text stands in a string as it is.
	text := string(rawjson.AppendSpaced(nil, vars))
	out := make([]byte, 0, len(text)+64)
	quoted := false
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
			i++
			out = append(out, c)
		case quoted && c == '\\':
			out = append(out, text[i:i+2]...)
			i += 2
		case quoted && split.at(text, i) != "":
			_, size := utf8.DecodeRuneInString(text[i:])
			out = append(out, text[i:i+size]...)
			out = utf8.AppendRune(out, m.sentinel)
			i += size
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}

// unmark takes the character out of rendered text.
func (m *marker) unmark(text string) string { return m.removal.Replace(text) }
