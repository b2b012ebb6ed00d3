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

// answerRule adds the rules of the JSON values that a schema admits, or of a plain
// text without a schema, and returns their root.
func answerRule(g *gbnf.Grammar, source protocol.Raw) (string, error) {
	if source == nil {
		g.AddText("answer", gbnf.Text{Forbidden: textMarks, NonBlank: true, NotFirst: "{"})
		return "answer", nil
	}
	d, err := schema.Parse(source)
	if err != nil {
		return "", err
	}
	return d.Add(g, schema.Options{})
}
