package format

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// ErrThinks is the error of Written for a model whose answers begin with reasoning.
var ErrThinks = errors.New("this model thinks before it answers; switch thinking off (enable_thinking) on the server")

// Written returns the spellings of a decision that the model may write after a prompt, without the end token. Calls of
// a model that writes JSON of its own have up to twelve: bare and fenced, on one line or indented by 2 or 4, and one
// call with and without a list. All else has one spelling, spaced as in prompts. The grammar admits the first. A nil
// catalog is that of a chat without functions.
func Written(f Format, c *Catalog, d *protocol.AgentDecision) ([][]Segment, error) {
	if f.Effort() == "on" {
		return nil, ErrThinks
	}
	if c == nil {
		c = noTools
	}
	m := decided(&Input{Catalog: c}, &memory.Entry{Say: d.Say, Calls: d.ToolCalls}, memory.Turn{})
	for i := range m.calls {
		if tool, known := c.Set.Find(m.calls[i].Name); known {
			m.calls[i].Arguments = inOrder(m.calls[i].Arguments, tool)
		}
	}
	var texts [][]Segment
	for _, text := range f.inForms(&m, c) {
		texts = append(texts, []Segment{{Text: text}})
	}
	if texts == nil {
		b := &builder{split: f.splitter()}
		f.write(b, &m, c)
		texts = append(texts, b.prompt(nil, nil).Segments)
	}
	return texts, nil
}

// inOrder puts arguments into the grammar's order, that of the tool's properties.
func inOrder(arguments protocol.Raw, tool *tools.Tool) protocol.Raw {
	ordered := protocol.Raw("{}")
	for _, p := range tool.Properties {
		if v, ok := protocol.Get(arguments, p.Name); ok {
			ordered, arguments = protocol.AppendMember(ordered, p.Name, v), protocol.DeleteMember(arguments, p.Name)
		}
	}
	for name, v := range protocol.Members(arguments) {
		ordered = protocol.AppendMember(ordered, name, v)
	}
	return ordered
}

// inForms implements Format.
func (r rules) inForms(m *message, c *Catalog) (texts []string) {
	if r.form == FormNative || c.plain || len(m.calls) == 0 {
		return nil
	}
	calls := make([]string, len(m.calls))
	for i, call := range m.calls {
		arguments := string(rawjson.AppendSpaced(nil, call.Arguments))
		if calls[i] = `{"name": "` + jsonText(call.Name) + r.next + arguments + "}"; r.form == FormNamed {
			calls[i] = call.Name + "(" + arguments + ")"
		}
	}
	objects, list := strings.Join(calls, "\n"), "["+strings.Join(calls, ", ")+"]"
	if r.form == FormNamed {
		return []string{objects}
	}
	values, forms := []string{objects}, []string{FormBare, FormFenced}
	if r.most(c.Set) > 1 {
		if values[0] = list; len(calls) == 1 {
			values = append(values, objects)
		}
	}
	if r.form == FormFenced {
		slices.Reverse(forms)
	}
	for _, form := range forms {
		for _, value := range values {
			for _, indent := range []string{"", "  ", "    "} {
				raw := protocol.Raw(value)
				if indent != "" && raw.Indent(jsontext.WithIndent(indent)) != nil {
					break // several objects
				}
				if form == FormFenced {
					raw = protocol.Raw(fence + "json\n" + string(raw) + "\n" + fence)
				}
				texts = append(texts, string(raw))
			}
		}
	}
	return texts
}

// SpacedJSON returns a JSON value with the spacing of Python's json.dumps, as in prompts.
func SpacedJSON(v protocol.Raw) string { return string(rawjson.AppendSpaced(nil, v)) }
