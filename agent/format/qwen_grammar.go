package format

import (
	"fmt"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/schema"
	"agentd/agent/tools"
	"agentd/protocol"
)

// callMarks never occur in a reply: they would make it something else.
var callMarks = []string{"<tool_call>", "</tool_call>", "<think>", "</think>"}

// grammar admits what Parse accepts for these tools, with the spacing of the calls in the prompt:
//
//	root ::= think? (call ("\n" call)* | reply)
func (q *qwen) grammar(g *gbnf.Grammar, c *Catalog) error {
	set, answer := c.Set, "reply"
	g.AddText("reply", gbnf.Text{Forbidden: callMarks, NonBlank: true})
	if len(set.Tools) > 0 {
		answer = either(set, "calls", "reply")
		g.Add("calls", fmt.Sprintf(`call ( "\n" call ){0,%d}`, q.most(set)-1))
		open, closed := "<tool_call>\n{\"name\": \"", "}\n</tool_call>"
		add := func(rule string, tool *tools.Tool) error {
			return addFunction(g, rule, tool, `", "arguments": `, q.addRobot(g, set, jsonString))
		}
		if q.xml {
			open, closed = "<tool_call>\n<function=", "</function>\n</tool_call>"
			add = func(rule string, tool *tools.Tool) error { return q.addTagged(g, rule, set, tool) }
		}
		if err := addCall(g, "call", set, gbnf.Literal(open), gbnf.Literal(closed), add); err != nil {
			return err
		}
	}
	g.Add("root", q.before(g)+answer)
	return nil
}

func (q *qwen) before(g *gbnf.Grammar) string { return thinkRule(g, q.think, q.openThink) }

// thinkRule adds the block of thoughts before an answer, if there is one. open: the prompt opens it.
func thinkRule(g *gbnf.Grammar, think, open bool) string {
	if !think {
		return ""
	}
	g.AddText("thoughts", gbnf.Text{Forbidden: []string{"<think>"}, Until: "</think>"})
	body := "thoughts " + gbnf.Literal("\n\n")
	if !open {
		body = gbnf.Literal("<think>\n") + " " + body
	}
	g.Add("think", body)
	return "think "
}

// addCall adds a rule: one of the tools' rules, which add defines, between two expressions.
func addCall(g *gbnf.Grammar, name string, set *tools.Set, before, after string, add func(rule string, tool *tools.Tool) error) error {
	names := make([]string, len(set.Tools))
	for i := range set.Tools {
		names[i] = fmt.Sprintf("tool-%d", i)
		if err := add(names[i], &set.Tools[i]); err != nil {
			return err
		}
	}
	g.Add(name, before+" "+gbnf.Alternatives(names)+" "+after)
	return nil
}

// addFunction adds a tool's rule for calls in JSON: its name, what follows it, the arguments.
func addFunction(g *gbnf.Grammar, rule string, tool *tools.Tool, next, robot string) error {
	args, err := addArguments(g, tool, robot)
	g.Add(rule, gbnf.Literal(jsonText(tool.Name)+next)+" "+args)
	return err
}

// jsonText is s as it stands between the quotes of a JSON string.
func jsonText(s string) string {
	quoted := protocol.String(s)
	return string(quoted[1 : len(quoted)-1])
}

// addTagged adds a tool's rule for tagged parameters in order. A tool over its share gets any parameters.
func (r rules) addTagged(g *gbnf.Grammar, name string, set *tools.Set, tool *tools.Tool) error {
	fits, err := g.Try(func() error { return r.addParameters(g, name, set, tool) })
	if err != nil || fits {
		return err
	}
	const text = "any-text"
	g.AddText(text, gbnf.Text{Forbidden: []string{"</parameter>"}, Until: parameterEnd})
	free := g.Rule(`"<parameter=" [^<>\r\n]+ ">\n" ` + text + ` "\n"`)
	robot := ""
	if !set.Chat {
		robot, err = r.addParameter(g, set, tool, &tool.Properties[len(tool.Properties)-1])
	}
	g.Add(name, gbnf.Literal(tool.Name+">\n")+" "+free+"* "+robot)
	return err
}

func (r rules) addParameters(g *gbnf.Grammar, name string, set *tools.Set, tool *tools.Tool) error {
	body := []string{gbnf.Literal(tool.Name + ">\n")}
	for i := range tool.Properties {
		p := &tool.Properties[i]
		rule, err := r.addParameter(g, set, tool, p)
		switch {
		case err == nil:
		case p.Required:
			return unusable(tool, err)
		default:
			continue // it can only be left out
		}
		if !p.Required {
			rule += "?"
		}
		body = append(body, rule)
	}
	g.Add(name, strings.Join(body, " "))
	return nil
}

// addParameter adds the rule of a parameter with its tags and returns its name.
func (r rules) addParameter(g *gbnf.Grammar, set *tools.Set, tool *tools.Tool, p *tools.Property) (string, error) {
	value, err := r.addValue(g, set, tool, p)
	if err != nil {
		return "", err
	}
	return g.Rule(gbnf.Literal("<parameter="+p.Name+">\n") + " " + value), nil
}

const parameterEnd = "\n</parameter>"

// addValue returns a body that matches a parameter's value and its closing tag, and adds its rules.
func (r rules) addValue(g *gbnf.Grammar, set *tools.Set, tool *tools.Tool, p *tools.Property) (string, error) {
	if p.Name != tool.RobotParam {
		return tool.Document.AddMember(g, tool.Document.Member(p.Name), parameterEnd+"\n", schema.Options{})
	}
	if len(set.Robots) == 0 {
		const text = "robot-text"
		g.AddText(text, gbnf.Text{Forbidden: []string{"</parameter>"}, Until: parameterEnd, NonBlank: true})
		return text + " " + gbnf.Literal("\n"), nil
	}
	return r.addRobot(g, set, func(name string) string { return name }) + " " + gbnf.Literal(parameterEnd+"\n"), nil
}

func memberOf(set *tools.Set, tool *tools.Tool, parameter string) schema.Member {
	if parameter == tool.RobotParam {
		return schema.Member{Kind: schema.Text, Texts: set.Robots}
	}
	return tool.Document.Member(parameter)
}
