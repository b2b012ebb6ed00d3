package format

import (
	"bytes"
	"fmt"
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
	lower := bytes.ToLower(vars)
	source := strings.ToLower(template)
	m := &marker{sentinel: lastPrivate}
	for r := rune(firstPrivate); r <= lastPrivate; r++ {
		escaped := fmt.Sprintf("u%04x", r)
		if bytes.ContainsRune(vars, r) || bytes.Contains(lower, []byte(escaped)) ||
			strings.ContainsRune(template, r) || strings.Contains(source, escaped) {
			continue
		}
		m.sentinel = r
		break
	}
	m.removal = strings.NewReplacer(string(m.sentinel), "",
		fmt.Sprintf(`\u%04x`, m.sentinel), "", fmt.Sprintf(`\u%04X`, m.sentinel), "")
	return m
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
