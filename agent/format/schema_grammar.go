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
	root, err := tool.Document().Add(g, o)
	if err != nil {
		return "", unusable(tool, err)
	}
	return root, nil
}

func unusable(tool *tools.Tool, err error) error {
	return fmt.Errorf("the parameters of %s can't be made a grammar: %w", tool.Name, err)
}

// ChatGrammar is the grammar of answers in a chat: thoughts, where the model has them, and a JSON
// value that the schema admits. Without a schema the answer is a text that is not blank, has no
// mark of a call, thought or message, and does not begin like a JSON object.
func ChatGrammar(f Format, source protocol.Raw) (string, error) {
	g := gbnf.New(gbnf.AnySpacing)
	answer := "answer"
	if source == nil {
		g.AddText(answer, gbnf.Text{Forbidden: textMarks, NonBlank: true, NotFirst: "{"})
	} else {
		d, err := schema.Parse(source)
		if err == nil {
			answer, err = d.Add(g, schema.Options{})
		}
		if err != nil {
			return "", err
		}
	}
	g.Add("root", f.before(g)+answer)
	return g.String(), nil
}
