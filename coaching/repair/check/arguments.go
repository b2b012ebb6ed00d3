package check

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"agentd/agent/tools"
	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

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

// argumentProblems returns all reasons why arguments break the tool's schema, each with
// its location. The tool set alone decides whether arguments are accepted.
func argumentProblems(q quote.Quoter, tool *tools.Tool, arguments protocol.Raw) (protocol.Problems, error) {
	doc, err := tool.Validate(arguments)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil, err
	}
	l := leaves{Quoter: q, tool: tool, doc: doc}
	l.add(invalid)
	// The library visits objects in random order.
	slices.SortFunc(l.found.list, func(a, b protocol.Problem) int { return strings.Compare(a.String(), b.String()) })
	return l.found.list, nil
}

// leaves collects the innermost reasons of a validation error.
type leaves struct {
	quote.Quoter
	tool  *tools.Tool
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
	if len(loc) > 0 || len(l.tool.Properties) < 2 {
		return ""
	}
	var list []string
	for _, property := range l.tool.Properties[:len(l.tool.Properties)-1] { // the last one is the robot
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
