// Package parse parses the answers of coaches and the raw outputs of models, in any notation.
// It does not check their content.
//
// Each file uses only files after it: output.go, answer.go, decision.go, json.go, limits.go.
package parse

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

// Outcomes of an answer.
const (
	outcomeCorrected = "corrected"
	outcomeAbandoned = "abandoned"
)

// Names of an answer's members, ours first.
var (
	outcomeNames = []string{"outcome", "status"}
	whyNames     = []string{"why", "reason", "explanation"}
	pointNames   = []string{"reinjection_point_id", "reinjection_point", "point_id", "point"}
)

// Answer is the answer of a model or a person, not checked.
type Answer struct {
	Abandoned bool
	Why       string
	Point     string // "" if none was named
	Decision  Decision
}

// ModelAnswer parses a model's answer: the JSON it was asked for, also fenced, with
// text around it, or nearly JSON. Leading thoughts are skipped. The error says
// what the model should write instead. keys are taken out of errors.
func ModelAnswer(text string, keys quote.Quoter) (*Answer, error) {
	text = afterThoughts(text)
	begun := strings.TrimPrefix(strings.TrimSpace(text), "<|start|>assistant")
	for _, mark := range openings {
		if strings.HasPrefix(begun, mark.open) && !strings.Contains(begun, mark.end) {
			return nil, errors.New("the answer ends within its thoughts; think less, and write the JSON object after them")
		}
	}
	return HumanAnswer(text, keys)
}

// HumanAnswer parses a person's answer: a model's answer without thoughts, a
// decision, or a list of calls. JSON is preferred to near-JSON, and a value
// with an answer's members to other JSON.
func HumanAnswer(text string, keys quote.Quoter) (*Answer, error) {
	r := newReader(keys)
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the answer has %d bytes, but at most %d are read; write the JSON object alone", len(text), MaxBytes)
	}
	if v, ok := wrapped(text); ok {
		return r.readAnswer(v)
	}
	candidates := jsonTexts(text)
	var other protocol.Raw
	for _, parse := range []func(string) (protocol.Raw, error){JSON, r.parse} {
		for _, candidate := range candidates {
			v, err := parse(candidate)
			switch {
			case err != nil:
			case isAnswer(v):
				return r.readAnswer(v)
			case other == nil && (v.Kind() == '[' || len(v) > len("{}")):
				other = v
			}
		}
		if other != nil {
			return r.readAnswer(other)
		}
	}
	if text = strings.TrimSpace(text); strings.HasPrefix(text, `"`) {
		if v, err := JSON(text); err == nil {
			return r.readAnswer(v)
		}
	}
	if len(candidates) == 0 {
		return nil, errors.New(`the answer holds no JSON; write one JSON object, for a text {"say": "..."} as its decision`)
	}
	_, err := r.parse(candidates[0])
	if err == nil {
		err = errors.New("it is empty")
	}
	return nil, fmt.Errorf("the answer can't be read: %w", err)
}

// wrapped returns the answer inside a JSON string or a list of one element: some models encode their answer twice.
func wrapped(text string) (protocol.Raw, bool) {
	v, err := JSON(unfenced(strings.TrimSpace(text)))
	for layer := 0; err == nil && layer < 3; layer++ {
		switch v.Kind() {
		case '{':
			return v, layer > 0 && isAnswer(v)
		case '"':
			inner, _ := protocol.Text(v)
			v, err = JSON(strings.TrimSpace(inner))
		case '[':
			list := slices.Collect(protocol.Elements(v))
			if len(list) != 1 {
				return nil, false
			}
			v = list[0]
		default:
			return nil, false
		}
	}
	return nil, false
}

func isAnswer(v protocol.Raw) bool {
	if v.Kind() != '{' {
		return false
	}
	_, decides := protocol.Get(v, "decision")
	_, ends := member(v, outcomeNames)
	return decides || ends
}

func (r *reader) readAnswer(v protocol.Raw) (*Answer, error) {
	a := new(Answer)
	if v.Kind() != '{' {
		var err error
		a.Decision, err = r.readDecision(v)
		return a, err
	}
	if outcome, ok := member(v, outcomeNames); ok {
		text, _ := protocol.Text(outcome)
		switch strings.ToLower(strings.TrimSpace(text)) {
		case outcomeCorrected:
		case outcomeAbandoned, "abandon", "declined":
			a.Abandoned = true
		default:
			return nil, fmt.Errorf("outcome must be %q or %q, not %s", outcomeCorrected, outcomeAbandoned, r.Quote(string(outcome)))
		}
	}
	if why, ok := member(v, whyNames); ok {
		text, _ := protocol.Text(why)
		a.Why = quote.Clip(r.Keys.Text(strings.TrimSpace(text)), MaxWhy)
	}
	if a.Abandoned {
		return a, nil
	}
	if point, ok := member(v, pointNames); ok {
		if a.Point, ok = protocol.Text(point); !ok {
			a.Point = string(point) // the number of a step
		}
	}
	decision, ok := protocol.Get(v, "decision")
	if !ok {
		decision = v
		for _, name := range slices.Concat(outcomeNames, whyNames, pointNames) {
			decision = protocol.DeleteMember(decision, name)
		}
	}
	var err error
	a.Decision, err = r.readDecision(decision)
	return a, err
}

// thoughtsEnd is the mark after a model's reasoning.
const thoughtsEnd = "</think>"

// openings are marks that begin reasoning, each with the mark before the answer.
var openings = []struct{ open, end string }{
	{"<think>", thoughtsEnd},
	{"<thinking>", "</thinking>"},
	{"<reasoning>", "</reasoning>"},
	{"[THINK]", "[/THINK]"},
	{"<|channel|>analysis", "<|channel|>final"},
	{"<|channel|>thought", "<channel|>"},
}

// afterThoughts returns a model's answer without leading reasoning. A mark inside a JSON string of
// the answer is ignored, since the text after it is half an answer.
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
	trimmed := strings.TrimSpace(text)
	if start == 0 && !startsJSON(trimmed) && !strings.HasPrefix(trimmed, "```") {
		// A quotation mark in the thoughts that was never closed hides their end.
		if i := strings.LastIndex(text, thoughtsEnd); i >= 0 {
			return text[i+len(thoughtsEnd):]
		}
	}
	return text[start:]
}

// isWhole reports whether a text is JSON and nothing else, except for a fence. The
// rest of a string never is, since its quotation marks are escaped.
func isWhole(text string) bool {
	v, err := JSON(unfenced(strings.TrimSpace(text)))
	return err == nil && strings.Contains(string(v), `"`)
}
