package parse

import (
	"errors"
	"strings"
)

// thoughtsEnd ends a model's thoughts.
const thoughtsEnd = "</think>"

// withoutThoughts removes leading thoughts, whose opening mark may be in the prompt.
// Marks of calls inside them are ignored.
func withoutThoughts(text string) (string, error) {
	answer := afterThoughts(text)
	if len(answer) == len(text) && strings.Contains(text, "<think>") {
		return "", errors.New("the raw output ends within the model's thoughts")
	}
	return strings.TrimSpace(answer), nil
}

// openings are marks that begin thoughts, each with the mark before the answer.
var openings = []struct{ open, end string }{
	{"<think>", thoughtsEnd},
	{"<thinking>", "</thinking>"},
	{"<reasoning>", "</reasoning>"},
	{"[THINK]", "[/THINK]"},
	{"<|channel|>analysis", "<|channel|>final"},
	{"<|channel|>thought", "<channel|>"},
}

// checkThoughts rejects an answer that ends within its thoughts.
func checkThoughts(answer string) error {
	answer = strings.TrimPrefix(strings.TrimSpace(answer), "<|start|>assistant")
	for _, mark := range openings {
		if strings.HasPrefix(answer, mark.open) && !strings.Contains(answer, mark.end) {
			return errors.New("the answer ends within its thoughts; think less, and write the JSON object after them")
		}
	}
	return nil
}

// afterThoughts is a model's answer without leading thoughts. A mark inside a JSON
// string of the answer is ignored: the text after it would be half an answer.
func afterThoughts(text string) string {
	if _, err := JSON(text); err == nil {
		return text
	}
	start, depth, tried := 0, 0, 0
	var quoted byte // the open quotation mark; strings count only within brackets
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case strings.HasPrefix(text[i:], thoughtsEnd):
			if quoted != 0 {
				if tried++; tried > maxJSONStarts || !isWhole(text[i+len(thoughtsEnd):]) {
					continue
				}
				// The quotation mark belonged to the thoughts.
			}
			start, depth, quoted = i+len(thoughtsEnd), 0, 0
			i = start - 1
		case quoted != 0 && c == '\\':
			i++
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case depth > 0 && (c == '"' || c == '\'' && opensValue(text[:i])):
			quoted = c
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth = max(depth-1, 0)
		}
	}
	if start == 0 && !looksJSON(text) {
		// A quotation mark in the thoughts that was never closed hides their end.
		if i := strings.LastIndex(text, thoughtsEnd); i >= 0 {
			return text[i+len(thoughtsEnd):]
		}
	}
	return text[start:]
}

// looksJSON reports whether a text begins as an answer without thoughts.
func looksJSON(text string) bool {
	text = strings.TrimSpace(text)
	return startsJSON(text) || strings.HasPrefix(text, "```")
}

// isWhole reports whether a text is JSON and nothing else, except for a fence. The
// rest of a string never is, since its quotation marks are escaped.
func isWhole(text string) bool {
	v, err := JSON(unfenced(strings.TrimSpace(text)))
	return err == nil && strings.Contains(string(v), `"`)
}
