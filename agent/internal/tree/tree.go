// Package tree parses JSON once, for several passes that read and rewrite it.
package tree

import (
	"iter"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
)

// Value is an immutable JSON value. Members keep their order, numbers and strings their bytes. A pass that changes a
// value makes another one, which shares the unchanged parts.
type Value struct {
	Kind    jsontext.Kind // the first byte, '0' for numbers; 0: the value is absent
	Members []Member      // of an object

	text protocol.Raw // the source; nil for an object or an array that a pass made
	list []*Value     // the elements of an array that a pass made
}

// Member is a name and a value in an object.
type Member struct {
	Name string // unescaped
	*Value
}

// True is the value true: as a schema, it admits every value.
var True = Parse(protocol.Raw("true"))

var absent = &Value{}

// Parse parses valid JSON, to which the value refers. It takes O(size * depth) time.
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

// Raw returns the value as JSON, nil if it is absent. Parts that a pass made have no white space.
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

// Elements iterates over an array. The source of an array is parsed at each call, since most arrays are read by one
// pass; an array that a pass made has the same elements each time.
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

// Text returns the text of a string; ok is false for other values.
func (v *Value) Text() (s string, ok bool) { return protocol.Text(v.text) }

// Strings returns the elements of an array of strings. The error says what the value is instead.
func (v *Value) Strings() ([]string, error) { return rawjson.Strings(v.Raw()) }

// Get returns the member of that name, or an absent value.
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

// With returns an object with a member replaced in its place, or added at the end.
func (v *Value) With(name string, value *Value) *Value {
	members := slices.Clone(v.Members)
	if i := slices.IndexFunc(members, func(m Member) bool { return m.Name == name }); i >= 0 {
		members[i].Value = value
		return Object(members...)
	}
	return Object(append(members, Member{name, value})...)
}

// Without returns an object without the members of these names.
func (v *Value) Without(names ...string) *Value {
	if !v.Has(names...) {
		return v
	}
	return Object(slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return slices.Contains(names, m.Name) })...)
}

// Map returns an object or an array with f applied to each member or element; name is its name or its index in decimal.
// Other values are returned as they are.
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
