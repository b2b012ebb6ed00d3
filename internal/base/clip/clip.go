// Package clip shortens texts for messages and logs.
package clip

import "unicode/utf8"

// Head returns at most the first n bytes of s, and no part of a UTF-8 character.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Text returns Head, with … appended if s is longer.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Head(s, n) + "…"
}
