package repair

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
	"agentd/protocol"
)

// addArguments adds what is wrong with the arguments of a call that the tools
// did not accept. refused is their own reason, one only and without a place: it
// is told when looking closer finds no more.
func (p *problems) addArguments(q quoter, tool *tools.Tool, arguments protocol.Raw, refused error, loc ...any) {
	found, err := argumentProblems(q, tool, arguments)
	if err != nil || len(found) == 0 {
		p.add(protocol.TypeValue, q.errorText(refused), loc...)
		return
	}
	for _, problem := range found {
		p.add(problem.Type, problem.Msg, slices.Concat(loc, problem.Loc)...)
	}
}

// argumentProblems are all reasons why arguments break the tool's schema, each
// at its place. They are for the reader: whether arguments are accepted is the
// tool set's decision.
func argumentProblems(q quoter, tool *tools.Tool, arguments protocol.Raw) (protocol.Problems, error) {
	doc, err := tool.Validate(arguments)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil, err
	}
	l := leaves{quoter: q, tool: tool, doc: doc}
	l.add(invalid)
	// The library goes through objects in any order.
	slices.SortFunc(l.found.list, func(a, b protocol.Problem) int { return strings.Compare(a.String(), b.String()) })
	return l.found.list, nil
}

// leaves collects the innermost reasons of a validation error.
type leaves struct {
	quoter
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
			l.found.add(protocol.TypeMissing, fmt.Sprintf("the argument %s is required", l.quote(name)), slices.Concat(loc, []any{name})...)
		}
	case *kind.AdditionalProperties:
		for _, name := range reason.Properties {
			l.found.add(protocol.TypeExtraForbidden, "there is no such argument"+l.known(loc), slices.Concat(loc, []any{name})...)
		}
	default:
		text, _ := l.head(e.ErrorKind.LocalizedString(printer), 4*maxQuoted)
		l.found.add(protocol.TypeValue, oneLine(text), loc...)
	}
}

// known lists the tool's own arguments where one of them is meant.
func (l *leaves) known(loc []any) string {
	if len(loc) > 0 || len(l.tool.Properties) < 2 {
		return ""
	}
	var list []string
	for _, property := range l.tool.Properties[:len(l.tool.Properties)-1] { // the last one is the robot
		list = append(list, property.Name)
	}
	return "; known are " + l.names(list)
}

// place turns the steps of a JSON pointer into a location: indexes of arrays
// become numbers.
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
