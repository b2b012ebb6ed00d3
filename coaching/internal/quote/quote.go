// Package quote quotes texts of clients and models in messages and Markdown: clipped, without
// keys, and so that nothing in a text ends the quotation.
package quote

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"agentd/internal/base/clip"
)

// Quoter quotes texts in messages. It removes keys before it clips, since half a key would not be recognised.
type Quoter struct{ Keys *Redactor } // nil hides nothing

// Head returns the beginning of a text without keys, at most limit bytes. whole: the text is complete.
func (q Quoter) Head(s string, limit int) (head string, whole bool) {
	s, whole = q.Keys.Head(s, limit)
	return clip.Head(s, limit), whole && len(s) <= limit
}

// Short returns the beginning of a text without keys, with a note about the rest.
func (q Quoter) Short(s string, limit int) string {
	head, whole := q.Head(s, limit)
	if whole {
		return head
	}
	return fmt.Sprintf("%s… (%d more bytes)", head, len(s)-len(head))
}

// ID returns a client's id clipped for the server's log.
func ID(id string) string { return Quoter{}.Short(id, maxID) }

// Quote returns a text in quotes, clipped to MaxQuoted bytes.
func (q Quoter) Quote(s string) string {
	head, whole := q.Head(s, MaxQuoted)
	if !whole {
		head += "…"
	}
	return strconv.Quote(head)
}

// Names returns a list of names for a message.
func (q Quoter) Names(list []string) string {
	rest := ""
	if len(list) > maxNames {
		rest = fmt.Sprintf(" and %d more", len(list)-maxNames)
		list = list[:maxNames]
	}
	quoted := make([]string, len(list))
	for i, name := range list {
		quoted[i] = q.Quote(name)
	}
	return strings.Join(quoted, ", ") + rest
}

// ErrorText returns the text of an error on one line, clipped.
func (q Quoter) ErrorText(err error) string {
	if err == nil {
		return "unknown"
	}
	head, _ := q.Head(err.Error(), 2*MaxQuoted+200)
	return OneLine(head)
}

// OneLine replaces each run of white space by one space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Line returns a text on one line, without control characters and clipped to limit characters.
func Line(s string, limit int) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return s
}

// Clip shortens a text to about n bytes: its beginning and its end, with a note about the missing part between them.
func Clip[T ~string | ~[]byte](s T, n int) string {
	if len(s) <= n {
		return string(s)
	}
	head := clip.Head(string(s[:n*2/3+1]), n*2/3)
	tail := string(s[len(s)-n/3:])
	for len(tail) > 0 && tail[0]&0xC0 == 0x80 { // the rest of a character
		tail = tail[1:]
	}
	return fmt.Sprintf("%s … [%d of %d characters left out] … %s", head, len(s)-len(head)-len(tail), len(s), tail)
}

// maxID bounds the bytes of an id in the server's own log.
const maxID = 200

// maxNames is how many known names a message lists.
const maxNames = 30

// MaxQuoted bounds the bytes of a quoted text in a message.
const MaxQuoted = 120

// Fence returns a Markdown fence that the text does not contain.
func Fence(text string) string { return strings.Repeat("`", max(3, longestRun(text)+1)) }

// Span returns the text as a code span.
func Span(text string) string {
	ticks := strings.Repeat("`", longestRun(text)+1)
	if text == "" || strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return ticks + text + ticks
}

// longestRun returns the length of the longest run of backticks.
func longestRun(text string) int {
	longest, run := 0, 0
	for i := range len(text) {
		if text[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
