package protocol

import (
	"bytes"
	"fmt"
)

// compact removes the whitespace between tokens. It also checks two bounds that the parser does not: the nesting, at
// most maxDepth (itself at most MaxResponseDepth), and the members of all open objects. body need not be JSON. The
// result is valid JSON exactly if body is: of whitespace between two scalars one space stays, or "1 2" would become 12.
// It is body itself if there is nothing to remove. The error is [Problems], for an exceeded bound.
func compact(body []byte, maxDepth int) (text []byte, err error) {
	var (
		members [MaxResponseDepth + 1]int // names seen in the object open at each level
		open    int                       // sum of members
		depth   int
		out     []byte // nil while nothing had to be removed
		kept    int    // body[kept:i] is not yet in out
	)
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			end := stringEnd(body, i)
			if end < 0 {
				i = len(body) // unterminated: the parser will say so
				continue
			}
			i = end - 1
		case '{', '[':
			depth++
			if depth > maxDepth {
				return nil, Problems{NewProblem(TypeJSONInvalid, fmt.Sprintf(
					"nested deeper than %d levels at byte %d; flatten the value", maxDepth, i), i)}
			}
			members[depth] = 0
		case '}', ']':
			if depth > 0 {
				open -= members[depth]
				depth--
			}
		case ':':
			members[depth]++
			open++
			if open > MaxObjectMembers {
				return nil, Problems{NewProblem(TypeJSONInvalid, fmt.Sprintf(
					"objects with more than %d members at byte %d; split them", MaxObjectMembers, i), i)}
			}
		case ' ', '\t', '\r', '\n':
			start, end := i, space(body, i+1)
			if i > 0 && end < len(body) && !separates(body[i-1]) && !separates(body[end]) {
				start++ // two scalars: one whitespace byte stays between them
			}
			if start < end {
				if out == nil {
					out = make([]byte, 0, len(body))
				}
				out = append(out, body[kept:start]...)
				kept = end
			}
			i = end - 1
		}
	}
	if out == nil {
		return body, nil
	}
	out = append(out, body[kept:]...)
	if len(out) < len(body)/2 {
		out = bytes.Clone(out) // what is decoded refers to it, and may stay for long
	}
	return out, nil
}

// stringEnd returns the index after the string that starts at text[i], or -1 if it has no end.
func stringEnd(text []byte, i int) int {
	for j := i + 1; ; {
		n := bytes.IndexByte(text[j:], '"')
		if n < 0 {
			return -1
		}
		quote := j + n
		slashes := 0
		for k := quote - 1; k > i && text[k] == '\\'; k-- {
			slashes++
		}
		if slashes%2 == 0 {
			return quote + 1
		}
		j = quote + 1
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// separates reports whether whitespace before or after c can be removed.
func separates(c byte) bool {
	switch c {
	case '{', '}', '[', ']', ',', ':', '"':
		return true
	}
	return false
}
