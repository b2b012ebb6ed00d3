package format

import (
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/tools"
	"agentd/protocol"
)

// callMarks never occur in a reply: they would make it something else.
var callMarks = []string{"<tool_call>", "</tool_call>", "<think>", "</think>"}

// grammar admits what Parse accepts for these tools and nothing else, but for
// rules of a schema that a grammar can't express:
//
//	root ::= think? (call ("\n" call)* | reply)
//
// JSON has the spacing of the calls in the prompt, that of the models' own
// templates: a choice that says nothing would only cost tokens.
func (q *qwen) grammar(set *tools.Set) (string, error) {
	g := gbnf.New(gbnf.DumpsSpacing)
	answer := "reply"
	g.AddText("reply", gbnf.Text{Forbidden: callMarks, NonBlank: true})
	if len(set.Tools) > 0 {
		answer = "( calls | reply )"
		g.Add("calls", fmt.Sprintf(`call ( "\n" call ){0,%d}`, q.most(set)-1))
		if err := q.addCall(g, set); err != nil {
			return "", err
		}
	}
	g.Add("root", thinkRule(g, q.think, q.openThink)+answer)
	return g.String(), nil
}

// ChatGrammar admits root ::= think? answer.
func (q *qwen) ChatGrammar(schema protocol.Raw) (string, error) {
	g := gbnf.New(gbnf.AnySpacing)
	answer, err := answerRule(g, q.kit, schema)
	if err != nil {
		return "", err
	}
	g.Add("root", thinkRule(g, q.think, q.openThink)+answer)
	return g.String(), nil
}

// thinkRule adds the block of thoughts before an answer, if there is one; open
// tells that the prompt has opened it.
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

// addCall adds the rule call: one call of any of the tools.
func (q *qwen) addCall(g *gbnf.Grammar, set *tools.Set) error {
	open, closed := "<tool_call>\n{\"name\": \"", "}\n</tool_call>"
	add := func(rule string, tool *tools.Tool) error {
		return q.addFunction(g, q.kit, rule, set, tool, `", "arguments": `)
	}
	if q.xml {
		open, closed = "<tool_call>\n<function=", "</function>\n</tool_call>"
		add = func(rule string, tool *tools.Tool) error { return q.addTagged(g, rule, set, tool) }
	}
	return addCall(g, set, open, closed, add)
}

// addCall adds the rule call, which stands between two texts: one of the rules that
// add defines, each for a tool.
func addCall(g *gbnf.Grammar, set *tools.Set, open, closed string, add func(rule string, tool *tools.Tool) error) error {
	names := make([]string, len(set.Tools))
	for i := range set.Tools {
		names[i] = fmt.Sprintf("tool-%d", i)
		if err := add(names[i], &set.Tools[i]); err != nil {
			return err
		}
	}
	g.Add("call", gbnf.Literal(open)+" "+gbnf.Alternatives(names)+" "+gbnf.Literal(closed))
	return nil
}

// addFunction adds a tool's rule for calls in JSON: its name, what stands behind
// it, and the arguments.
func (r rules) addFunction(g *gbnf.Grammar, kit Toolkit, rule string, set *tools.Set, tool *tools.Tool, behind string) error {
	args, err := r.importArguments(g, kit, rule+"-", set, tool)
	if err != nil {
		return err
	}
	g.Add(rule, gbnf.Literal(jsonText(tool.Name)+behind)+" "+args)
	return nil
}

// importSchema adds the rules of a schema and returns their root.
func importSchema(g *gbnf.Grammar, kit Toolkit, prefix string, tool *tools.Tool, schema protocol.Raw, places ...gbnf.Place) (string, error) {
	text, err := kit.SchemaGrammar(schema)
	if err != nil {
		return "", fmt.Errorf("the parameters of %s can't be made a grammar: %w", tool.Name, err)
	}
	root, err := g.Import(prefix, text, places...)
	if err != nil {
		return "", fmt.Errorf("the parameters of %s can't be made a grammar: %w", tool.Name, err)
	}
	return root, nil
}

// jsonText is s as it stands between the quotes of a JSON string.
func jsonText(s string) string {
	quoted := protocol.String(s)
	return string(quoted[1 : len(quoted)-1])
}

// addTagged adds a tool's rule for tagged parameters, in the order of their
// declaration.
func (q *qwen) addTagged(g *gbnf.Grammar, name string, set *tools.Set, tool *tools.Tool) error {
	body := []string{gbnf.Literal(tool.Name + ">\n")}
	for i := range tool.Properties {
		p := &tool.Properties[i]
		rule := fmt.Sprintf("%s-p%d", name, i)
		value, err := q.addValue(g, rule, set, tool, p)
		if err != nil {
			return err
		}
		g.Add(rule, gbnf.Literal("<parameter="+p.Name+">\n")+" "+value)
		if !p.Required {
			rule += "?"
		}
		body = append(body, rule)
	}
	g.Add(name, strings.Join(body, " "))
	return nil
}

// parameterEnd ends a tagged parameter.
const parameterEnd = "\n</parameter>"

// addValue adds the rules of a parameter's value and returns a body that
// matches it and the tag that closes it.
func (q *qwen) addValue(g *gbnf.Grammar, rule string, set *tools.Set, tool *tools.Tool, p *tools.Property) (string, error) {
	if p.Name == tool.RobotParam && q.marksRobots(set, tool) {
		q.addRobots(g, set, func(name string) string { return name })
		return robotRule + " " + gbnf.Literal(parameterEnd+"\n"), nil
	}
	kind := kindOf(p.Schema)
	if kind == jsonValue && text(p.Schema, "type") == "boolean" {
		// Both as in JSON and as the prompt shows them.
		return `( "true" | "false" | "True" | "False" ) ` + gbnf.Literal(parameterEnd+"\n"), nil
	}
	if kind != textValue {
		schema := p.Schema
		if defs := definitions(tool.Schema); defs != nil && strings.Contains(string(schema), `"$ref"`) {
			schema = protocol.SetMember(schema, defs.name, defs.value)
		}
		root, err := importSchema(g, q.kit, rule+"-", tool, schema)
		if err != nil {
			return "", err
		}
		return root + " " + gbnf.Literal(parameterEnd+"\n"), nil
	}
	if options := textOptions(p.Schema); options != nil {
		literals := make([]string, len(options))
		for i, option := range options {
			literals[i] = gbnf.Literal(option)
		}
		return gbnf.Alternatives(literals) + " " + gbnf.Literal(parameterEnd+"\n"), nil
	}
	minLength, _ := protocol.Get(p.Schema, "minLength")
	g.AddText(rule+"-text", gbnf.Text{
		Forbidden: []string{"</parameter>"}, Until: parameterEnd, NonBlank: minLength != nil && string(minLength) != "0",
	})
	return rule + "-text " + gbnf.Literal("\n"), nil
}

// definitions finds the part of a schema that its $refs name.
func definitions(schema protocol.Raw) *struct {
	name  string
	value protocol.Raw
} {
	for _, name := range []string{"$defs", "definitions"} {
		if v, ok := protocol.Get(schema, name); ok {
			return &struct {
				name  string
				value protocol.Raw
			}{name, v}
		}
	}
	return nil
}

// valueKind is how a tagged parameter's text is read.
type valueKind int

const (
	textValue valueKind = iota // a string, as it stands
	jsonValue                  // JSON of the schema's type
	anyValue                   // JSON if it is that, else a string
)

// kindOf decides by the parameter's type, or, without one, by its options.
func kindOf(schema protocol.Raw) valueKind {
	typ, typed := protocol.Get(schema, "type")
	if name, ok := protocol.Text(typ); ok {
		if name == "string" {
			return textValue
		}
		return jsonValue
	}
	if !typed && textOptions(schema) != nil {
		return textValue
	}
	return anyValue
}

// textOptions are the strings to which enum or const limit a value, nil when
// they don't, or not to strings alone.
func textOptions(schema protocol.Raw) []string {
	if v, ok := protocol.Get(schema, "const"); ok {
		if s, ok := protocol.Text(v); ok {
			return []string{s}
		}
		return nil
	}
	enum, _ := protocol.Get(schema, "enum")
	if enum.Kind() != '[' {
		return nil
	}
	var options []string
	for e := range protocol.Elements(enum) {
		s, ok := protocol.Text(e)
		if !ok {
			return nil
		}
		if !slices.Contains(options, s) {
			options = append(options, s)
		}
	}
	return options
}
