package openai

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/protocol"
)

// strict refuses members of an object that are not known, unless they are null.
type strict struct {
	Others map[string]absent `json:",embed"`
}

// absent is the value of a member that is not known.
type absent struct{}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (*absent) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != 'n' {
		return errors.New("is not supported; remove it")
	}
	return d.SkipValue()
}

// decode reads a body as strictly as package protocol does. A member that is null counts as
// absent.
func decode(body []byte, into any) error {
	var problems protocol.Problems
	if err := protocol.CheckSyntax(body); errors.As(err, &problems) {
		return refuse("body", "%s", problems[0].Msg)
	}
	err := json.Unmarshal(body, into)
	var semantic *json.SemanticError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &semantic):
		return refuse("body", "is not valid: %v", err)
	}
	param := place(semantic.JSONPointer)
	if want := wanted(semantic.GoType); want != "" {
		return refuse(param, "must be %s, not %s", want, shown(semantic))
	}
	return refuse(param, "%v", semantic.Err)
}

// read reads a part of a body.
func read(d *jsontext.Decoder, into any) error { return json.UnmarshalDecode(d, into) }

func marshal(v any) ([]byte, error) { return json.Marshal(v, json.Deterministic(true)) }

// place is a JSON pointer as a path: messages[2].content.
func place(pointer jsontext.Pointer) string {
	var b strings.Builder
	for name := range pointer.Tokens() {
		switch {
		case strings.Trim(name, "0123456789") == "" && b.Len() > 0:
			fmt.Fprintf(&b, "[%s]", name)
			continue
		case b.Len() > 0:
			b.WriteByte('.')
		}
		b.WriteString(name)
	}
	if b.Len() == 0 {
		return "body"
	}
	return b.String()
}

// wanted names what a type is in JSON, "" for one that reads itself.
func wanted(t reflect.Type) string {
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[json.UnmarshalerFrom]()) {
		return ""
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// shown is the value that an error is about.
func shown(err *json.SemanticError) string {
	switch err.JSONKind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "true or false"
	}
	if len(err.JSONValue) > 0 {
		return string(err.JSONValue)
	}
	return "a number"
}
