package format

import (
	"slices"
	"strconv"
	"strings"

	"agentd/agent/tools"
	"agentd/protocol"
)

// recognise returns the calls in a text that consists of calls of the tools only, in any form. The error says why
// such a call is invalid. Without calls and error the text is a reply.
func recognise(text string, set *tools.Set) (calls []tools.Call, form string, err error) {
	form = FormBare
	fenced, between := false, ";, \t\r\n"
	for rest := trimMarks(text); rest != ""; rest = strings.TrimLeft(rest, between) {
		if after, mark := strings.CutPrefix(rest, fence); mark {
			if fenced = !fenced; fenced { // else it ends here; strings before it may have had the mark
				form = FormFenced
				_, after, _ = strings.Cut(after, "\n")
			}
			rest = after
			continue
		}
		if list, opened := strings.CutPrefix(rest, "["); opened && named(trimSpace(list), set) != "" {
			rest, between = trimSpace(list), "], \t\r\n"
		}
		var read []tools.Call
		var ok bool
		switch {
		case strings.HasPrefix(rest, functionOpen):
			name, _, _ := strings.Cut(rest[len(functionOpen):], ">")
			if _, ok = set.Find(strings.TrimSpace(name)); ok {
				read = make([]tools.Call, 1)
				read[0], rest, err = readTagged(rest, set)
			}
		case rest[0] == '{' || rest[0] == '[':
			read, rest, ok, err = readBare(rest, set)
		default:
			form = FormNamed
			read, rest, ok, err = readNamed(rest, set)
		}
		if !ok || err != nil {
			return nil, "", err
		}
		calls, rest = append(calls, read...), trimMarks(rest)
	}
	return calls, form, nil
}

// recognise is the function recognise. With MixedTools it also finds fenced calls beside text, which it drops.
func (r rules) recognise(text string, set *tools.Set) (calls []tools.Call, form string, err error) {
	calls, form, err = recognise(text, set)
	if len(calls) > 0 || err != nil || r.mixed != MixedTools {
		return calls, form, err
	}
	for _, rest, found := strings.Cut(text, fence); found; _, rest, found = strings.Cut(rest, fence) {
		var inner string
		inner, rest, _ = strings.Cut(rest, fence)
		more, _, err := recognise(fence+inner, set)
		if err != nil {
			return nil, "", err
		}
		calls, form = append(calls, more...), FormFenced
	}
	if len(calls) == 0 {
		form = ""
	}
	return calls, form, nil
}

// Complete returns the complete calls of a truncated answer.
func Complete(f Format, text string, c *Catalog) []tools.Call {
	if len(c.Set.Tools) == 0 {
		return nil
	}
	for range maxEnds {
		end := strings.LastIndexAny(text, "})>")
		if end < 0 {
			return nil
		}
		if d, err := f.Parse(text[:end+1], c); err == nil && len(d.ToolCalls) > 0 {
			return d.ToolCalls
		}
		text = text[:end]
	}
	return nil
}

// trimMarks removes marks without a counterpart, <tool_call> and <tools>, from both ends of a text.
func trimMarks(text string) string {
	for _, mark := range []string{callOpen, callClose, callOpen, toolsOpen, toolsClose} { // callOpen again: a text may end with an empty block
		text = strings.TrimSuffix(strings.TrimPrefix(trimSpace(text), mark), mark)
	}
	return trimSpace(text)
}

// readBare reads an object that is a call, or a list of such objects. The list may lack its closing bracket.
func readBare(text string, set *tools.Set) (calls []tools.Call, rest string, ok bool, err error) {
	inner, inList := strings.CutPrefix(text, "[")
	for rest = trimSpace(inner); ; {
		var value protocol.Raw
		if value, rest, err = readJSON(rest, "a call is"); err != nil || !isCall(value, set) {
			return nil, text, false, nil //nolint:nilerr // it is a reply
		}
		if calls, err = readAction(calls, asFunction(value), set); err != nil {
			return nil, text, true, err
		}
		rest = trimSpace(rest)
		after, more := strings.CutPrefix(rest, ",")
		if !inList || !more {
			return calls, strings.TrimPrefix(rest, "]"), true, nil
		}
		rest = after
	}
}

// asFunction returns a call with the members name and arguments. Models also write other names, and
// copy the form of the tools in the prompt, {"type": "function", "function": {...}}.
func asFunction(value protocol.Raw) protocol.Raw {
	if value.Kind() != '{' {
		return value
	}
	value = protocol.DeleteMember(value, "type")
	if function, ok := protocol.Get(value, "function"); ok && function.Kind() == '{' {
		value = function
	}
	if _, usual := protocol.Get(value, "arguments"); usual {
		return value
	}
	for _, name := range []string{"parameters", "args"} {
		if arguments, ok := protocol.Get(value, name); ok {
			return protocol.SetMember(protocol.DeleteMember(value, name), "arguments", arguments)
		}
	}
	return value
}

// named returns the tool that a text calls by its name, "" for none.
func named(text string, set *tools.Set) string {
	names := set.Names()
	if i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(text, name+"(") }); i >= 0 {
		return names[i]
	}
	return ""
}

// readNamed reads name({...}) or name(key=value, ...), with values as JSON or Python writes them.
func readNamed(text string, set *tools.Set) (calls []tools.Call, rest string, ok bool, err error) {
	name := named(text, set)
	if name == "" {
		return nil, text, false, nil
	}
	rest = text[len(name)+len("("):]
	arguments := protocol.Raw("{}")
	if rest = trimSpace(rest); strings.HasPrefix(rest, "{") {
		if arguments, rest, err = readJSON(rest, "arguments are"); err != nil {
			return nil, text, false, nil //nolint:nilerr // it is a reply
		}
		rest = trimSpace(rest)
	}
	for !strings.HasPrefix(rest, ")") {
		key, after, isKey := strings.Cut(rest, "=")
		var value protocol.Raw
		if isKey {
			value, after, isKey = readLiteral(trimSpace(after), 0)
		}
		if _, twice := protocol.Get(arguments, trimSpace(key)); !isKey || twice {
			return nil, text, false, nil
		}
		arguments = protocol.AppendMember(arguments, trimSpace(key), value)
		rest = strings.TrimPrefix(trimSpace(after), ",")
		rest = trimSpace(rest)
	}
	call, err := set.Accept(name, arguments, nil)
	return []tools.Call{call}, rest[1:], true, err
}

// readLiteral reads a JSON or Python value at the beginning of a text, and returns it as JSON.
func readLiteral(text string, depth int) (value protocol.Raw, rest string, ok bool) {
	for word, constant := range pythonWords {
		if rest, ok = strings.CutPrefix(text, word); ok {
			return protocol.Raw(constant), rest, true
		}
	}
	switch {
	case text == "" || depth > tools.MaxDepth:
		return nil, text, false
	case text[0] == '\'':
		return readQuoted(text)
	case text[0] == '[' || text[0] == '(':
		closing := map[byte]string{'[': "]", '(': ")"}[text[0]]
		value = protocol.Raw("[]")
		for rest = trimSpace(text[1:]); !strings.HasPrefix(rest, closing); {
			var element protocol.Raw
			if element, rest, ok = readLiteral(rest, depth+1); !ok {
				return nil, text, false
			}
			value = protocol.AppendElements(nil, append(slices.Collect(protocol.Elements(value)), element)...)
			rest = trimSpace(strings.TrimPrefix(trimSpace(rest), ","))
		}
		return value, rest[1:], true
	case text[0] == '{':
		value = protocol.Raw("{}")
		for rest = trimSpace(text[1:]); !strings.HasPrefix(rest, "}"); {
			var key, member protocol.Raw
			if key, rest, ok = readLiteral(rest, depth+1); !ok || key.Kind() != '"' {
				return nil, text, false
			}
			if rest, ok = strings.CutPrefix(trimSpace(rest), ":"); ok {
				member, rest, ok = readLiteral(trimSpace(rest), depth+1)
			}
			if !ok {
				return nil, text, false
			}
			name, _ := protocol.Text(key)
			value = protocol.SetMember(value, name, member)
			rest = trimSpace(strings.TrimPrefix(trimSpace(rest), ","))
		}
		return value, rest[1:], true
	}
	value, rest, err := readJSON(text, "a value is")
	return value, rest, err == nil
}

// readQuoted reads a string between single quotes.
func readQuoted(text string) (value protocol.Raw, rest string, ok bool) {
	var b strings.Builder
	for rest = text[1:]; rest != ""; {
		c, _, after, err := strconv.UnquoteChar(rest, '\'')
		switch {
		case rest[0] == '\'':
			return protocol.String(b.String()), rest[1:], true
		case err != nil: // Python keeps the backslash of an unknown escape
			if after = rest[1:]; after == "" || after[0] != '"' {
				b.WriteByte('\\')
			}
		default:
			b.WriteRune(c)
		}
		rest = after
	}
	return nil, text, false
}

// isCall reports whether a value has the shape of a call of one of the tools: its name, and only members of a call.
func isCall(v protocol.Raw, set *tools.Set) bool {
	if v.Kind() != '{' {
		return false
	}
	v = asFunction(v)
	name, hasName := protocol.Get(v, "name")
	if !hasName { // {robot: call}
		robots := 0
		for robot, call := range protocol.Members(v) {
			if _, named := protocol.Get(call, "name"); set.Chat || call.Kind() != '{' || !named || !isCall(call, set) ||
				len(set.Robots) > 0 && !slices.Contains(set.Robots, robot) {
				return false
			}
			robots++
		}
		return robots > 0
	}
	text, _ := protocol.Text(name)
	tool, known := set.Find(text)
	arguments := false
	for member, value := range protocol.Members(v) {
		switch member {
		case "name":
		case "arguments":
			arguments = value.Kind() == '{'
			known = known && arguments
		case tools.RobotParameter, targetRobotName:
			known = known && !set.Chat
		default:
			known = false
		}
	}
	return known && (arguments || !slices.ContainsFunc(tool.Properties, func(p tools.Property) bool {
		return p.Required && p.Name != tool.RobotParam
	}))
}

// MayBeCall reports whether an unfinished text may be or become a call, in any form.
func (c *Catalog) MayBeCall(text string) bool {
	if c.starts == nil && strings.HasPrefix(text, "{") { // as calls begin in some formats
		return true
	}
	may := func(begin string) bool { return strings.HasPrefix(text, begin) || strings.HasPrefix(begin, text) }
	return c.Set.MustCall || may(c.CallBegin) || may(toolsOpen) || c.starts.Within(text)
}

// Before returns the part of an unfinished reply before the mark of a call, or before an end that may become one.
func (c *Catalog) Before(text string) string {
	mark := c.CallBegin
	switch mark {
	case callOpen:
	case llamaName:
		mark = pythonTag
	default: // no call follows a reply
		return text
	}
	before, _, begun := strings.Cut(text, mark)
	for n := len(mark) - 1; !begun && n > 0; n-- {
		before, begun = strings.CutSuffix(text, mark[:n])
	}
	return trimEnd(before)
}

// FormOf returns the form of the call at the beginning of an answer, or "".
func (c *Catalog) FormOf(text string) string {
	text = trimSpace(text)
	switch {
	case text == "":
	case strings.HasPrefix(text, c.CallBegin):
		return FormNative
	case strings.HasPrefix(text, fence):
		return FormFenced
	case text[0] == '{' || text[0] == '[':
		return FormBare
	case named(text, c.Set) != "":
		return FormNamed
	}
	return ""
}
