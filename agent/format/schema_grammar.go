package format

import (
	"fmt"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/schema"
	"agentd/agent/tools"
	"agentd/protocol"
)

// addArguments adds the rules of a tool's arguments and returns the name of their root. robot
// is the rule of the robot's parameter, "" where calls name their robots elsewhere. Arguments
// that take more than their share of the grammar are widened to any object.
func addArguments(g *gbnf.Grammar, tool *tools.Tool, robot string) (string, error) {
	o := schema.Options{Object: true}
	if robot != "" {
		o.Extra = []schema.Extra{{Name: tool.RobotParam, Rule: robot}}
	}
	root := ""
	fits, err := g.Try(func() (err error) {
		root, err = tool.Document().Add(g, o)
		return err
	})
	switch {
	case err != nil:
		return "", unusable(tool, err)
	case fits:
		return root, nil
	case robot == "":
		return g.JSON(gbnf.AnyObject), nil
	}
	others := g.Seq().Text("(").Text(g.JSON(gbnf.AnyPair)).Comma().Text(")*").String()
	return g.Rule(g.Seq().Open("{").Text(others).Literal(string(protocol.String(tool.RobotParam))).Colon().Rule(robot).Close("}").String()), nil
}

func unusable(tool *tools.Tool, err error) error {
	return fmt.Errorf("the parameters of %s can't be made a grammar: %w", tool.Name, err)
}

// AnswerCatalog is the catalog of a set without tools. Answers are thoughts, where the model has
// them, and a JSON value that set.Answer admits. Without one the answer is a text that is not blank,
// has no mark of a call, thought or message, and does not begin like a JSON object. A schema that
// is too large for a grammar is widened to any value.
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
