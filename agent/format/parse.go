package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/rawjson"
	"agentd/internal/base/clip"
	"agentd/protocol"
)

// Errors of several parsers.
var (
	errNothing = errors.New("the decision has neither a reply nor a tool call")
	errMixed   = errors.New("the output has text beside tool calls; it must be one or the other")
)

// splitThoughts splits off a leading <think> block. With open, the prompt has its opening tag. A closing tag
// alone also ends a block, unless mark, which begins the answer itself, is before it.
func splitThoughts(text string, open bool, mark string) (reasoning []string, rest string, err error) {
	rest = strings.TrimSpace(text)
	inner, opened := strings.CutPrefix(rest, "<think>")
	opened = opened || open
	end := strings.Index(inner, "</think>")
	switch {
	case opened && end < 0:
		return nil, rest, errors.New("the thinking block is not closed")
	case !opened && (end < 0 || strings.Contains(inner[:end], mark)):
		return nil, rest, nil
	}
	if thought := strings.TrimSpace(inner[:end]); thought != "" {
		reasoning = []string{thought}
	}
	return reasoning, strings.TrimSpace(inner[end+len("</think>"):]), nil
}

// stray is an error if a reply contains one of marks, which are parts of calls or reasoning.
func stray(text string, marks []string) error {
	for _, mark := range marks {
		if strings.Contains(text, mark) {
			return fmt.Errorf("the output has a stray %s", mark)
		}
	}
	return nil
}

// readJSON reads one JSON value and returns what follows. Numbers and strings keep their bytes. Of equal
// names in an object the last is used, as in Python. Errors begin with what, such as "an action is".
func readJSON(text, what string) (value protocol.Raw, rest string, err error) {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
	raw, err := d.ReadValue()
	if err != nil {
		reason := "no valid JSON (" + strings.TrimPrefix(err.Error(), "jsontext: ") + ")"
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			reason = "the JSON ends too early"
		}
		return nil, text, fmt.Errorf("%s %s: %s", what, reason, quoteStart(text))
	}
	value, err = compacted(bytes.Clone(raw))
	return value, text[d.InputOffset():], err
}

// compacted removes white space between tokens in place, and makes equal names and lone surrogates valid.
func compacted(value protocol.Raw) (protocol.Raw, error) {
	err := value.Compact(jsontext.AllowDuplicateNames(true))
	if err == nil && !value.IsValid() {
		value = rawjson.Strict(value)
	}
	return value, err
}

// quoteStart quotes the beginning of a model's text, for messages.
func quoteStart(text string) string {
	if len(text) > maxQuoted {
		text = clip.Head(text, maxQuoted) + "..."
	}
	return fmt.Sprintf("%q", text)
}
