package repair

import (
	"errors"
	"strings"
)

// thoughtsEnd is the mark between what a model thought and what it wrote.
const thoughtsEnd = "</think>"

// withoutThoughts cuts off leading thoughts, whose opening may be in the prompt.
// Marks of calls inside of them don't count.
func withoutThoughts(text string) (string, error) {
	answer := behindThoughts(text)
	if len(answer) == len(text) && strings.Contains(text, "<think>") {
		return "", errors.New("the raw output ends within the model's thoughts")
	}
	return strings.TrimSpace(answer), nil
}

// openings are the marks of thoughts that begin an answer, each with the mark behind which the
// answer proper stands.
var openings = []struct{ open, end string }{
	{"<think>", thoughtsEnd},
	{"<thinking>", "</thinking>"},
	{"<reasoning>", "</reasoning>"},
	{"[THINK]", "[/THINK]"},
	{"<|channel|>analysis", "<|channel|>final"},
	{"<|channel|>thought", "<channel|>"},
}

// checkThoughts refuses an answer that ends within its thoughts: what was only considered is
// no correction.
func checkThoughts(answer string) error {
	answer = strings.TrimPrefix(strings.TrimSpace(answer), "<|start|>assistant")
	for _, mark := range openings {
		if strings.HasPrefix(answer, mark.open) && !strings.Contains(answer, mark.end) {
			return errors.New("the answer ends within its thoughts; think less, and write the JSON object behind them")
		}
	}
	return nil
}

// behindThoughts is what a model wrote after it thought aloud. A mark in a string of
// the answer ends no thoughts: behind it stands half an answer, which may lack the
// outcome.
func behindThoughts(text string) string {
	if _, err := parseStrict(text); err == nil {
		return text
	}
	start, depth, tried := 0, 0, 0
	var quote byte // that began the string; only JSON has strings, so they count within brackets
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case strings.HasPrefix(text[i:], thoughtsEnd):
			behind := text[i+len(thoughtsEnd):]
			if quote != 0 {
				if tried++; tried > maxJSONStarts || !isWhole(behind) {
					continue
				}
				// The quotation mark belonged to the thoughts.
			}
			start, depth, quote = i+len(thoughtsEnd), 0, 0
			i = start - 1
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case depth > 0 && (c == '"' || c == '\'' && opensValue(text[:i])):
			quote = c
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

// looksJSON tells whether a text begins as an answer without thoughts.
func looksJSON(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") || strings.HasPrefix(text, "```")
}

// isWhole tells whether a text is JSON and nothing else, but for a fence. The rest of
// a string never is: what it quotes is escaped.
func isWhole(text string) bool {
	v, err := parseStrict(unfenced(strings.TrimSpace(text)))
	return err == nil && strings.Contains(string(v), `"`)
}
