package openai

import (
	"crypto/rand"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/tools"
	"agentd/protocol"
)

// tool is a function that the model may call.
type tool struct {
	strict
	Type     string `json:"type"`
	Function struct {
		strict
		Name        string         `json:"name,omitzero"`
		Description string         `json:"description,omitzero"`
		Parameters  jsontext.Value `json:"parameters,omitzero"`
		Strict      *bool          `json:"strict,omitzero"` // calls always fit
	} `json:"function"`
}

// toolCall is a call of the model.
type toolCall struct {
	strict
	Index    *int   `json:"index,omitzero"` // in streams
	ID       string `json:"id,omitzero"`
	Type     string `json:"type,omitzero"`
	Function called `json:"function"`
}

type called struct {
	strict
	Name      string `json:"name,omitzero"`
	Arguments string `json:"arguments"`
}

// newCalls are the calls of an answer. Their ids are unique.
func newCalls(calls []tools.Call) (list []toolCall) {
	for _, c := range calls {
		list = append(list, toolCall{ID: "call_" + rand.Text(), Type: "function", Function: called{Name: c.Name, Arguments: string(c.Arguments)}})
	}
	return list
}

// toolChoice is auto (also ""), none, required, or a function's name.
type toolChoice struct{ mode, name string }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *toolChoice) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return read(d, &c.mode)
	}
	var named struct {
		strict
		Type     string `json:"type"`
		Function struct {
			strict
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := read(d, &named); err != nil {
		return err
	}
	if named.Type != "function" || named.Function.Name == "" {
		return errors.New(`must be auto, none, required or {"type": "function", "function": {"name": ...}}`)
	}
	c.name = named.Function.Name
	return nil
}

// functions are the tools that may be called, none where tool_choice says so.
func (r *chatRequest) functions() (f tools.Functions, err error) {
	choice := r.ToolChoice
	switch known := []string{"", "auto", "none", "required"}; {
	case !slices.Contains(known, choice.mode):
		return f, refuse("tool_choice", "is %q; want auto, none, required or a function", choice.mode)
	case len(r.Tools) == 0 && (choice.name != "" || choice.mode == "required"):
		return f, refuse("tool_choice", "asks for a call, and there are no tools")
	case choice.name != "" && !slices.ContainsFunc(r.Tools, func(t tool) bool { return t.Function.Name == choice.name }):
		return f, refuse("tool_choice", "names %q, which is no tool", choice.name)
	}
	f = tools.Functions{Only: choice.name, MustCall: choice.name != "" || choice.mode == "required", OneCall: !r.Parallel}
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Type != "function" {
			return f, refuse(path("tools", i)+".type", "is %q; only function is supported", t.Type)
		}
		raw, err := marshal(&r.Tools[i].Function)
		if err != nil {
			return f, err
		}
		f.Raw = append(f.Raw, protocol.Raw(raw))
	}
	if choice.mode == "none" {
		f.Raw = nil
	}
	return f, nil
}
