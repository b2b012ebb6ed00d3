package format

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/schema"
	"agentd/agent/tools"
	"agentd/protocol"
)

// textMarks must not occur in a plain text, in any format.
var textMarks = slices.Concat(callMarks, harmonyMarks, llamaMarks)

// ReadSummary parses the answer to an input with Summarize, also a truncated one. It is trimmed, without reasoning.
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

// AnswerCatalog returns the catalog of a set without tools. An answer is reasoning, if the model reasons, and a value
// of set.Answer, widened to any value if the grammar would be too large. Without a schema an answer is a text that is
// not blank and does not look like a call, reasoning or JSON.
func AnswerCatalog(f Format, set *tools.Set) *Catalog {
	return &Catalog{Set: set, json: protocol.Raw("[]"), spacing: gbnf.AnySpacing, build: func(g *gbnf.Grammar, c *Catalog) error {
		g.Add("root", f.before(g)+"reply")
		return c.addReply(g, gbnf.Text{Forbidden: textMarks, NonBlank: true, NotFirst: "{"}, "")
	}}
}

// addReply adds the rule reply: a value of set.Answer, widened to any value if the grammar would be too large, or
// without a schema a text, with the expression calls of introduced. With MayEnd a text may be missing.
func (c *Catalog) addReply(g *gbnf.Grammar, text gbnf.Text, calls string) error {
	if c.Set.Answer == nil {
		g.AddText("say", text)
		reply := "say" + calls
		if c.Set.MayEnd {
			reply = "( " + reply + " )?"
		}
		g.Add("reply", reply)
		return nil
	}
	var answer string
	fits, err := g.Try(func() (err error) {
		answer, err = c.Set.Answer.Add(g, schema.Options{})
		return err
	})
	if err != nil {
		return fmt.Errorf("the schema of answers can't be made a grammar: %w", err)
	}
	if !fits {
		answer = g.JSON(gbnf.AnyValue)
	}
	g.Add("reply", answer)
	return nil
}
