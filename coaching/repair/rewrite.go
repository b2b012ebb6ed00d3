package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentd/agent/tools"
	"agentd/coaching/repair/parse"
	"agentd/protocol"
)

// Decide converts a parsed decision to one for this point. A text that is calls of its tools, in any notation, becomes
// these. A robot among the arguments becomes the target; a call without a robot gets the only possible one. The result
// is not checked.
func (p *Point) Decide(w parse.Decision) (*protocol.AgentDecision, error) {
	unknown := func(c parse.Call) bool { return p.tool(c.Name) == nil }
	if out, err := parse.RawOutput(w.Say, p.Quoter); len(w.Calls) == 0 && err == nil && len(out.Calls) > 0 &&
		strings.TrimSpace(out.Say+out.Beside) == "" && !slices.ContainsFunc(out.Calls, unknown) {
		w = parse.Decision{Calls: out.Calls}
	}
	d := &protocol.AgentDecision{Say: w.Say}
	for _, call := range w.Calls {
		p.liftRobot(&call)
		p.dropNulls(&call)
		if call.Robot == "" {
			if len(p.Robots) > 1 {
				return nil, fmt.Errorf("the call of %s names no robot in target_robot_name; known are %s", p.Quote(call.Name), p.Names(p.Robots))
			}
			call.Robot = p.DefaultRobot
		}
		d.ToolCalls = append(d.ToolCalls, protocol.ToolCall{Name: call.Name, Arguments: call.Arguments, TargetRobotName: call.Robot})
	}
	return d, nil
}

// tool returns the tool with a name, nil if there is none.
func (p *Point) tool(name string) *tools.Tool {
	if p.Tools == nil {
		return nil
	}
	tool, _ := p.Tools.Find(name)
	return tool
}

// liftRobot moves the robot out of the arguments, where prompts show it to models. An argument with another name for
// robots counts only if the call has no robot and the tool has no such argument.
func (p *Point) liftRobot(call *parse.Call) {
	tool := p.tool(call.Name)
	if tool == nil {
		return
	}
	for _, name := range append([]string{tool.RobotParam}, parse.RobotNames...) {
		if name != tool.RobotParam && (call.Robot != "" || takesArgument(tool, name)) {
			continue
		}
		robot, ok := protocol.Get(call.Arguments, name)
		text, isText := protocol.Text(robot)
		if !ok || !isText || call.Robot != "" && text != call.Robot {
			continue
		}
		call.Robot = text
		call.Arguments = protocol.DeleteMember(call.Arguments, name)
		return
	}
}

// dropNulls removes arguments that are null although the tool does not allow null. Strict schemas
// require every argument, and allow null for those that the tool does not require.
func (p *Point) dropNulls(call *parse.Call) {
	tool := p.tool(call.Name)
	if tool == nil {
		return
	}
	found, err := argumentProblems(p.Quoter, tool, call.Arguments)
	if err != nil || len(found) == 0 {
		return
	}
	arguments := call.Arguments
	for _, problem := range found {
		arguments = withoutNull(arguments, problem.Loc)
	}
	if _, err := tool.Document.Validate(arguments); err == nil {
		call.Arguments = arguments
	}
}

// withoutNull removes the member of an object at a location if it is null.
func withoutNull(v protocol.Raw, loc []any) protocol.Raw {
	if len(loc) == 0 {
		return v
	}
	switch step := loc[0].(type) {
	case string:
		value, there := protocol.Get(v, step)
		switch {
		case !there:
		case len(loc) > 1:
			return protocol.SetMember(v, step, withoutNull(value, loc[1:]))
		case value.Kind() == 'n':
			return protocol.DeleteMember(v, step)
		}
	case int:
		var list []string
		for element := range protocol.Elements(v) {
			if len(list) == step {
				element = withoutNull(element, loc[1:])
			}
			list = append(list, string(element))
		}
		return protocol.Raw("[" + strings.Join(list, ",") + "]")
	}
	return v
}

// takesArgument reports whether a tool's schema declares an argument or explicitly
// allows undeclared ones.
func takesArgument(tool *tools.Tool, name string) bool {
	if slices.ContainsFunc(tool.Properties, func(have tools.Property) bool { return have.Name == name }) {
		return true
	}
	others, said := protocol.Get(tool.Schema, "additionalProperties")
	patterns, _ := protocol.Get(tool.Schema, "patternProperties")
	return said && string(others) != "false" || len(patterns) > 0 && string(patterns) != "{}" && string(patterns) != "null"
}

// Rewrite converts a raw output to a decision for this point; the result is not checked. isOutput
// is false for the text of an error, which may quote an output.
func (p *Point) Rewrite(out parse.Output, isOutput bool) (*protocol.AgentDecision, error) {
	if len(out.Calls) > 0 {
		return p.repairCalls(out)
	}
	return p.repairText(out, isOutput)
}

func (p *Point) repairCalls(out parse.Output) (*protocol.AgentDecision, error) {
	switch beside := strings.TrimSpace(out.Beside + out.Say); {
	case strings.ContainsAny(beside, "?？"):
		return nil, fmt.Errorf("beside its calls the output has a question: %s", p.Quote(beside))
	case strings.ContainsAny(out.Beside, "<>{}[]|"):
		return nil, fmt.Errorf("beside its calls the output has what may be another one: %s", p.Quote(beside))
	}
	w := parse.Decision{Calls: slices.Clone(out.Calls)}
	for i := range w.Calls {
		p.mend(&w.Calls[i])
	}
	d, err := p.Decide(w)
	if err != nil {
		return nil, err
	}
	called := map[string]bool{}
	for _, call := range d.ToolCalls {
		if called[call.TargetRobotName] {
			return nil, fmt.Errorf("the output has several calls of the robot %s, and which one is meant is not clear", p.Quote(call.TargetRobotName))
		}
		called[call.TargetRobotName] = true
	}
	return d, nil
}

// repairText returns the text as a reply. Plain text is a reply only if nothing in it looks like an attempt to call.
func (p *Point) repairText(out parse.Output, isOutput bool) (*protocol.AgentDecision, error) {
	if say := strings.TrimSpace(out.Say); say != "" {
		return &protocol.AgentDecision{Say: say}, nil
	}
	reply := strings.TrimSpace(out.Beside)
	switch {
	case reply == "":
		return nil, errors.New("the raw output has neither a reply nor a tool call")
	case !isOutput:
		return nil, errors.New("the step has no raw output, and its error quotes no decision")
	case strings.ContainsAny(reply, "<>{}[]|`"):
		return nil, errors.New("the raw output is neither a clean reply nor a complete call")
	case p.Tools == nil:
		return nil, errors.New("the tools are unusable, so a reply can't be distinguished from an attempt to call one")
	}
	for _, name := range p.Tools.Names() {
		if strings.Contains(fold(reply), fold(name)) {
			return nil, fmt.Errorf("the raw output is text that mentions the tool %s: it may be a reply or an attempt to call it", p.Quote(name))
		}
	}
	return &protocol.AgentDecision{Say: reply}, nil
}

// mend corrects mistakes that have only one possible correction: in the spelling of tool and
// robot names, and in the types of arguments.
func (p *Point) mend(call *parse.Call) {
	if p.Tools == nil {
		return
	}
	if p.tool(call.Name) == nil {
		if meant, ok := closest(call.Name, p.Tools.Names()); ok {
			call.Name = meant
		}
	}
	p.liftRobot(call)
	if meant, ok := closest(call.Robot, p.Robots); ok && call.Robot != "" {
		call.Robot = meant
	}
	tool := p.tool(call.Name)
	if tool == nil {
		return
	}
	for _, property := range tool.Properties {
		if v, ok := protocol.Get(call.Arguments, property.Name); ok {
			call.Arguments = protocol.SetMember(call.Arguments, property.Name, mendValue(property, v, call.Tagged))
		}
	}
}

// mendValue converts a value to the type in its schema, if that is possible. Other
// values stay for the check. In tagged calls, where every value is text, JSON of an
// object or a list is converted.
func mendValue(property tools.Property, v protocol.Raw, tagged bool) protocol.Raw {
	typ, _ := protocol.Get(property.Schema, "type")
	want, _ := protocol.Text(typ)
	text, isText := protocol.Text(v)
	if want == "" && tagged {
		want = "object"
	}
	switch want {
	case "string":
		if kind := v.Kind(); kind == '0' || kind == 't' || kind == 'f' {
			return protocol.String(string(v))
		}
	case "integer", "number":
		if _, err := strconv.ParseFloat(text, 64); isText && err == nil && json.Valid([]byte(text)) {
			return protocol.Raw(text)
		}
	case "boolean":
		if lower := strings.ToLower(text); isText && (lower == "true" || lower == "false") {
			return protocol.Raw(lower)
		}
	case "object", "array":
		if inner, err := parse.JSON(text); isText && err == nil && (inner.Kind() == '{' || inner.Kind() == '[') {
			return inner
		}
	}
	return v
}
