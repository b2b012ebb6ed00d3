package tools

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/rawjson"
	"agentd/agent/internal/schema"
	"agentd/agent/internal/tree"
	"agentd/protocol"
)

// Accept checks a call and separates its robot from the arguments. robot is a JSON value; if it is nil, the robot is
// the argument of the tool's robot parameter, or else the default robot. The error is why the call is invalid.
func (s *Set) Accept(name string, arguments, robot protocol.Raw) (Call, error) {
	tool, ok := s.Find(name)
	if ok && tool.RobotParam != "" {
		inside, has := protocol.Get(arguments, tool.RobotParam)
		if has && robot != nil && string(inside) != string(robot) {
			return Call{}, fmt.Errorf("the call of %s names two robots, %s and %s", name, robot, inside)
		}
		if has {
			robot = inside
		}
		arguments = protocol.DeleteMember(arguments, tool.RobotParam)
	}
	call := Call{Name: name, Arguments: arguments, TargetRobotName: s.DefaultRobot}
	var noText error
	if robot != nil {
		call.TargetRobotName, noText = rawjson.String(robot)
	}
	switch {
	case !ok && len(s.Tools) == 0:
		return Call{}, fmt.Errorf("the tool %q is called, but the input has no tools", name)
	case !ok:
		return Call{}, fmt.Errorf("the tool %q is unknown; known are %s", name, strings.Join(s.Names(), ", "))
	case noText != nil:
		return Call{}, fmt.Errorf("the call of %s must name a robot: %w", name, noText)
	case robot != nil && call.TargetRobotName == "":
		return Call{}, fmt.Errorf("the call of %s names an empty robot", name)
	case robot != nil && len(s.Robots) > 0 && !slices.Contains(s.Robots, call.TargetRobotName):
		return Call{}, fmt.Errorf("the call of %s names the unknown robot %q; known are %s", name, call.TargetRobotName, strings.Join(s.Robots, ", "))
	case arguments.Kind() != '{':
		return Call{}, fmt.Errorf("the arguments of %s must be an object, not %s", name, rawjson.KindName(arguments))
	case Depth(arguments) > MaxDepth:
		return Call{}, fmt.Errorf("the arguments of %s are nested more than %d levels deep", name, MaxDepth)
	}
	if _, err := tool.Document.Validate(arguments); err != nil {
		return Call{}, fmt.Errorf("the call of %s is invalid: %w", name, schema.Reason(err, "argument"))
	}
	return call, nil
}

// DecisionKey is equal for equal decisions: the order of robots does not matter, and arguments are compared by value.
func DecisionKey(d *protocol.AgentDecision) string {
	calls := slices.Clone(d.ToolCalls)
	slices.SortStableFunc(calls, func(a, b Call) int { return strings.Compare(a.TargetRobotName, b.TargetRobotName) })
	b := strconv.AppendQuote(nil, d.Say)
	for _, c := range calls {
		b = strconv.AppendQuote(append(b, '\n'), c.TargetRobotName)
		b = strconv.AppendQuote(append(b, ' '), c.Name)
		arguments := c.Arguments.Clone() // in the canonical form of RFC 8785, but with all digits of integers
		if arguments.Canonicalize(jsontext.CanonicalizeRawInts(false)) != nil {
			arguments = c.Arguments
		}
		b = append(append(b, ' '), arguments...)
	}
	return string(b)
}

// Depth returns the nesting of a valid JSON value: 0 for a number, 1 for a list of numbers.
func Depth(v protocol.Raw) int {
	deepest, at := 0, 0
	for c := range unquoted(v) {
		switch c {
		case '{', '[':
			at++
			deepest = max(deepest, at)
		case '}', ']':
			at--
		}
	}
	return deepest
}

// unquoted iterates over the bytes of a valid JSON value that are outside of strings.
func unquoted(v protocol.Raw) iter.Seq[byte] {
	return func(yield func(byte) bool) {
		quoted := false
		for i := 0; i < len(v); i++ {
			switch c := v[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case !quoted && !yield(c):
				return
			}
		}
	}
}

// NormaliseAnswer makes a set without tools, for answers of a schema. The error says why it can't be used.
func NormaliseAnswer(source protocol.Raw) (*Set, error) {
	if n := subschemas(source); n > MaxSubschemas || len(source) > MaxToolBytes {
		return nil, fmt.Errorf("the schema has %d bytes and %d schemas in it, but at most %d and %d are possible", len(source), n, MaxToolBytes, MaxSubschemas)
	}
	document, err := schema.New(translated(tree.Parse(source)))
	if err == nil {
		document.Root = "response_format"
		err = document.Usable()
	}
	if err != nil {
		return nil, fmt.Errorf("it is not a usable JSON Schema: %w", err)
	}
	return &Set{Answer: document}, nil
}

// CheckAnswer returns the first reason why a text is not a value of Answer, or nil.
func (s *Set) CheckAnswer(text string) error {
	_, err := s.Answer.Validate(protocol.Raw(text))
	return schema.Reason(err, "member")
}
