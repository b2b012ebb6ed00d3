package memory

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/rawjson"
	"agentd/agent/tools"
	"agentd/protocol"
)

// lenient accepts JSON in entries that other programs wrote, like Python's json.loads.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// maxNesting bounds the nesting of a decision, whose arguments are within a call, a robot, a list and the action.
const maxNesting = tools.MaxDepth + 4

// ReadDecision parses a MODEL entry: {"say", "action"}, an action whose calls have arguments, or a reply.
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
	rawSay, saying := protocol.Get(v, "say")
	action, acting := protocol.Get(v, "action")
	calls = readAction(nil, action, nil)
	for name, value := range protocol.Members(v) {
		lost := name == "action" && len(calls) == 0 || name != "say" && !acting
		if content := strings.Trim(string(value), "{}[] \t\r\n"); saying && lost && content != "" && content != "null" {
			return text, nil // say alone would lose a member, such as tool_calls
		}
	}
	if saying || len(calls) > 0 || len(action) == len("{}") {
		if say, _ = protocol.Text(rawSay); say == "" && saying && rawSay.Kind() != 'n' && rawSay.Kind() != '"' {
			say = string(rawSay)
		}
		for i := range calls {
			if calls[i].Arguments == nil {
				calls[i].Arguments = protocol.Raw("{}")
			}
		}
		return say, calls
	}
	calls = readAction(nil, v, nil)
	if len(calls) == 0 || slices.ContainsFunc(calls, func(c tools.Call) bool { return c.Arguments == nil }) {
		return text, nil // replies in JSON often have a member name
	}
	return "", calls
}

// readAction appends the calls of {robot: {name, arguments}}, of {name, arguments, target_robot}, or of a list of
// these. robot is the robot of action if that is a call of the first form, else nil. Absent arguments are nil;
// arguments that are not an object become {}.
func readAction(calls []tools.Call, action protocol.Raw, robot *string) []tools.Call {
	for e := range protocol.Elements(action) { // none of an object
		calls = readAction(calls, e, nil)
	}
	var call tools.Call
	named := false
	for name, value := range protocol.Members(action) {
		switch name {
		case "name":
			call.Name, named = protocol.Text(value)
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
	switch {
	case named && robot != nil:
		call.TargetRobotName = *robot
		return append(calls, call)
	case named:
		return append(calls, call)
	case robot != nil:
		return calls
	}
	for name, value := range protocol.Members(action) {
		if value.Kind() == '{' {
			calls = readAction(calls, value, &name)
		}
	}
	return calls
}

// WriteDecision makes the content of a MODEL entry, {"say": "...", "action": ...}, with the spacing of the first
// implementation. The action is {}, an object with a key for each robot, or a list of such objects with at most one
// robot each. It is a list if list is true or a robot has several calls.
func WriteDecision(say string, calls []tools.Call, list bool) []byte {
	dst := rawjson.AppendString([]byte(`{"say": `), say)
	dst = append(dst, `, "action": `...)
	open, closed, separator := "{", "}", ", "
	robots := make(map[string]bool, len(calls))
	for _, call := range calls {
		robots[call.TargetRobotName] = true
	}
	switch {
	case list && len(calls) == 0:
		open, closed = "[", "]"
	case list || len(robots) < len(calls):
		open, closed, separator = "[{", "}]", "}, {"
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
	return append(append(dst, closed...), '}')
}
