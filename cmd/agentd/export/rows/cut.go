package rows

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/protocol"
)

// blank is what may stand between values, with the zeros that a crash may leave in a file.
const blank = " \t\r\n\x00"

// brokenValue is an error of a value that is not JSON.
type brokenValue struct {
	start int64 // where the value may start; blanks may precede it
	line  int   // of start
	err   error
}

func (b *brokenValue) Error() string { return b.err.Error() }
func (b *brokenValue) Unwrap() error { return b.err }

// afterCut finds where a file goes on after a value that was cut off, since its recorder ended while
// it wrote. What follows is the next exchange at the start of a line, or after the cut on the same
// line, or the end of the file. n is how many values were cut; 0 if the value is wrong for another
// reason.
func (b *brokenValue) afterCut(path string, found secrets) (next int64, line, n int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, 0, err
	}
	defer file.Close()
	var text []byte
	look := firstLook
	r := bufio.NewReader(io.NewSectionReader(file, b.start, 2*maxValue))
	for {
		part, end := r.ReadBytes('\n')
		if end != nil && !errors.Is(end, io.EOF) {
			return 0, 0, 0, end
		}
		if at := bytes.IndexByte(part, '{'); at >= 0 && len(bytes.Trim(part[:at], blank)) == 0 && len(bytes.Trim(text, blank)) > 0 && isExchange(part[at:]) != isOther {
			if n = cuts(text); n > 0 {
				found.cut(text)
				return b.start + int64(len(text)), b.line + bytes.Count(text, []byte("\n")), n, nil
			}
		}
		before := len(text)
		text = append(text, part...)
		for _, at := range starts.FindAllIndex(part, -1) {
			if at := before + at[0]; len(bytes.Trim(text[:at], blank)) > 0 && isExchange(text[at:]) == isWhole {
				if n = cuts(text[:at]); n > 0 {
					found.cut(text[:at])
					return b.start + int64(at), b.line + bytes.Count(text[:at], []byte("\n")), n, nil
				}
			}
		}
		if end != nil {
			n = cuts(text)
			found.cut(text)
			return b.start + int64(len(text)), b.line, n, nil
		}
		if len(text) > maxValue {
			return 0, 0, 0, nil
		}
		// A value that is wrong for another reason stays wrong. Each look at it takes its whole length.
		if len(text) >= look {
			if cuts(text) == 0 {
				return 0, 0, 0, nil
			}
			look *= 2
		}
	}
}

// starts are where an exchange may start within a line.
var starts = regexp.MustCompile(`\{\s*"(request|response|outcomes|run_id|method|path|headers|body|status|answer)"\s*:`)

// What stands at a place of a file.
const (
	isOther   = iota // JSON that is not an exchange
	isWhole          // an exchange
	isUnknown        // no whole JSON value
)

func isExchange(text []byte) int {
	raw, err := jsontext.NewDecoder(bytes.NewReader(text)).ReadValue()
	if err != nil {
		return isUnknown
	}
	has := func(name string) bool { _, ok := protocol.Get(raw, name); return ok }
	if has("request") && has("response") || has("method") && has("path") {
		return isWhole
	}
	return isOther
}

// cuts counts the values of which a text holds the beginnings, one after the other; 0 if it holds
// anything else.
func cuts(text []byte) int {
	text = bytes.Trim(text, blank)
	if isCut(text) {
		return 1
	}
	for _, at := range starts.FindAllIndex(text, -1) {
		if at[0] > 0 && isCut(text[:at[0]]) {
			if n := cuts(text[at[0]:]); n > 0 {
				return n + 1
			}
		}
	}
	return 0
}

// isCut reports whether a text is the beginning of an object.
func isCut(text []byte) bool {
	text = bytes.Trim(text, blank)
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	_, err := jsontext.NewDecoder(bytes.NewReader(text)).ReadValue()
	return errors.Is(err, io.ErrUnexpectedEOF)
}

// cut collects what a cut value shows of secrets: headers of requests and of backends.
func (s secrets) cut(text []byte) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return
		}
		if token.Kind() != '"' {
			continue
		}
		value, path := token.String(), string(d.StackPointer())
		_, header, within := strings.Cut(path, "/headers/")
		name, _, _ := strings.Cut(strings.ToLower(header), "/")
		if within && (slices.Contains(credentials, name) || strings.Contains(path, "/backends/") && !slices.Contains(harmless, name)) {
			s.add(value)
		}
	}
}
