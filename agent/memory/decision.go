package memory

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/rawjson"
	"agentd/agent/tools"
	"agentd/protocol"
)

// lenient accepts entries of other writers as Python's json.loads does.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// maxNesting bounds a decision: arguments within an action, a list, a robot and the call.
const maxNesting = tools.MaxDepth + 4

// ReadDecision reads a MODEL entry: {"say", "action"}, an action whose calls have arguments, or a reply.
func ReadDecision(content string) (say string, calls []tools.Call) {
	text := strings.TrimSpace(content)
	if text == "" || (text[0] != '{' && text[0] != '[') {
		return text, nil
	}
	v := protocol.Raw(text)
	strict := v.IsValid() // almost always
	if !strict && !v.IsValid(lenient...) || tools.Depth(v) > maxNesting {
		return text, nil
	}
	if !strict { // the prompt must have strict JSON
		v = rawjson.Strict(v)
	}
	if v.Kind() == '{' {
		rawSay, saying := protocol.Get(v, "say")
		action, acting := protocol.Get(v, "action")
		if saying || acting {
			if say, _ = protocol.Text(rawSay); say == "" && saying && rawSay.Kind() != 'n' && rawSay.Kind() != '"' {
				say = string(rawSay)
			}
			calls = readAction(nil, action)
			for i := range calls {
				if calls[i].Arguments == nil {
					calls[i].Arguments = protocol.Raw("{}")
				}
			}
			return say, calls
		}
	}
	calls = readAction(nil, v)
	if len(calls) == 0 || slices.ContainsFunc(calls, func(c tools.Call) bool { return c.Arguments == nil }) {
		return text, nil // replies in JSON often have a member name
	}
	return "", calls
}

// readAction appends the calls of {robot: {name, arguments}}, {name, arguments, target_robot} or a list.
func readAction(calls []tools.Call, action protocol.Raw) []tools.Call {
	switch action.Kind() {
	case '[':
		for e := range protocol.Elements(action) {
			calls = readAction(calls, e)
		}
	case '{':
		if call, ok := readCall(action); ok {
			return append(calls, call)
		}
		for name, value := range protocol.Members(action) {
			if value.Kind() != '{' {
				continue
			}
			if call, ok := readCall(value); ok {
				call.TargetRobotName = name
				calls = append(calls, call)
			}
		}
	}
	return calls
}

// readCall reads {name, arguments} and the robot. Absent arguments are nil, and other kinds are empty.
func readCall(v protocol.Raw) (call tools.Call, ok bool) {
	for name, value := range protocol.Members(v) {
		switch name {
		case "name":
			call.Name, ok = protocol.Text(value)
		case "arguments":
			if call.Arguments = protocol.Raw("{}"); value.Kind() == '{' {
				call.Arguments = value
			}
		case "target_robot":
			call.TargetRobotName, _ = protocol.Text(value)
		case "target_robot_name":
			if call.TargetRobotName == "" {
				call.TargetRobotName, _ = protocol.Text(value)
			}
		}
	}
	return call, ok
}

// AppendDecision appends the content of a MODEL entry, {"say": "...", "action":
// ...}, in the spacing of the first implementation. The action is {}, an object
// with a key for each robot, or a list of these if a robot has several calls.
func AppendDecision(dst []byte, say string, calls []tools.Call) []byte {
	dst = append(dst, `{"say": `...)
	dst = rawjson.AppendString(dst, say)
	dst = append(dst, `, "action": `...)
	dst = AppendAction(dst, calls, repeatsRobot(calls))
	return append(dst, '}')
}

// AppendAction appends calls as one object, or as a list of objects with one robot, or none, each.
func AppendAction(dst []byte, calls []tools.Call, list bool) []byte {
	open, closed, separator := "{", "}", ", "
	if list {
		open, closed, separator = "[{", "}]", "}, {"
		if len(calls) == 0 {
			return append(dst, "[]"...)
		}
	}
	dst = append(dst, open...)
	for i, call := range calls {
		if i > 0 {
			dst = append(dst, separator...)
		}
		if call.TargetRobotName != "" {
			dst = append(rawjson.AppendString(dst, call.TargetRobotName), ": {"...)
		}
		dst = append(dst, `"name": `...)
		dst = rawjson.AppendString(dst, call.Name)
		dst = append(dst, `, "arguments": `...)
		dst = rawjson.AppendSpaced(dst, call.Arguments)
		if call.TargetRobotName != "" {
			dst = append(dst, '}')
		}
	}
	return append(dst, closed...)
}

func repeatsRobot(calls []tools.Call) bool {
	seen := make(map[string]bool, len(calls))
	for _, call := range calls {
		if seen[call.TargetRobotName] {
			return true
		}
		seen[call.TargetRobotName] = true
	}
	return false
}
