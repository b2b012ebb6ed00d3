package gbnf

import (
	"fmt"
	"strconv"
	"strings"
)

// Marks are our own addition to the notation. A mark matches no text, and a text
// passes each of them at most once: behind it the same mark matches nothing. They
// are written as numbers of tokens that no vocabulary has; the matcher in package
// llama knows them (shim_matcher.h has the same numbers).
const (
	MaxMarks  = 64
	firstMark = 0x7FFF0000
)

// Mark is mark i, 0 <= i < MaxMarks.
func Mark(i int) string { return fmt.Sprintf("<[%d]>", firstMark+i) }

// WithoutMarks is a grammar for engines that don't know marks. It admits what the
// grammar admits, and texts that pass a mark more than once.
func WithoutMarks(text string) string {
	if !strings.Contains(text, "<["+strconv.Itoa(firstMark)[:7]) {
		return text
	}
	var b strings.Builder
	var held []string // "<" and what may be the rest of a mark
	for symbol := range symbols(text) {
		held = append(held, symbol)
		switch {
		case len(held) == 1 && symbol == "<", len(held) == 2 && isMark(symbol):
			continue
		case len(held) == 3 && symbol == ">":
		default:
			b.WriteString(strings.Join(held, ""))
		}
		held = held[:0]
	}
	b.WriteString(strings.Join(held, ""))
	return b.String()
}

// isMark tells a mark's number in brackets.
func isMark(symbol string) bool {
	if len(symbol) < 2 || symbol[0] != '[' {
		return false
	}
	n, err := strconv.Atoi(symbol[1 : len(symbol)-1])
	return err == nil && n >= firstMark && n < firstMark+MaxMarks
}
