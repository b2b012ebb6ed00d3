package format

import (
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/schema"
	"agentd/agent/tools"
	"agentd/protocol"
)

// callMarks must not occur in a reply, whose meaning they would change.
var callMarks = []string{"<tool_call>", "</tool_call>", "<think>", "</think>"}

// grammar admits what Parse accepts for these tools, with the spacing of the calls in the prompt:
//
//	root ::= think? (calls | a call in another form | reply calls?)
//	calls ::= call ("\n" call)*
//
// Calls after a reply are only for rules.introduced.
func (q *qwen) grammar(g *gbnf.Grammar, c *Catalog) error {
	set, answer := c.Set, "reply"
	reply := gbnf.Text{Forbidden: callMarks, NonBlank: true}
	if len(set.Tools) > 0 {
		if q.inJSON() { // such models copy marks of the prompt, which say nothing
			reply.Forbidden = append(slices.Clone(callMarks), toolsOpen, toolsClose, "<tool_response>")
		}
		g.Add("calls", fmt.Sprintf(`call ( %s"\n" call ){0,%d}`, q.unit(set, gbnf.UnitNext), q.most(set)-1))
		begin, end := q.unit(set, gbnf.UnitBegin), q.unit(set, gbnf.UnitEnd)
		open, closed := begin+gbnf.Literal(`{"name": "`), end+gbnf.Literal("}\n</tool_call>")
		objects := functions{g: g, robot: q.addRobot(g, set, jsonString), next: callArguments}
		add := objects.add
		if q.xml {
			open, closed = begin+gbnf.Literal(functionOpen), `"<" `+end+gbnf.Literal("/function>\n</tool_call>")
			add = func(rule string, tool *tools.Tool) error { return q.addTagged(g, rule, set, tool) }
		}
		if err := addCall(g, "call", set, gbnf.Literal("<tool_call>\n")+" "+open, closed, add); err != nil {
			return err
		}
		if q.xml {
			if err := objects.addAll(c); err != nil {
				return err
			}
		}
		answer = q.addForms(g, c, &reply, "calls", objects.forms(end))
	}
	g.Add("root", q.before(g)+answer)
	return c.addReply(g, reply, q.introduced(set, "calls"))
}

// before adds the rule of a <think> block and returns a reference.
func (c *common) before(g *gbnf.Grammar) string {
	if !c.think {
		return ""
	}
	g.AddText("thoughts", gbnf.Text{Forbidden: []string{"<think>"}, Until: "</think>"})
	body := "thoughts " + gbnf.Literal("\n\n")
	if !c.inThoughts {
		body = gbnf.Literal("<think>\n") + " " + body
	}
	g.Add("think", body)
	return "think "
}

// addCall adds a rule: the alternatives of the tools' rules, which add defines, between two expressions.
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

// functions adds the rules of calls in JSON: a tool's name, next, the arguments.
type functions struct {
	g     *gbnf.Grammar
	robot string // rule of the robot, which is one of the arguments; "" for none
	next  string // between name and arguments

	rules, args []string // of the tools
}

// callArguments is between a call's name and its arguments.
const callArguments = `", "arguments": `

func (f *functions) add(rule string, tool *tools.Tool) error {
	args, err := addArguments(f.g, tool, f.robot)
	f.g.Add(rule, f.head(jsonText(tool.Name))+" "+args)
	f.rules, f.args = append(f.rules, rule), append(f.args, args)
	return err
}

// head returns the grammar of the text before a tool's arguments.
func (f *functions) head(name string) string {
	if f.g.Spacing != gbnf.LinesSpacing {
		return gbnf.Literal(name + f.next)
	}
	comma, key, _ := strings.Cut(trimSpace(f.next), " ")
	return strings.Join([]string{gbnf.Literal(name + comma), f.g.Space(), gbnf.Literal(key), f.g.Space()}, " ")
}

// addAll adds the rules of all tools, for calls in other forms.
func (f *functions) addAll(c *Catalog) error {
	if c.plain {
		return nil
	}
	for i := range c.Set.Tools {
		if err := f.add(fmt.Sprintf("object-%d", i), &c.Set.Tools[i]); err != nil {
			return err
		}
	}
	return nil
}

// forms returns the parts of calls in other forms. end is the mark before a call's closing brace, or "".
func (f *functions) forms(end string) otherForms {
	return otherForms{
		object: gbnf.Literal(`"name": "`) + " " + gbnf.Alternatives(f.rules) + " gap " + end + gbnf.Literal("}"),
		starts: []string{nameStart}, args: f.args,
	}
}

// jsonText returns s as a JSON string without the quotes.
func jsonText(s string) string {
	quoted := protocol.String(s)
	return string(quoted[1 : len(quoted)-1])
}

// addTagged adds the rule of a tool's tagged parameters, in order. Rules above g.Share admit any parameters.
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

// addParameter adds the rule of a parameter with its tags and returns the rule's name.
func (r rules) addParameter(g *gbnf.Grammar, set *tools.Set, tool *tools.Tool, p *tools.Property) (string, error) {
	var value string
	switch {
	case p.Name != tool.RobotParam:
		var err error
		value, err = tool.Document.AddMember(g, tool.Document.Member(p.Name), parameterEnd+"\n", schema.Options{})
		if err != nil {
			return "", err
		}
	case len(set.Robots) == 0:
		value = "robot-text " + gbnf.Literal("\n")
		g.AddText("robot-text", gbnf.Text{Forbidden: []string{"</parameter>"}, Until: parameterEnd, NonBlank: true})
	default:
		value = r.addRobot(g, set, func(name string) string { return name }) + " " + gbnf.Literal(parameterEnd+"\n")
	}
	return g.Rule(gbnf.Literal("<parameter="+p.Name+">\n") + " " + value), nil
}

const parameterEnd = "\n</parameter>"
