package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// tool is a function that the model may call.
type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      *bool           `json:"strict,omitempty"` // calls always fit
}

// toolCall is a call of the model.
type toolCall struct {
	Index    *int   `json:"index,omitempty"` // in streams
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// written is a call as the model writes it.
func (c *toolCall) written() (string, error) {
	if !json.Valid([]byte(c.Function.Arguments)) {
		return "", errors.New("the arguments are no JSON text")
	}
	text, err := json.Marshal(map[string]any{"name": c.Function.Name, "arguments": json.RawMessage(c.Function.Arguments)})
	return string(text), err
}

// toolChoice is auto, none, required, or the name of a function behind "function:".
type toolChoice string

func (c *toolChoice) UnmarshalJSON(raw []byte) error {
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if text != nil {
			*c = toolChoice(*text)
		}
		return nil
	}
	var named struct {
		Type     string
		Function struct{ Name string }
	}
	if err := json.Unmarshal(raw, &named); err != nil || named.Type != "function" {
		return errors.New(`tool_choice must be auto, none, required or {"type": "function", "function": {"name": ...}}`)
	}
	*c = toolChoice("function:" + named.Function.Name)
	return nil
}

// offer is what a model may call. Models differ in how they write calls; a chat asks each of
// them for one JSON object, which the grammar admits alone.
type offer struct {
	text   string // for the system message
	schema []byte // of the answer
	names  []string
}

const maxTools = 128

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// newOffer returns nil where nothing may be called.
func newOffer(tools []tool, choice toolChoice) (*offer, error) {
	name, one := strings.CutPrefix(string(choice), "function:")
	switch {
	case !one && !slices.Contains([]toolChoice{"", "auto", "none", "required"}, choice):
		return nil, refuse("tool_choice", "is %q; want auto, none, required or a function", string(choice))
	case len(tools) == 0 && (one || choice == "required"):
		return nil, refuse("tool_choice", "asks for a call, and there are no tools")
	case len(tools) > maxTools:
		return nil, refuse("tools", "are %d, at most %d are allowed", len(tools), maxTools)
	case len(tools) == 0 || choice == "none":
		return nil, nil
	}
	o := &offer{}
	var b strings.Builder
	b.WriteString("You can call these functions:\n")
	var answers []any
	for i := range tools {
		f := &tools[i].Function
		field := fmt.Sprintf("tools.%d", i)
		switch {
		case tools[i].Type != "function":
			return nil, refuse(field+".type", "is %q; only function is supported", tools[i].Type)
		case !toolName.MatchString(f.Name):
			return nil, refuse(field+".function.name", "%q must have 1 to 64 letters, digits, dots, dashes or underscores", f.Name)
		case slices.Contains(o.names, f.Name):
			return nil, refuse(field+".function.name", "%q is there twice", f.Name)
		}
		o.names = append(o.names, f.Name)
		parameters := f.Parameters
		if len(parameters) == 0 || string(parameters) == "null" {
			parameters = json.RawMessage(`{"type": "object", "properties": {}, "additionalProperties": false}`)
		}
		if one && f.Name != name {
			continue
		}
		text, err := json.Marshal(function{Name: f.Name, Description: f.Description, Parameters: parameters})
		if err != nil {
			return nil, refuse(field, "%v", err)
		}
		b.Write(append(text, '\n'))
		answers = append(answers, object([]string{"name", "arguments"}, map[string]any{"name": map[string]any{"const": f.Name}, "arguments": parameters}))
	}
	if len(answers) == 0 {
		return nil, refuse("tool_choice", "names %q, which is no tool", name)
	}
	b.WriteString(`To call one, answer with {"name": "its name", "arguments": {...}}.`)
	if choice == "" || choice == "auto" {
		b.WriteString(` Else answer with {"reply": "your text"}.`)
		answers = append(answers, object([]string{"reply"}, map[string]any{"reply": map[string]any{"type": "string"}}))
	}
	b.WriteString(" Write nothing else.")
	o.text = b.String()
	var err error
	o.schema, err = json.Marshal(map[string]any{"anyOf": answers})
	return o, err
}

// object is the schema of an object with these members alone.
func object(names []string, members map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": members, "required": names, "additionalProperties": false}
}

// read reads an answer. ok is false if it is neither a call nor a reply.
func (o *offer) read(text, id string) (call *toolCall, reply string, ok bool) {
	var answer struct {
		Name      string
		Arguments json.RawMessage
		Reply     *string
	}
	switch err := json.Unmarshal([]byte(text), &answer); {
	case err != nil:
		return nil, "", false
	case answer.Reply != nil:
		return nil, *answer.Reply, true
	case !slices.Contains(o.names, answer.Name):
		return nil, "", false
	}
	call = &toolCall{ID: "call-" + strings.TrimPrefix(id, "chatcmpl-"), Type: "function"}
	call.Function.Name, call.Function.Arguments = answer.Name, string(answer.Arguments)
	return call, "", true
}
