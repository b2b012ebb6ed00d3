package repair

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"agentd/agent/tools"
	"agentd/coaching/internal/quote"
	"agentd/coaching/repair/parse"
	"agentd/protocol"
)

// Check checks a decision for the point: it is valid and not empty, its tools and robots are
// known, and arguments match. Problems are located from the decision:
// ["tool_calls", 0, "arguments", "place"].
func (p *Point) Check(d *protocol.AgentDecision) protocol.Problems {
	var found problems
	switch {
	case d == nil, len(d.ToolCalls) == 0 && strings.Trim(d.Say, ".… \t\r\n") == "":
		found.add(protocol.TypeValue, "the decision is empty; write a text in say, or at least one tool call")
		return found.list
	case len(d.ToolCalls) > parse.MaxCalls:
		found.add(protocol.TypeTooLong, fmt.Sprintf("there are %d calls; one decision may have at most %d", len(d.ToolCalls), parse.MaxCalls), "tool_calls")
		return found.list
	case p.calls(d.Say) != "":
		found.add(protocol.TypeValue, fmt.Sprintf("the text is a call of %s, which is not made; write the call in tool_calls", p.Quote(p.calls(d.Say))), "say")
	case !utf8.ValidString(d.Say):
		found.add(protocol.TypeString, "the text is not valid UTF-8", "say")
	}
	list := wellFormed(d)
	found.list = append(found.list, list[:min(len(list), maxProblems-len(found.list))]...)
	if len(found.list) > 0 || len(d.ToolCalls) == 0 {
		return found.list
	}
	if p.Tools == nil {
		found.add(protocol.TypeValue, fmt.Sprintf("no call can be checked at the point %s, since its tools are unusable (%s); only a text can be proposed here, in say",
			p.Quote(p.ID), p.ErrorText(p.ToolsErr)), "tool_calls")
		return found.list
	}
	for i := range d.ToolCalls {
		if len(found.list) == maxProblems {
			break // each call costs a check
		}
		p.checkCall(&found, i, &d.ToolCalls[i])
	}
	return found.list
}

// calls returns the tool whose call a text is, as in go_to(...) or go_to{...}, or "".
func (p *Point) calls(say string) string {
	name, _, _ := strings.Cut(strings.TrimSpace(strings.Replace(say, "{", "(", 1)), "(")
	if name = strings.TrimSpace(name); name == strings.TrimSpace(say) || p.tool(name) == nil {
		return ""
	}
	return name
}

// wellFormed returns the problems that the agent would find when it decodes the
// correction.
func wellFormed(d *protocol.AgentDecision) (list protocol.Problems) {
	for i, call := range d.ToolCalls {
		if !call.Arguments.IsValid() {
			list = append(list, protocol.Problem{Type: protocol.TypeJSONInvalid, Loc: []any{"tool_calls", i, "arguments"}, Msg: "the arguments are not valid JSON, or have a name twice"})
		}
		if !utf8.ValidString(call.Name) || !utf8.ValidString(call.TargetRobotName) {
			list = append(list, protocol.Problem{Type: protocol.TypeString, Loc: []any{"tool_calls", i}, Msg: "name and target_robot_name must be valid UTF-8"})
		}
	}
	if len(list) > 0 {
		return list
	}
	_, err := protocol.DecodeCorrection(protocol.CorrectionTo(d).AppendJSON(nil))
	found, _ := errors.AsType[protocol.Problems](err)
	for _, problem := range found {
		loc := problem.Loc[1:] // "body"
		if len(loc) > 0 && loc[0] == "decision" {
			loc = loc[1:]
		}
		list = append(list, protocol.Problem{Type: problem.Type, Loc: loc, Msg: problem.Msg})
	}
	return list
}

func (p *Point) checkCall(found *problems, i int, call *protocol.ToolCall) {
	tool, known := p.Tools.Find(call.Name)
	if !known {
		found.add(protocol.TypeValue, unknownName(p.Quoter, "tool", call.Name, p.Tools.Names()), "tool_calls", i, "name")
		return
	}
	robot := call.TargetRobotName
	if len(p.Robots) > 0 && !slices.Contains(p.Robots, robot) {
		found.add(protocol.TypeValue, unknownName(p.Quoter, "robot", robot, p.Robots), "tool_calls", i, "target_robot_name")
		robot = p.Robots[0] // check the arguments all the same
	}
	if _, err := p.Tools.Accept(call.Name, call.Arguments, protocol.String(robot)); err != nil {
		found.addArguments(p.Quoter, tool, call.Arguments, err, "tool_calls", i, "arguments")
	}
}

// problems collects up to maxProblems problems.
type problems struct{ list protocol.Problems }

func (p *problems) add(typ, msg string, loc ...any) {
	if len(p.list) < maxProblems {
		p.list = append(p.list, protocol.Problem{Type: typ, Loc: loc, Msg: msg})
	}
}

// closest returns the only known name that equals name after fold.
func closest(name string, known []string) (found string, ok bool) {
	folded := fold(name)
	same := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return fold(k) != folded })
	if len(same) != 1 {
		return "", false
	}
	return same[0], true
}

// fold returns a name in lower case, without separators and without the prefix that some models give functions.
func fold(name string) string {
	name = strings.TrimPrefix(strings.ToLower(name), "functions.")
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' || r == '.' {
			return -1
		}
		return r
	}, name)
}

// unknownName returns a message that lists the known names and suggests the closest.
func unknownName(q quote.Quoter, what, name string, known []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("the %s %s is unknown: there are no %ss here", what, q.Quote(name), what)
	}
	msg := fmt.Sprintf("the %s %s is unknown; known are %s", what, q.Quote(name), q.Names(known))
	if meant, ok := closest(name, known); ok {
		msg += "; did you mean " + q.Quote(meant) + "?"
	}
	return msg
}

// addArguments adds the problems of arguments that the tools did not accept. refused
// is their own reason, without a location. It is used when nothing more precise is
// found.
func (p *problems) addArguments(q quote.Quoter, tool *tools.Tool, arguments protocol.Raw, refused error, loc ...any) {
	found, err := argumentProblems(q, tool, arguments)
	if err != nil || len(found) == 0 {
		p.add(protocol.TypeValue, q.ErrorText(refused), loc...)
		return
	}
	for _, problem := range found {
		p.add(problem.Type, problem.Msg, slices.Concat(loc, problem.Loc)...)
	}
}

// argumentProblems returns all reasons why arguments do not match the tool's schema, each with
// its location. Only the tool set decides whether arguments are accepted.
func argumentProblems(q quote.Quoter, tool *tools.Tool, arguments protocol.Raw) (protocol.Problems, error) {
	doc, err := tool.Document.Validate(arguments)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil, err
	}
	l := leaves{Quoter: q, of: tool, doc: doc}
	l.add(invalid)
	// The library visits objects in random order.
	slices.SortFunc(l.found.list, func(a, b protocol.Problem) int { return strings.Compare(a.String(), b.String()) })
	return l.found.list, nil
}

// leaves collects the innermost reasons of a validation error.
type leaves struct {
	quote.Quoter
	of    *tools.Tool
	doc   any
	found problems
}

var printer = message.NewPrinter(language.English)

func (l *leaves) add(e *jsonschema.ValidationError) {
	for _, cause := range e.Causes {
		if len(l.found.list) >= maxProblems {
			return
		}
		l.add(cause)
	}
	if len(e.Causes) > 0 {
		return
	}
	loc := place(l.doc, e.InstanceLocation)
	switch reason := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range reason.Missing {
			l.found.add(protocol.TypeMissing, fmt.Sprintf("the argument %s is required", l.Quote(name)), slices.Concat(loc, []any{name})...)
		}
	case *kind.AdditionalProperties:
		for _, name := range reason.Properties {
			l.found.add(protocol.TypeExtraForbidden, "there is no such argument"+l.known(loc), slices.Concat(loc, []any{name})...)
		}
	default:
		text, _ := l.Head(e.ErrorKind.LocalizedString(printer), 4*quote.MaxQuoted)
		l.found.add(protocol.TypeValue, quote.OneLine(text), loc...)
	}
}

// known lists the tool's arguments for a name at the top level.
func (l *leaves) known(loc []any) string {
	if len(loc) > 0 || len(l.of.Properties) < 2 {
		return ""
	}
	var list []string
	for _, property := range l.of.Properties[:len(l.of.Properties)-1] { // the last one is the robot
		list = append(list, property.Name)
	}
	return "; known are " + l.Names(list)
}

// place turns the steps of a JSON pointer into a location. Array indexes become
// numbers.
func place(doc any, steps []string) []any {
	loc := make([]any, 0, len(steps))
	for _, step := range steps {
		switch v := doc.(type) {
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return loc
			}
			loc, doc = append(loc, i), v[i]
		case map[string]any:
			loc, doc = append(loc, step), v[step]
		default:
			return loc
		}
	}
	return loc
}
