package quote

import (
	"strings"
)

// Fence is a fence for a code block that the text does not contain.
func Fence(text string) string { return strings.Repeat("`", max(3, longestRun(text)+1)) }

// Span is the text as a code span.
func Span(text string) string {
	ticks := strings.Repeat("`", longestRun(text)+1)
	if text == "" || strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return ticks + text + ticks
}

// longestRun is the length of the longest run of backticks.
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
