package protocol

import (
	"bytes"
	"strings"
)

// field describes one field of a model. Decoders use the tables of fields, and tests compare them
// with the OpenAPI document.
type field struct {
	name     string
	required bool
	nullable bool // null counts as absent
}

// fields are the fields of a model, at most 32.
type fields []field

// fieldSet is a set of indexes into fields.
type fieldSet uint32

const allFields = ^fieldSet(0)

func required(name string) field { return field{name: name, required: true} }
func optional(name string) field { return field{name: name} }
func nullable(name string) field { return field{name: name, nullable: true} }

// index returns the position of the field with the name in the JSON string raw, or -1.
func (fs fields) index(raw Raw) int {
	name := []byte(raw[1 : len(raw)-1])
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(unquote(raw))
	}
	for i := range fs {
		if string(name) == fs[i].name {
			return i
		}
	}
	return -1
}

// has reports whether the set has the named field of fs.
func (s fieldSet) has(fs fields, name string) bool {
	for i := range fs {
		if fs[i].name == name {
			return s&(1<<i) != 0
		}
	}
	return false
}

func (fs fields) names() []string {
	names := make([]string, len(fs))
	for i := range fs {
		names[i] = fs[i].name
	}
	return names
}

// similar returns the field with the same letters as a misspelt name, in another case or with
// other separators; -1 if there is none.
func (fs fields) similar(name string) int {
	if len(name) > maxLocName {
		return -1
	}
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	for i := range fs {
		if plain(fs[i].name) == plain(name) {
			return i
		}
	}
	return -1
}
