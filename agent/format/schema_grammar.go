package format

import (
	"fmt"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/schema"
	"agentd/agent/tools"
	"agentd/protocol"
)

// addArguments adds the rules of a tool's arguments and returns the name of their root. robot
// is the rule of the robot's parameter, "" where calls name their robots elsewhere.
func addArguments(g *gbnf.Grammar, tool *tools.Tool, robot string) (string, error) {
	o := schema.Options{Object: true}
	if robot != "" {
		o.Extra = []schema.Extra{{Name: tool.RobotParam, Rule: robot}}
	}
	root, err := addDocument(g, tool.Document(), o)
	if err != nil {
		return "", unusable(tool, err)
	}
	return root, nil
}

// anything is the schemas of any value and of any object.
var anything, anyObject = parsed("true"), parsed(`{"type":"object"}`)

func parsed(source string) *schema.Document {
	d, err := schema.Parse(protocol.Raw(source))
	if err != nil {
		panic(err)
	}
	return d
}

// addDocument adds the rules of a schema and returns the name of their root. A schema that takes
// more than its share of the grammar is widened to any value, or to any object.
func addDocument(g *gbnf.Grammar, d *schema.Document, o schema.Options) (root string, err error) {
	fits, err := g.Try(g.Share, func() (err error) {
		root, err = d.Add(g, o)
		return err
	})
	if err != nil || fits {
		return root, err
	}
	if o.Object {
		return anyObject.Add(g, o)
	}
	return anything.Add(g, o)
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
		if root, err := addDocument(g, d, schema.Options{}); err == nil {
			return root, nil
		}
	}
	return g.JSON(gbnf.AnyObject), nil
}
