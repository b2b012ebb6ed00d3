// Package tree has JSON values that are parsed once and then read and rewritten by several passes.
package tree

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
)

// Value is a JSON value. Its members keep their order, its numbers and strings their text. It never changes: a pass
// makes another value, which shares what stays.
type Value struct {
	Kind    jsontext.Kind // the first byte, '0' for numbers; 0 of a value that is absent
	Members []Member      // of an object

	text protocol.Raw // as it came; nil for an object or an array that a pass made
	list []*Value     // of an array that a pass made
}

// Member is a member of an object.
type Member struct {
	Name string // unescaped
	*Value
}

// True is the schema of any value.
var True = Parse(protocol.Raw("true"))

var absent = &Value{}

// Parse reads valid JSON, which the value refers to. The time is the size of raw times its depth.
func Parse(raw protocol.Raw) *Value {
	v := &Value{Kind: raw.Kind(), text: raw}
	for name, inner := range protocol.Members(raw) {
		v.Members = append(v.Members, Member{name, Parse(inner)})
	}
	return v
}

// Object makes an object.
func Object(members ...Member) *Value { return &Value{Kind: '{', Members: members} }

// List makes an array.
func List(elements ...*Value) *Value { return &Value{Kind: '[', list: elements} }

// String makes a string.
func String(s string) *Value { return &Value{Kind: '"', text: rawjson.AppendString(nil, s)} }

// Strings makes an array of strings.
func Strings(list []string) *Value {
	v := List()
	for _, s := range list {
		v.list = append(v.list, String(s))
	}
	return v
}

// KindName names the kind for messages: "an object", "a string", ...
func (v *Value) KindName() string { return rawjson.KindName(v.Raw()) }

// Raw is the value as JSON, nil for one that is absent. What a pass made has no white space.
func (v *Value) Raw() protocol.Raw {
	if v.text != nil || v.Kind == 0 {
		return v.text
	}
	return v.append(nil)
}

func (v *Value) append(dst []byte) []byte {
	switch {
	case v.text != nil:
		return append(dst, v.text...)
	case v.Kind == '[':
		return rawjson.AppendList(dst, v.list, func(dst []byte, e *Value) []byte { return e.append(dst) })
	}
	dst = append(dst, '{')
	for i, m := range v.Members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = m.append(append(rawjson.AppendString(dst, m.Name), ':'))
	}
	return append(dst, '}')
}

// Elements iterates over an array. An array as it came is read at each call: its options may be many, and most are read
// by one pass. What a pass made of it has the same elements each time.
func (v *Value) Elements() iter.Seq[*Value] {
	return func(yield func(*Value) bool) {
		for _, e := range v.list {
			if !yield(e) {
				return
			}
		}
		for raw := range protocol.Elements(v.text) {
			if !yield(Parse(raw)) {
				return
			}
		}
	}
}

// Text is the text of a string. ok is false for other values.
func (v *Value) Text() (s string, ok bool) { return protocol.Text(v.text) }

// Strings are the elements of an array of strings. The error says what else the value is.
func (v *Value) Strings() ([]string, error) {
	if v.Kind != '[' {
		return nil, fmt.Errorf("it must be a list of strings, not %s", v.KindName())
	}
	var list []string
	for e := range v.Elements() {
		s, ok := e.Text()
		if !ok {
			return nil, fmt.Errorf("element %d: it must be a string, not %s", len(list), e.KindName())
		}
		list = append(list, s)
	}
	return list, nil
}

// Get returns the member of a name, or an absent value.
func (v *Value) Get(name string) *Value {
	for _, m := range v.Members {
		if m.Name == name {
			return m.Value
		}
	}
	return absent
}

// Has reports whether an object has a member of one of the names.
func (v *Value) Has(names ...string) bool {
	return slices.ContainsFunc(v.Members, func(m Member) bool { return slices.Contains(names, m.Name) })
}

// With is an object with a member replaced in its place, or added at the end.
func (v *Value) With(name string, value *Value) *Value {
	members := slices.Clone(v.Members)
	if i := slices.IndexFunc(members, func(m Member) bool { return m.Name == name }); i >= 0 {
		members[i].Value = value
		return Object(members...)
	}
	return Object(append(members, Member{name, value})...)
}

// Without is an object without the members of some names.
func (v *Value) Without(names ...string) *Value {
	if !v.Has(names...) {
		return v
	}
	return Object(slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return slices.Contains(names, m.Name) })...)
}

// Map is an object or an array of what f makes of each value, by its name or index. Other values stay.
func (v *Value) Map(f func(name string, inner *Value) *Value) *Value {
	switch v.Kind {
	case '{':
		members := make([]Member, len(v.Members))
		for i, m := range v.Members {
			members[i] = Member{m.Name, f(m.Name, m.Value)}
		}
		return Object(members...)
	case '[':
		var list []*Value
		for e := range v.Elements() {
			list = append(list, f(strconv.Itoa(len(list)), e))
		}
		return List(list...)
	}
	return v
}

// All iterates over a value and all values in it.
func (v *Value) All() iter.Seq[*Value] {
	return func(yield func(*Value) bool) { v.visit(yield) }
}

func (v *Value) visit(yield func(*Value) bool) bool {
	if !yield(v) {
		return false
	}
	for _, m := range v.Members {
		if !m.visit(yield) {
			return false
		}
	}
	for e := range v.Elements() {
		if !e.visit(yield) {
			return false
		}
	}
	return true
}

// Any is the value as package encoding/json decodes it with numbers as [json.Number].
func (v *Value) Any() any {
	switch v.Kind {
	case '{':
		object := make(map[string]any, len(v.Members))
		for _, m := range v.Members {
			object[m.Name] = m.Any()
		}
		return object
	case '[':
		list := []any{}
		for e := range v.Elements() {
			list = append(list, e.Any())
		}
		return list
	case '"':
		s, _ := v.Text()
		return s
	case '0':
		return json.Number(v.text)
	case 't', 'f':
		return v.Kind == 't'
	}
	return nil
}
