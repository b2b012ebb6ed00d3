package format

import (
	"errors"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/schema"
	"agentd/agent/tools"
	"agentd/protocol"
)

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

// AnswerCatalog is the catalog of a set without tools. Answers are thoughts, where the model has
// them, and a value of set.Answer, widened to any value if the grammar is too large. Without a
// schema an answer is a text that is not blank and does not look like a call, thoughts or JSON.
func AnswerCatalog(f Format, set *tools.Set) *Catalog {
	return &Catalog{Set: set, json: protocol.Raw("[]"), spacing: gbnf.AnySpacing, build: func(g *gbnf.Grammar, c *Catalog) error {
		answer, fits := "answer", true
		if c.Set.Answer == nil {
			g.AddText(answer, gbnf.Text{Forbidden: textMarks, NonBlank: true, NotFirst: "{"})
		} else {
			var err error
			fits, err = g.Try(func() (err error) {
				answer, err = c.Set.Answer.Add(g, schema.Options{})
				return err
			})
			if err != nil {
				return err
			}
		}
		if !fits {
			answer = g.JSON(gbnf.AnyValue)
		}
		g.Add("root", f.before(g)+answer)
		return nil
	}}
}
