package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/rawjson"
	"agentd/agent/tools"
	"agentd/protocol"
)

// Errors that more than one parser returns.
var (
	errNothing = errors.New("the output has neither a reply nor a tool call")
	errMixed   = errors.New("the output has text beside tool calls; it must be one or the other")
)

// decide makes the decision of what a parser found.
func decide(say string, calls []tools.Call, reasoning []string, r rules) (Decision, error) {
	d := Decision{Reasoning: reasoning}
	say = strings.TrimSpace(say)
	switch {
	case len(calls) == 0 && say == "":
		return d, errNothing
	case len(calls) > 0 && say != "" && r.mixed != MixedTools:
		return d, errMixed
	case len(calls) > 0:
		if err := r.check(calls); err != nil {
			return d, err
		}
		d.Calls = calls
	default:
		d.Say = say
	}
	return d, nil
}

// thoughtsEnd ends a block of thoughts.
const thoughtsEnd = "</think>"

// splitThoughts cuts off a leading block of thoughts. Where the prompt has
// opened it, only its end is here. Else the end alone counts too, as long as
// mark, which begins the answer proper, is not before it.
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

// checkReply refuses marks that show a reply to be something else cut open.
func checkReply(text string) error {
	for _, mark := range callMarks {
		if strings.Contains(text, mark) {
			return fmt.Errorf("the output has a stray %s", mark)
		}
	}
	return nil
}

// readJSON reads one JSON value at the start of text and returns what follows.
// Numbers and strings keep their bytes, white space between tokens goes. A name
// that an object has twice counts where it stands last, as in Python.
func readJSON(text string) (value protocol.Raw, rest string, err error) {
	d := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))
	raw, err := d.ReadValue()
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, text, errors.New("the JSON ends too early")
		}
		return nil, text, fmt.Errorf("no valid JSON (%s)", strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	rest = text[d.InputOffset():]
	value = bytes.Clone(raw)
	if err := value.Compact(jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, text, err
	}
	if !value.IsValid() {
		value = rawjson.Strict(value)
	}
	return value, rest, nil
}

// quoteStart is the beginning of what a model wrote, quoted, for messages.
func quoteStart(text string) string {
	if len(text) > maxQuoted {
		cut := maxQuoted
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "..."
	}
	return fmt.Sprintf("%q", text)
}
