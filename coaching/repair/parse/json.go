package parse

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/kaptinlin/jsonrepair"

	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

// reader parses one text. Its budget for repairing near-JSON covers the whole text,
// which may hold JSON inside JSON many times.
type reader struct {
	quote.Quoter
	left int // bytes that may still be repaired
}

func newReader(q quote.Quoter) *reader { return &reader{Quoter: q, left: maxRepairTotal} }

// parse reads JSON or near-JSON: single quotes, names without quotes, Python's
// constants, trailing commas, missing brackets. The result is valid compact JSON.
func (r *reader) parse(text string) (protocol.Raw, error) {
	text = strings.TrimSpace(text)
	v, strict := JSON(text)
	if strict == nil {
		return v, nil
	}
	if err := repairable(text); err != nil {
		return nil, fmt.Errorf("it is not JSON (%w), and %w", strict, err)
	}
	if r.left -= len(text); r.left < 0 {
		return nil, fmt.Errorf("it is not JSON: %w", strict)
	}
	repaired, err := repairJSON(text)
	if err == nil {
		v, err = JSON(repaired)
	}
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", strict)
	}
	return v, nil
}

// JSON parses valid JSON and makes it compact.
func JSON(text string) (protocol.Raw, error) {
	v := protocol.Raw(text)
	if err := v.Compact(); err != nil { // reports no duplicate names
		return nil, jsonError(err)
	}
	if !v.IsValid() { // a name twice, or half of a surrogate pair
		_, err := jsontext.NewDecoder(bytes.NewReader(v)).ReadValue()
		return nil, jsonError(err)
	}
	return v, nil
}

func jsonError(err error) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("%s at offset %d", quote.OneLine(syntax.Err.Error()), syntax.ByteOffset)
	}
	return errors.New(quote.OneLine(err.Error()))
}

// repairable rejects near-JSON whose repair would invent content or take too long.
func repairable(text string) error {
	quotes := strings.Count(text, `"`) + strings.Count(text, "'")
	odd := 0 // quotes that the library mistakes for others
	for _, q := range []string{"`", "´", "‘", "’", "“", "”"} {
		odd += strings.Count(text, q)
	}
	brackets := strings.Count(text, "{") + strings.Count(text, "[") + strings.Count(text, "(")
	switch {
	case len(text) > maxRepair, quotes > maxRepairQuotes, odd > maxRepairOdd, brackets > maxRepairBrackets:
		return errors.New("too long or too deeply nested to be repaired")
	case !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "["):
		return errors.New("not an object or a list")
	case strings.Contains(text, "...") || strings.Contains(text, "…"):
		return errors.New("something was left out of it with dots")
	case cutOff(text):
		return errors.New("cut off in the middle of a value")
	}
	return nil
}

// cutOff reports whether near-JSON ends within a value. Only brackets may be missing.
func cutOff(text string) bool {
	var quote byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' && opensValue(text[:i]):
			quote = c
		}
	}
	return quote != 0 || !strings.ContainsRune(`}]"'`, rune(text[len(text)-1]))
}

// opensValue reports whether a quote after this text begins a string. Elsewhere it is
// an apostrophe.
func opensValue(before string) bool {
	before = strings.TrimRight(before, " \t\r\n")
	return before == "" || strings.ContainsRune("{[:,", rune(before[len(before)-1]))
}

// repairJSON calls the library, which panics on some malformed inputs.
func repairJSON(text string) (repaired string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("repair of JSON: %v", p)
		}
	}()
	return jsonrepair.Repair(text)
}

// jsonTexts are the parts of a text that may be the requested JSON, most likely first:
// the whole text, its fenced blocks, the parts between matching brackets. Later
// blocks and parts come first.
func jsonTexts(text string) []string {
	text = strings.TrimSpace(text)
	var found []string
	if startsJSON(text) {
		found = append(found, text)
	}
	for _, block := range slices.Backward(fenced(text)) {
		if startsJSON(block) {
			found = append(found, block)
		}
	}
	for _, s := range slices.Backward(bracketed(text)) {
		found = append(found, s.text)
	}
	return found
}

func startsJSON(text string) bool {
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}

// fenced are the contents of a text's Markdown code blocks. The last may be open.
func fenced(text string) (blocks []string) {
	for len(blocks) < maxJSONStarts {
		_, body, found := strings.Cut(text, "```")
		if !found {
			return blocks
		}
		if line, rest, ok := strings.Cut(body, "\n"); ok && !strings.ContainsAny(line, "{[") {
			body = rest // after the name of the language
		}
		block, rest, _ := strings.Cut(body, "```")
		blocks = append(blocks, strings.TrimSpace(block))
		text = rest
	}
	return blocks
}

// unfenced is the content of a text that is one Markdown code block, else the text.
func unfenced(text string) string {
	if strings.HasPrefix(text, "```") {
		if blocks := fenced(text); len(blocks) == 1 {
			return blocks[0]
		}
	}
	return text
}

// span is a part of a text with its offsets.
type span struct {
	text       string
	start, end int
}

// bracketed are the outermost parts of a text between matching brackets outside JSON
// strings. An open bracket begins the last part, which ends with the text.
func bracketed(text string) (spans []span) {
	for at := 0; len(spans) < maxJSONStarts; {
		start := strings.IndexAny(text[at:], "{[")
		if start < 0 {
			return spans
		}
		start += at
		end := closing(text, start)
		if end < 0 {
			end = len(text)
		}
		spans = append(spans, span{strings.TrimSpace(text[start:end]), start, end})
		at = end
	}
	return spans
}

// closing is the offset after the bracket that closes the one at start, or -1.
func closing(text string, start int) int {
	depth, quoted := 0, false
	for i := start; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}
