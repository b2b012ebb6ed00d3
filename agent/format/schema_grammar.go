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

// answerRule adds the rules of the JSON values that a schema admits, or of a plain
// text without a schema, and returns their root. Where no grammar can be made of it any object is admitted: whoever asks checks
// the answer anyway, and a free answer is better than none.
func answerRule(g *gbnf.Grammar, source protocol.Raw) (string, error) {
	if source == nil {
		g.AddText("answer", gbnf.Text{Forbidden: textMarks, NonBlank: true, NotFirst: "{"})
		return "answer", nil
	}
	if d, err := schema.Parse(source); err == nil {
		if root, err := d.Add(g, schema.Options{}); err == nil && g.TooLarge() == nil {
			return root, nil
		}
	}
	return g.JSON(gbnf.AnyObject), nil
}
