package repair

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/tools"
	"agentd/protocol"
)

// written is a decision as somebody wrote it: read, but not checked.
type written struct {
	say   string
	calls []writtenCall
}

type writtenCall struct {
	name      string
	arguments protocol.Raw // an object
	robot     string       // "" where none was named
	tagged    bool         // read from XML, where every value is text
}

// Names that members have where models and people write decisions.
var (
	callsNames     = []string{"tool_calls", "action", "actions", "calls"}
	toolNames      = []string{"name", "tool", "tool_name", "function_name", "function"}
	argumentsNames = []string{"arguments", "args", "parameters", "params", "input"}
	robotNames     = []string{"target_robot_name", tools.RobotParameter, "robot", "robot_name", "executing_robot"}
)

// member is the first of the members that the object has, null counting as
// absent.
func member(obj protocol.Raw, names []string) (protocol.Raw, bool) {
	for _, name := range names {
		if v, ok := protocol.Get(obj, name); ok && v.Kind() != 'n' {
			return v, true
		}
	}
	return nil, false
}

// readDecision reads {"say", "tool_calls"}, {"say", "action"}, calls alone in any
// of the forms of readCalls, and text.
func (r *reader) readDecision(v protocol.Raw) (w written, err error) {
	switch v.Kind() {
	case '"':
		w.say, _ = protocol.Text(v)
		if startsJSON(strings.TrimSpace(w.say)) { // JSON inside of a string
			inner, err := r.parse(w.say)
			if err != nil || inner.Kind() == '"' {
				return w, errors.New("the decision is a string that should hold JSON, but does not")
			}
			return r.readDecision(inner)
		}
		return w, nil
	case '[':
		err = r.readCalls(&w.calls, v, "", maxNesting)
		return w, err
	case '{':
	default:
		return w, fmt.Errorf(`the decision must be an object with say or tool_calls, not %s`, r.quote(string(v)))
	}
	say, speaks := protocol.Get(v, "say")
	action, acts := member(v, callsNames)
	if !speaks && !acts {
		err = r.readCalls(&w.calls, v, "", maxNesting)
		return w, err
	}
	if speaks && say.Kind() != 'n' {
		var ok bool
		if w.say, ok = protocol.Text(say); !ok {
			return w, errors.New("say must be a string")
		}
	}
	if !acts {
		return w, nil
	}
	err = r.readCalls(&w.calls, action, "", maxNesting)
	return w, err
}

// readCalls appends calls: {"name", "arguments", "target_robot_name"}, the same
// under "function" or under a robot's name, or a list of these. Arguments may be
// an object or a string that holds one. robot is the one whose name was passed.
func (r *reader) readCalls(calls *[]writtenCall, v protocol.Raw, robot string, nesting int) error {
	if nesting == 0 {
		return errors.New("the calls are nested too deeply; write a list of {name, arguments, target_robot_name}")
	}
	switch v.Kind() {
	case '[':
		for e := range protocol.Elements(v) {
			if err := r.readCalls(calls, e, robot, nesting-1); err != nil {
				return err
			}
		}
		return nil
	case '"':
		text, _ := protocol.Text(v)
		inner, err := r.parse(text)
		if err != nil || inner.Kind() == '"' {
			return fmt.Errorf("a call must be an object with name and arguments, not the text %s", r.quote(text))
		}
		return r.readCalls(calls, inner, robot, nesting-1)
	case '{':
		return r.readCallObject(calls, v, robot, nesting)
	}
	return fmt.Errorf("a call must be an object with name and arguments, not %s", r.quote(string(v)))
}

func (r *reader) readCallObject(calls *[]writtenCall, v protocol.Raw, robot string, nesting int) error {
	if len(*calls) > maxCalls {
		return fmt.Errorf("there are more than %d calls", maxCalls)
	}
	if named, ok := member(v, robotNames); ok && named.Kind() == '"' {
		robot, _ = protocol.Text(named)
	}
	if function, ok := protocol.Get(v, "function"); ok && function.Kind() == '{' {
		return r.readCalls(calls, function, robot, nesting-1)
	}
	if name, ok := member(v, toolNames); ok && name.Kind() == '"' {
		call := writtenCall{arguments: protocol.Raw("{}"), robot: robot}
		call.name, _ = protocol.Text(name)
		if arguments, ok := member(v, argumentsNames); ok {
			var err error
			if call.arguments, err = r.readArguments(call.name, arguments); err != nil {
				return err
			}
		}
		*calls = append(*calls, call)
		return nil
	}
	for name, value := range protocol.Members(v) {
		if value.Kind() == '"' && slices.Contains(robotNames, name) {
			continue // an object under such a name is the call of a robot that is called so
		}
		if value.Kind() != '{' && value.Kind() != '[' {
			return fmt.Errorf("a call has the member %s, but no name; write {name, arguments, target_robot_name}", r.quote(name))
		}
		if err := r.readCalls(calls, value, name, nesting-1); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) readArguments(tool string, v protocol.Raw) (protocol.Raw, error) {
	if text, ok := protocol.Text(v); ok {
		if strings.TrimSpace(text) == "" {
			return protocol.Raw("{}"), nil
		}
		inner, err := r.parse(text)
		if err != nil {
			return nil, fmt.Errorf("the arguments of %s are a string that should hold a JSON object, but %w", r.quote(tool), err)
		}
		v = inner
	}
	if v.Kind() != '{' {
		return nil, fmt.Errorf("the arguments of %s must be an object, not %s", r.quote(tool), r.quote(string(v)))
	}
	return v, nil
}

// decide makes the decision for a point of what was written: a robot among the
// arguments is lifted out, and where no robot is named the only one that can be
// meant is. Everything else is left to check.
func (p *Point) decide(w written) (*protocol.AgentDecision, error) {
	d := &protocol.AgentDecision{Say: w.say}
	for _, call := range w.calls {
		p.liftRobot(&call)
		if call.robot == "" {
			if len(p.Robots) > 1 {
				return nil, fmt.Errorf("the call of %s names no robot in target_robot_name; known are %s", p.quote(call.name), p.names(p.Robots))
			}
			call.robot = p.usual
		}
		d.ToolCalls = append(d.ToolCalls, protocol.ToolCall{Name: call.name, Arguments: call.arguments, TargetRobotName: call.robot})
	}
	return d, nil
}

// liftRobot moves the robot out of the arguments, where models are shown it. Under
// another name than the one shown it is the robot only while none is named and the
// tool has no use for such an argument.
func (p *Point) liftRobot(call *writtenCall) {
	if p.Tools == nil {
		return
	}
	tool, known := p.Tools.Find(call.name)
	if !known {
		return
	}
	for _, name := range append([]string{tool.RobotParam}, robotNames...) {
		if name != tool.RobotParam && (call.robot != "" || takesArgument(tool, name)) {
			continue
		}
		robot, ok := protocol.Get(call.arguments, name)
		text, isText := protocol.Text(robot)
		if !ok || !isText || call.robot != "" && text != call.robot {
			continue
		}
		call.robot = text
		call.arguments = protocol.DeleteMember(call.arguments, name)
		return
	}
}

// takesArgument tells whether a tool's schema declares an argument, or says that there
// may be others than it declares. Where it says nothing of others, nobody counts on any.
func takesArgument(tool *tools.Tool, name string) bool {
	if slices.ContainsFunc(tool.Properties, func(have tools.Property) bool { return have.Name == name }) {
		return true
	}
	others, said := protocol.Get(tool.Schema, "additionalProperties")
	patterns, _ := protocol.Get(tool.Schema, "patternProperties")
	return said && string(others) != "false" || !empty(patterns)
}
