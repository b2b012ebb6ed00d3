package format

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/schema"
	"agentd/agent/tools"
	"agentd/protocol"
)

const (
	callOpen  = "<tool_call>"
	callClose = "</tool_call>"
)

// Parse parses reasoning, then calls or a reply.
func (q *qwen) Parse(text string, c *Catalog) (Decision, error) {
	return q.parseBlocks(text, c.Set, func(calls []tools.Call, body string) ([]tools.Call, string, error) {
		var call tools.Call
		var rest string
		var err error
		if body = trimSpace(body); strings.HasPrefix(body, functionOpen) {
			call, rest, err = readTagged(body, c.Set)
		} else {
			var value protocol.Raw
			if value, rest, err = readJSON(body, "a tool call is"); err == nil {
				call, err = readFunction(value, nil, c.Set)
			}
		}
		return append(calls, call), rest, err
	})
}

// parseBlocks parses reasoning, then blocks after callOpen, or a reply. read appends the calls of a block
// and returns the rest from callClose on, which strings in the calls may contain too.
func (c *common) parseBlocks(text string, set *tools.Set,
	read func(calls []tools.Call, body string) ([]tools.Call, string, error),
) (Decision, error) {
	reasoning, rest, err := splitThoughts(trimEnd(text), c.inThoughts, callOpen)
	if err != nil {
		return Decision{}, err
	}
	if !strings.HasPrefix(rest, callOpen) { // strings in other calls may have the marks
		if calls, _, _ := recognise(rest, set); len(calls) > 0 {
			return c.decide(set, rest, nil, reasoning)
		}
	}
	var say strings.Builder
	var calls []tools.Call
	for {
		before, body, found := strings.Cut(rest, callOpen)
		if err := stray(before, callMarks); err != nil {
			return Decision{Reasoning: reasoning}, err
		}
		say.WriteString(before)
		if !found {
			return c.decide(set, say.String(), calls, reasoning)
		}
		if calls, body, err = read(calls, body); err != nil {
			return Decision{Reasoning: reasoning}, err
		}
		body = trimSpace(body)
		if rest, found = strings.CutPrefix(body, callClose); !found && body != "" { // the answer may end without it
			return Decision{Reasoning: reasoning},
				fmt.Errorf("a tool call is not closed by %s but followed by %s", callClose, quoteStart(body))
		}
	}
}

// trimEnd removes white space at the end of an answer.
func trimEnd(text string) string { return strings.TrimRight(text, " \t\r\n") }

// readFunction reads a call {name, arguments}. robot is as in tools.Set.Accept.
func readFunction(value, robot protocol.Raw, set *tools.Set) (call tools.Call, err error) {
	value = asFunction(value)
	if value.Kind() != '{' {
		return call, fmt.Errorf("a tool call must be an object with name and arguments, not %s", quoteStart(string(value)))
	}
	name, arguments := "", protocol.Raw("{}")
	for key, v := range protocol.Members(value) {
		switch key {
		case "name":
			var ok bool
			if name, ok = protocol.Text(v); !ok {
				return call, errors.New("the name of a tool call must be a string")
			}
		case "arguments":
			arguments = v
		default:
			return call, fmt.Errorf("a tool call has the unknown member %q; it may have name and arguments", key)
		}
	}
	if name == "" {
		return call, errors.New("a tool call has no name")
	}
	return set.Accept(name, arguments, robot)
}

func readTagged(text string, set *tools.Set) (call tools.Call, rest string, err error) {
	name, rest, ok := strings.Cut(strings.TrimPrefix(text, functionOpen), ">")
	if !ok {
		return call, rest, errors.New("the <function= tag of a tool call is not closed by >")
	}
	name = strings.TrimSpace(name)
	tool, known := set.Find(name)
	if !known {
		_, err = set.Accept(name, protocol.Raw("{}"), nil)
		return call, rest, err
	}
	arguments := protocol.Raw("{}")
	for {
		rest = trimSpace(rest)
		if after, ok := strings.CutPrefix(rest, "</function>"); ok {
			call, err = set.Accept(name, arguments, nil)
			return call, after, err
		}
		after, ok := strings.CutPrefix(rest, "<parameter=")
		if !ok {
			return call, rest, fmt.Errorf("the call of %s has %s where a <parameter= or </function> tag belongs", name, quoteStart(rest))
		}
		parameter, body, ok := strings.Cut(after, ">")
		if !ok {
			return call, rest, fmt.Errorf("a <parameter= tag of the call of %s is not closed by >", name)
		}
		member := tool.Document.Member(parameter)
		if parameter == tool.RobotParam {
			member = schema.Member{Kind: schema.Text, Texts: set.Robots}
		}
		value, after, ok := cutValue(body, member)
		if !ok {
			return call, rest, fmt.Errorf("the parameter %s of the call of %s is not closed by </parameter>", parameter, name)
		}
		if _, twice := protocol.Get(arguments, parameter); twice {
			return call, rest, fmt.Errorf("the call of %s has the parameter %s twice", name, parameter)
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		arguments = protocol.AppendMember(arguments, parameter, taggedValue(member, value))
		rest = after
	}
}

// cutValue splits body after a parameter's value. That is the longest of the options or the JSON value that body
// begins with, since these may contain a closing tag; otherwise all before the first closing tag.
func cutValue(body string, member schema.Member) (value, after string, ok bool) {
	byLength := func(a, b string) int { return len(b) - len(a) }
	for _, option := range slices.SortedFunc(slices.Values(member.Texts), byLength) {
		if after, ok = strings.CutPrefix(body, "\n"+option+parameterEnd); ok {
			return "\n" + option + "\n", after, true
		}
	}
	if _, rest, err := readJSON(body, ""); err == nil && member.Kind != schema.Text {
		if after, ok = strings.CutPrefix(trimSpace(rest), "</parameter>"); ok {
			return strings.TrimSuffix(body, rest), after, true
		}
	}
	return strings.Cut(body, "</parameter>")
}

// pythonWords has the constants of Python, as templates write them, with their JSON.
var pythonWords = map[string]string{"True": "true", "False": "false", "None": "null"}

// taggedValue returns the JSON of a tagged parameter's text. A text that is not of the parameter's
// type becomes a string, which the check then refuses.
func taggedValue(member schema.Member, text string) protocol.Raw {
	if member.Kind == schema.Text {
		return protocol.String(text)
	}
	trimmed := strings.TrimSpace(text)
	value, err := compacted(protocol.Raw(cmp.Or(pythonWords[trimmed], trimmed)))
	if err == nil && (member.Kind == schema.JSON || member.Fits(value)) {
		return value
	}
	return protocol.String(text)
}
