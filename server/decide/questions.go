package decide

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/decide"
	"agentd/agent/tools"
	"agentd/protocol"
	"agentd/server/openai"
)

type asked struct {
	openai.Strict
	Type         string         `json:"type"`
	Name         *string        `json:"name"`
	Instructions jsontext.Value `json:"instructions"`
	Choices      []choice       `json:"choices"`
	Levels       []level        `json:"levels"`
}

type choice struct {
	openai.Strict
	Value       jsontext.Value `json:"value"`
	Description string         `json:"description"`
}

// functionCall is a call as the value of a choice.
type functionCall struct {
	openai.Strict
	Type      string `json:"type"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type level struct {
	openai.Strict
	Label       string `json:"label"`
	Description string `json:"description"`
}

// question checks and converts a question. path is its path in the body.
func (a *asked) question(path string, hasTools bool) (q question, err error) {
	q.path = path
	if q.Instructions, err = textOf(a.Instructions, path+".instructions"); err != nil {
		return q, err
	}
	if a.Choices != nil && a.Type != "choice" || a.Levels != nil && a.Type != "score" {
		return q, openai.Refuse(path, "is a %s; choices are for a choice and levels for a score", a.Type)
	}
	switch a.Type {
	case "predicate":
		q.Kind, q.Options = decide.YesNo, make([]decide.Option, 2)
	case "choice":
		err = a.choices(&q, hasTools)
	case "score":
		q.Kind = decide.Levels
		for _, l := range a.Levels {
			q.Options = append(q.Options, decide.Option{Name: l.Label, Description: l.Description})
		}
		err = q.checkOptions("levels", 2, name)
	default:
		return q, openai.Refuse(path+".type", "is %q; want predicate, choice or score", a.Type)
	}
	if err == nil && q.Kind != decide.Whole && strings.TrimSpace(q.Instructions) == "" {
		err = openai.Refuse(path+".instructions", "are empty; give a text")
	}
	return q, err
}

// choices reads the choices: strings and booleans, or calls and replies.
func (a *asked) choices(q *question, hasTools bool) error {
	q.Kind = decide.Letters
	keys := map[*decide.Option]string{}
	q.Options = make([]decide.Option, len(a.Choices))
	for i := range a.Choices {
		c, o, field := &a.Choices[i], &q.Options[i], fmt.Sprintf("%s.choices[%d].value", q.path, i)
		o.Description = c.Description
		switch c.Value.Kind() {
		case '"':
			o.Name, _ = protocol.Text(c.Value)
			keys[o], o.Decision.Say = o.Name, o.Name
		case 't', 'f':
			o.Name = string(c.Value)
			keys[o] = "\x00" + o.Name // not the text
		case '{':
			var v functionCall
			if err := at(field, openai.Decode(c.Value, &v)); err != nil {
				return err
			}
			arguments := protocol.Raw(v.Arguments).Clone()
			switch {
			case v.Type != "function_call":
				return openai.Refuse(field+".type", "is %q; want function_call", v.Type)
			case arguments.Kind() != '{' || !arguments.IsValid():
				return openai.Refuse(field+".arguments", "must be the text of a JSON object")
			case !hasTools:
				return openai.Refuse(field, "is a call, and there are no tools; give the function in tools")
			}
			q.Kind = decide.Whole
			o.Decision.ToolCalls = []tools.Call{{Name: v.Name, Arguments: arguments.Clone()}}
			_ = arguments.Canonicalize()
			keys[o] = "\x00" + strconv.Quote(v.Name) + string(arguments)
		default:
			return openai.Refuse(field, "must be a text, a boolean or a function_call")
		}
	}
	for i := range q.Options {
		if o := &q.Options[i]; q.Kind == decide.Whole && (o.Description != "" || o.Decision.Say == "" && o.Decision.ToolCalls == nil) {
			return openai.Refuse(fmt.Sprintf("%s.choices[%d]", q.path, i), "must be a call or a reply without a description: beside calls the model is shown the tools only")
		}
	}
	return q.checkOptions("choices", 2, func(o *decide.Option) string { return keys[o] })
}
