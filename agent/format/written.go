package format

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// ErrThinks is the error of Written for a model whose answers begin with reasoning.
var ErrThinks = errors.New("this model thinks before it answers; switch thinking off (enable_thinking) on the server")

// Written returns the spellings of a decision that the model may write after a prompt, without the end token: calls in
// FormBare or FormFenced on one line or indented by 2 or 4; all else has one spelling, spaced as in prompts. A nil
// catalog is that of a chat without functions.
func Written(f Format, c *Catalog, d *protocol.AgentDecision) ([][]Segment, error) {
	if f.thinksFirst() {
		return nil, ErrThinks
	}
	if c == nil {
		c = noTools
	}
	m := decided(&Input{Catalog: c}, &memory.Entry{Say: d.Say, Calls: d.ToolCalls}, memory.Turn{})
	for i := range m.calls {
		if tool, known := c.Set.Find(m.calls[i].Name); known {
			m.calls[i].Arguments = inOrder(m.calls[i].Arguments, tool, f.requiredFirst())
		}
	}
	var texts [][]Segment
	for _, indent := range []string{"", "  ", "    "} {
		b := &builder{split: f.splitter()}
		own := len(m.calls) > 0 && f.inForm(b, &m, c, indent)
		if !own {
			f.write(b, &m, c)
		}
		if texts = append(texts, b.prompt(nil, nil).Segments); !own {
			break
		}
	}
	return texts, nil
}

// inOrder puts arguments into the grammar's order: that of the tool's properties, required first with requiredFirst.
func inOrder(arguments protocol.Raw, tool *tools.Tool, requiredFirst bool) protocol.Raw {
	var names []string
	for _, required := range []bool{true, false} {
		for _, p := range tool.Properties {
			if !requiredFirst && required || requiredFirst && p.Required == required {
				names = append(names, p.Name)
			}
		}
	}
	ordered := protocol.Raw("{}")
	for _, name := range names {
		if v, ok := protocol.Get(arguments, name); ok {
			ordered, arguments = protocol.AppendMember(ordered, name, v), protocol.DeleteMember(arguments, name)
		}
	}
	for name, v := range protocol.Members(arguments) {
		ordered = protocol.AppendMember(ordered, name, v)
	}
	return ordered
}

// inForm implements Format. The texts are among those that addForms admits.
func (r rules) inForm(b *builder, m *message, c *Catalog, indent string) bool {
	if r.form == FormNative || c.plain {
		return false
	}
	calls := make([]string, len(m.calls))
	for i, call := range m.calls {
		arguments := string(rawjson.AppendSpaced(nil, call.Arguments))
		if calls[i] = `{"name": "` + jsonText(call.Name) + r.next + arguments + "}"; r.form == FormNamed {
			calls[i] = call.Name + "(" + arguments + ")"
		}
	}
	text := strings.Join(calls, "\n")
	if r.form != FormNamed && r.most(c.Set) > 1 {
		text = "[" + strings.Join(calls, ", ") + "]"
	}
	if indent != "" && r.form != FormNamed && (len(calls) == 1 || text[0] == '[') {
		raw := protocol.Raw(text)
		if raw.Indent(jsontext.WithIndent(indent)) == nil {
			text = string(raw)
		}
	}
	if r.form == FormFenced {
		text = fence + "json\n" + text + "\n" + fence
	}
	b.plain(text)
	return true
}

// SpacedJSON returns a JSON value with the spacing of Python's json.dumps, as in prompts.
func SpacedJSON(v protocol.Raw) string { return string(rawjson.AppendSpaced(nil, v)) }
