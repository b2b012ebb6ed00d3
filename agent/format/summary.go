package format

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// summaryRequest stands in place of the current instruction when the history is to
// be summarized. What the system part says stays in the prompt of the next step, so
// a summary need not repeat it, save the earlier summary, which it replaces.
const summaryRequest = `Take no step now. Instead write a summary of this conversation. It replaces the conversation and any earlier summary: only what it says is remembered.

- Keep what may matter later: the tasks that are not done yet and how far they are, what people asked for or promised, where objects and robots are and in what state, results and failures, calls whose result has not come.
- Carry over what is still true of the earlier summary, if there is one.
- Leave out what is obsolete, repeated, or said by the permanent rules and the tools.

Answer with the text of the summary alone, without a heading and without calling a tool.`

// openResult stands for the result of a call that is not in the history yet: the
// current instruction may be it.
const openResult = `{"status": "pending"}`

func summaryMessage() message {
	return message{role: roleUser, content: summaryRequest, aside: true}
}

// textMarks never occur in a plain text, whatever the model's format.
var textMarks = slices.Concat(callMarks, harmonyMarks, llamaMarks)

// ReadSummary reads an answer to an input with Summarize, without the token that
// ended it: a text that is not blank, trimmed. Thoughts are dropped. A text that was
// cut off at the limit of tokens is read as far as it goes.
func ReadSummary(f Format, text string) (string, error) {
	summary, err := f.ParseChat(strings.ToValidUTF8(text, ""))
	if err != nil {
		return "", err
	}
	for _, mark := range textMarks {
		if strings.Contains(summary, mark) {
			return "", fmt.Errorf("the output has a stray %s", mark)
		}
	}
	summary = strings.TrimSpace(summary)
	switch {
	case summary == "":
		return "", errors.New("the output is blank")
	case summary[0] == '{': // as calls and decisions of some formats do
		return "", errors.New("the output is JSON, not a text")
	}
	return summary, nil
}
