// Package clip shortens texts for messages and logs.
package clip

import "unicode/utf8"

// Head is at most the first n bytes of s, never a part of a character.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Text is Head, with … where something is missing.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Head(s, n) + "…"
}
