package gbnf

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Marks are our own addition to the notation. A mark matches no text, and a text
// passes each of them at most once: after it the same mark matches nothing. They
// are written as numbers of tokens that no vocabulary has; the matcher in package
// llama knows them (llama/native/grammar/matcher.h has the same numbers).
const (
	MaxMarks  = 64
	firstMark = 0x7FFF0000
)

// Mark is mark i, 0 <= i < MaxMarks.
func Mark(i int) string { return fmt.Sprintf("<[%d]>", firstMark+i) }

// WithoutMarks is a grammar for engines that don't know marks. It admits what the
// grammar admits, and texts that pass a mark more than once.
func WithoutMarks(text string) string {
	return notation.ReplaceAllStringFunc(text, func(part string) string {
		if isMark(part) {
			return ""
		}
		return part
	})
}

// notation finds literals, tokens and character classes: what stands in a literal or
// a class is not a mark.
var notation = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|<\[[0-9]+\]>|\[(?:[^\]\\]|\\.)*\]`)

func isMark(part string) bool {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(part, "<["), "]>"))
	return err == nil && n >= firstMark && n < firstMark+MaxMarks
}
