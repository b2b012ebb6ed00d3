package repair

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Redactor takes keys out of texts, as *egress.Redactor does.
type Redactor interface {
	// Text is a text without keys.
	Text(s string) string
	// Head is the beginning of Text(s), without half a key at its end; whole tells
	// that it is all of it, which may be longer than limit.
	Head(s string, limit int) (head string, whole bool)
}

// quoter quotes texts of others in messages. Whoever shows a message takes the keys out
// of it, but recognises none that was cut in two, so they are taken out before the cut.
type quoter struct{ keys Redactor } // nil hides nothing

// head is the beginning of a text without keys.
func (q quoter) head(s string, limit int) (head string, whole bool) {
	if q.keys != nil {
		s, whole = q.keys.Head(s, limit)
		return cutAt(s, limit), whole && len(s) <= limit
	}
	return cutAt(s, limit), len(s) <= limit
}

// clip is clip of a text without keys.
func (q quoter) clip(s string, n int) string {
	if q.keys != nil {
		s = q.keys.Text(s)
	}
	return clip(s, n)
}

// quote is somebody's text, cut short, in quotes.
func (q quoter) quote(s string) string {
	head, whole := q.head(s, maxQuoted)
	if !whole {
		head += "…"
	}
	return strconv.Quote(head)
}

// names lists names for a message.
func (q quoter) names(list []string) string {
	rest := ""
	if len(list) > maxNames {
		rest = fmt.Sprintf(" and %d more", len(list)-maxNames)
		list = list[:maxNames]
	}
	quoted := make([]string, len(list))
	for i, name := range list {
		quoted[i] = q.quote(name)
	}
	return strings.Join(quoted, ", ") + rest
}

// unknownName says that a name is unknown, which ones are, and which of them was
// probably meant.
func (q quoter) unknownName(what, name string, known []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("the %s %s is unknown: there are no %ss here", what, q.quote(name), what)
	}
	msg := fmt.Sprintf("the %s %s is unknown; known are %s", what, q.quote(name), q.names(known))
	if meant, ok := closest(name, known); ok {
		msg += "; did you mean " + q.quote(meant) + "?"
	}
	return msg
}

// errorText is the text of an error on one line, cut short.
func (q quoter) errorText(err error) string {
	if err == nil {
		return "unknown"
	}
	head, _ := q.head(err.Error(), 2*maxQuoted+200)
	return oneLine(head)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// cutAt is at most the first n bytes of s, never a part of a character.
func cutAt(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
