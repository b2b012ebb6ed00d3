package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/rawjson"
	"agentd/agent/tools"
	"agentd/internal/clip"
	"agentd/protocol"
)

// Errors that more than one parser returns.
var (
	errNothing = errors.New("the output has neither a reply nor a tool call")
	errMixed   = errors.New("the output has text beside tool calls; it must be one or the other")
)

// decide makes a decision of what was read. The error is the first reason why it can't be one.
func (r rules) decide(set *tools.Set, say string, calls []tools.Call, reasoning []string) (Decision, error) {
	d := Decision{Reasoning: reasoning}
	say = strings.TrimSpace(say)
	if len(calls) > 0 {
		d.CallForm = FormNative
	} else if len(set.Tools) > 0 {
		var err error
		if calls, d.CallForm, err = r.recognise(say, set); err != nil {
			return d, err
		}
		if len(calls) > 0 {
			say = ""
		}
	}
	switch {
	case len(calls) == 0 && say == "":
		return d, errNothing
	case len(calls) == 0:
		d.Say = say
		return d, nil
	case say != "" && r.mixed != MixedTools:
		return d, errMixed
	}
	called := make(map[string]string, len(calls)) // tools by robot
	for i := range calls {
		call := &calls[i]
		if !r.once || call.TargetRobotName == "" { // in a chat
			if slices.ContainsFunc(calls[:i], func(c tools.Call) bool { return equalCalls(&c, call) }) {
				return d, fmt.Errorf("the call of %s is there twice with the same arguments; each call may be there once", call.Name)
			}
			continue
		}
		if other, ok := called[call.TargetRobotName]; ok {
			return d, fmt.Errorf("the robot %q has two calls, of %s and %s; a decision may have one for each robot (calls_per_robot any allows more)",
				call.TargetRobotName, other, call.Name)
		}
		called[call.TargetRobotName] = call.Name
	}
	d.ToolCalls = calls
	return d, nil
}

func equalCalls(a, b *tools.Call) bool {
	return a.Name == b.Name && a.TargetRobotName == b.TargetRobotName && bytes.Equal(a.Arguments, b.Arguments)
}

// splitThoughts cuts off a leading block of thoughts, which the prompt has opened if open.
// The end alone counts too, if mark, with which the answer begins, is not before it.
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

// stray refuses marks that show a reply to be something else cut open.
func stray(text string, marks []string) error {
	for _, mark := range marks {
		if strings.Contains(text, mark) {
			return fmt.Errorf("the output has a stray %s", mark)
		}
	}
	return nil
}

// readJSON reads one JSON value and returns what follows. Numbers and strings keep their bytes. Of equal
// names in an object the last counts, as in Python. Errors begin with what, such as "an action is".
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

// compacted removes white space between tokens. It changes value.
func compacted(value protocol.Raw) (protocol.Raw, error) {
	err := value.Compact(jsontext.AllowDuplicateNames(true))
	if err == nil && !value.IsValid() {
		value = rawjson.Strict(value)
	}
	return value, err
}

// quoteStart is the beginning of what a model wrote, quoted, for messages.
func quoteStart(text string) string {
	if len(text) > maxQuoted {
		text = clip.Head(text, maxQuoted) + "..."
	}
	return fmt.Sprintf("%q", text)
}

// summaryRequest replaces the instruction if the history is to be summarized. The rest
// of the system message stays in the next prompt, so a summary need not repeat it.
const summaryRequest = `Take no step now. Instead write a summary of this conversation. It replaces the conversation and any earlier summary: only what it says is remembered.

- Keep what may matter later: the tasks that are not done yet and how far they are, what people asked for or promised, where objects and robots are and in what state, results and failures, calls whose result has not come.
- Carry over what is still true of the earlier summary, if there is one.
- Leave out what is obsolete, repeated, or said by the permanent rules and the tools.

Answer with the text of the summary alone, without a heading and without calling a tool.`

// openResult stands for the result of a call that is not in the history yet.
const openResult = `{"status": "pending"}`

// textMarks never occur in a plain text, whatever the model's format.
var textMarks = slices.Concat(callMarks, harmonyMarks, llamaMarks)

// ReadSummary reads an answer to an input with Summarize,
// trimmed and without thoughts, also one that was cut off.
func ReadSummary(f Format, text string) (string, error) {
	summary, err := f.ParseChat(strings.ToValidUTF8(text, ""))
	if err != nil {
		return "", err
	}
	err = stray(summary, textMarks)
	summary = strings.TrimSpace(summary)
	switch {
	case err != nil:
		return "", err
	case summary == "":
		return "", errors.New("the output is blank")
	case summary[0] == '{': // as calls and decisions of some formats do
		return "", errors.New("the output is JSON, not a text")
	}
	return summary, nil
}
