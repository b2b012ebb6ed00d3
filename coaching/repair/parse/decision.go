package parse

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/tools"
	"agentd/protocol"
)

// Decision is a decision as a model or person wrote it, not checked.
type Decision struct {
	Say   string
	Calls []Call
}

// Call is one tool call of a [Decision].
type Call struct {
	Name      string
	Arguments protocol.Raw // an object
	Robot     string       // "" if none was named
	Tagged    bool         // read from XML, where every value is text
}

// Member names that models and people use in decisions. RobotNames are those for
// the robot of a call.
var (
	callsNames     = []string{"tool_calls", "action", "actions", "calls"}
	toolNames      = []string{"name", "tool", "tool_name", "function_name", "function"}
	argumentsNames = []string{"arguments", "args", "parameters", "params", "input"}
	RobotNames     = []string{"target_robot_name", tools.RobotParameter, "robot", "robot_name", "executing_robot"}
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
func (r *reader) readDecision(v protocol.Raw) (w Decision, err error) {
	switch v.Kind() {
	case '"':
		w.Say, _ = protocol.Text(v)
		if startsJSON(strings.TrimSpace(w.Say)) { // JSON inside of a string
			inner, err := r.parse(w.Say)
			if err != nil || inner.Kind() == '"' {
				return w, errors.New("the decision is a string that should hold JSON, but does not")
			}
			return r.readDecision(inner)
		}
		return w, nil
	case '[':
		err = r.readCalls(&w.Calls, v, "", maxNesting)
		return w, err
	case '{':
	default:
		return w, fmt.Errorf(`the decision must be an object with say or tool_calls, not %s`, r.Quote(string(v)))
	}
	say, speaks := protocol.Get(v, "say")
	action, acts := member(v, callsNames)
	if !speaks && !acts {
		err = r.readCalls(&w.Calls, v, "", maxNesting)
		return w, err
	}
	if speaks && say.Kind() != 'n' {
		var ok bool
		if w.Say, ok = protocol.Text(say); !ok {
			return w, errors.New("say must be a string")
		}
	}
	if acts {
		err = r.readCalls(&w.Calls, action, "", maxNesting)
	}
	return w, err
}

// readCalls appends calls: {"name", "arguments", "target_robot_name"}, the same
// under "function" or under a robot's name, or a list of these. Arguments may be
// an object or a string that holds one. robot is the one whose name was passed.
func (r *reader) readCalls(calls *[]Call, v protocol.Raw, robot string, nesting int) error {
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
			return fmt.Errorf("a call must be an object with name and arguments, not the text %s", r.Quote(text))
		}
		return r.readCalls(calls, inner, robot, nesting-1)
	case '{':
		return r.readCallObject(calls, v, robot, nesting)
	}
	return fmt.Errorf("a call must be an object with name and arguments, not %s", r.Quote(string(v)))
}

func (r *reader) readCallObject(calls *[]Call, v protocol.Raw, robot string, nesting int) error {
	if len(*calls) > MaxCalls {
		return fmt.Errorf("there are more than %d calls", MaxCalls)
	}
	if named, ok := member(v, RobotNames); ok && named.Kind() == '"' {
		robot, _ = protocol.Text(named)
	}
	if function, ok := protocol.Get(v, "function"); ok && function.Kind() == '{' {
		return r.readCalls(calls, function, robot, nesting-1)
	}
	if name, ok := member(v, toolNames); ok && name.Kind() == '"' {
		call := Call{Arguments: protocol.Raw("{}"), Robot: robot}
		call.Name, _ = protocol.Text(name)
		if arguments, ok := member(v, argumentsNames); ok {
			var err error
			if call.Arguments, err = r.readArguments(call.Name, arguments); err != nil {
				return err
			}
		}
		*calls = append(*calls, call)
		return nil
	}
	for name, value := range protocol.Members(v) {
		if value.Kind() == '"' && slices.Contains(RobotNames, name) {
			continue // an object under such a name is the call of a robot that is called so
		}
		if value.Kind() != '{' && value.Kind() != '[' {
			return fmt.Errorf("a call has the member %s, but no name; write {name, arguments, target_robot_name}", r.Quote(name))
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
			return nil, fmt.Errorf("the arguments of %s are a string that should hold a JSON object, but %w", r.Quote(tool), err)
		}
		v = inner
	}
	if v.Kind() != '{' {
		return nil, fmt.Errorf("the arguments of %s must be an object, not %s", r.Quote(tool), r.Quote(string(v)))
	}
	return v, nil
}
