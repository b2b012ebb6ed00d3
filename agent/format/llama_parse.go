package format

import (
	"fmt"
	"regexp"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/tools"
	"agentd/protocol"
)

// llamaMarks never occur in a reply: they would make it something else.
var llamaMarks = []string{
	pythonTag, "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|end_of_text|>",
}

// grammar admits what Parse accepts for these tools and nothing else, but for
// rules of a schema that a grammar can't express:
//
//	root ::= <|python_tag|>? call ("; " call)* | reply
//
// Where there are tools, no reply begins with a brace, as calls do. JSON has the
// spacing of the calls in the prompt.
func (f *llama) grammar(g *gbnf.Grammar, c *Catalog) error {
	set, reply := c.Set, gbnf.Text{Forbidden: llamaMarks, NonBlank: true}
	answer := "reply"
	if len(set.Tools) > 0 {
		reply.NotFirst = "{"
		answer = either(set, "calls", "reply")
		err := addCall(g, set, llamaName, "}", func(rule string, tool *tools.Tool) error {
			return f.addFunction(g, set, rule, tool, llamaParameters)
		})
		if err != nil {
			return err
		}
		calls := fmt.Sprintf("call ( %s call ){0,%d}", gbnf.Literal(llamaNextCall), f.most(set)-1)
		if f.tag {
			calls = pythonTag + "? " + calls // a token of the vocabulary
		}
		g.Add("calls", calls)
	}
	g.AddText("reply", reply)
	g.Add("root", answer)
	return nil
}

func (f *llama) before(*gbnf.Grammar) string { return "" }

// ParseChat takes the tag for what it is before an object.
func (f *llama) ParseChat(text string) (string, error) {
	return trimSpace(strings.TrimPrefix(trimSpace(trimLlama(text)), pythonTag)), nil
}

// trimLlama drops marks of end tokens at the end of an answer, which no reply of this format
// has.
func trimLlama(text string) string {
	for {
		trimmed := trimEnd(text)
		for _, end := range []string{"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"} {
			trimmed = strings.TrimSuffix(trimmed, end)
		}
		if trimmed == text {
			return text
		}
		text = trimmed
	}
}

// bareCall matches how a call without the tag begins.
var bareCall = regexp.MustCompile(`^\{\s*"(name"|parameters"|arguments"|function"|type"\s*:\s*"function")`)

// Parse reads calls, with the tag or without, or a reply. Calls are separated by
// semicolons, or by a comma, a line or another tag, as some models do.
func (f *llama) Parse(text string, c *Catalog) (Decision, error) {
	text = trimSpace(trimLlama(text))
	say, rest, tagged := "", text, len(c.Set.Tools) > 0 && bareCall.MatchString(text)
	if !tagged {
		say, rest, tagged = strings.Cut(text, pythonTag)
	}
	var calls []tools.Call
	for tagged {
		value, after, err := readJSON(rest)
		if err != nil {
			return Decision{}, fmt.Errorf("a tool call is %w: %s", err, quoteStart(rest))
		}
		name, arguments, err := readFunction(llamaFunction(value))
		if err != nil {
			return Decision{}, err
		}
		call, err := c.Set.Lift(name, arguments)
		if err != nil {
			return Decision{}, err
		}
		calls = append(calls, call)
		after = trimSpace(after)
		rest = trimSpace(strings.TrimPrefix(strings.TrimLeft(after, ";, \t\r\n"), pythonTag))
		if tagged = strings.HasPrefix(rest, "{"); !tagged {
			say += strings.TrimSuffix(after, ";")
		}
	}
	for _, mark := range llamaMarks {
		if strings.Contains(say, mark) {
			return Decision{}, fmt.Errorf("the output has a stray %s", mark)
		}
	}
	return decide(say, calls, nil, f.rules)
}

// llamaFunction is a call with the usual names of its members. Models also write arguments
// in place of parameters. And they copy the form of the tools in the prompt,
// {"type": "function", "function": {...}} or its members in one object.
func llamaFunction(value protocol.Raw) protocol.Raw {
	if value.Kind() != '{' {
		return value
	}
	value = protocol.DeleteMember(value, "type")
	if function, ok := protocol.Get(value, "function"); ok && function.Kind() == '{' {
		value = function
	}
	parameters, ok := protocol.Get(value, "parameters")
	if _, both := protocol.Get(value, "arguments"); !ok || both {
		return value
	}
	return protocol.SetMember(protocol.DeleteMember(value, "parameters"), "arguments", parameters)
}
