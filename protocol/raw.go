package protocol

import (
	"bytes"
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Raw is JSON with its original bytes, except for whitespace between tokens. Raw values of decoded bodies are valid.
// The functions below rely on that and skip values without parsing them; in invalid JSON they may miss members, but do
// not panic. They never modify an argument: an edit returns one copy. Names are compared unescaped: "a" is "\u0061".
type Raw = jsontext.Value

// Members iterates over the members of an object, with unescaped names.
func Members(obj Raw) iter.Seq2[string, Raw] {
	return func(yield func(string, Raw) bool) {
		for m := range members(obj) {
			if !yield(unquote(m.quoted(obj)), m.value(obj)) {
				return
			}
		}
	}
}

// Get returns a member's value, which refers to obj.
func Get(obj Raw, key string) (v Raw, ok bool) {
	if m, ok := find(obj, key); ok {
		return m.value(obj), true
	}
	return nil, false
}

// Elements iterates over the elements of an array.
func Elements(arr Raw) iter.Seq[Raw] {
	return func(yield func(Raw) bool) {
		i, ok := open(arr, '[')
		for ok && i < len(arr) && arr[i] != ']' {
			end := valueEnd(arr, i)
			if end == i || !yield(arr[i:end:end]) {
				return
			}
			i, ok = following(arr, end)
		}
	}
}

// Text returns the text of a JSON string. ok is false for other values.
func Text(v Raw) (s string, ok bool) {
	if len(v) < 2 || v[0] != '"' || stringEnd(v, 0) != len(v) {
		return "", false
	}
	return unquote(v), true
}

// String makes a JSON string. Invalid UTF-8 becomes U+FFFD.
func String(s string) Raw { return appendString(nil, s) }

// AppendMember adds a member at the end of an object, which must not have the name; nil counts as {}.
func AppendMember(obj Raw, key string, v Raw) Raw {
	open := bytes.TrimSpace(obj)
	if len(open) < 2 {
		open = emptyObject
	}
	open = bytes.TrimRight(open[:len(open)-1], " \t\r\n")
	out := make(Raw, 0, len(open)+len(key)+len(v)+len(`,"":}`)+quoteSlack)
	out = append(out, open...)
	if len(open) > 1 {
		out = append(out, ',')
	}
	out = appendString(out, key)
	out = append(out, ':')
	out = append(out, v...)
	return append(out, '}')
}

const quoteSlack = 16 // bytes for the quotes and a few escapes of a name

// SetMember replaces a member's value in place, or adds the member at the end.
func SetMember(obj Raw, key string, v Raw) Raw {
	m, ok := find(obj, key)
	if !ok {
		return AppendMember(obj, key, v)
	}
	return slices.Concat(obj[:m.valueStart], v, obj[m.valueEnd:])
}

// DeleteMember removes a member. An object without the name is returned unchanged.
func DeleteMember(obj Raw, key string) Raw {
	m, ok := find(obj, key)
	if !ok {
		return obj
	}
	start, end := m.nameStart, m.valueEnd
	if next, more := following(obj, end); more {
		end = next // up to the next name
	} else if comma := bytes.LastIndexByte(obj[:start], ','); comma > 0 && len(bytes.TrimSpace(obj[comma+1:start])) == 0 {
		start = comma
	}
	return slices.Concat(obj[:start], obj[end:])
}

// AppendElements adds elements at the end of an array; nil counts as [].
func AppendElements(arr Raw, elements ...Raw) Raw {
	open := bytes.TrimSpace(arr)
	if len(open) < 2 {
		open = Raw("[]")
	}
	open = bytes.TrimRight(open[:len(open)-1], " \t\r\n")
	size := len(open) + 1
	for _, e := range elements {
		size += len(e) + 1
	}
	out := append(make(Raw, 0, size), open...)
	for _, e := range elements {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	return append(out, ']')
}

// member is the position of one member of an object.
type member struct{ nameStart, nameEnd, valueStart, valueEnd int }

func (m member) quoted(obj Raw) Raw { return obj[m.nameStart:m.nameEnd] }
func (m member) value(obj Raw) Raw  { return obj[m.valueStart:m.valueEnd:m.valueEnd] }

func find(obj Raw, key string) (member, bool) {
	for m := range members(obj) {
		if string(unescaped(m.quoted(obj))) == key {
			return m, true
		}
	}
	return member{}, false
}

func members(obj Raw) iter.Seq[member] {
	return func(yield func(member) bool) {
		i, ok := open(obj, '{')
		for ok && i < len(obj) && obj[i] == '"' {
			m := member{nameStart: i, nameEnd: stringEnd(obj, i)}
			if m.nameEnd < 0 {
				return
			}
			colon := space(obj, m.nameEnd)
			if colon >= len(obj) || obj[colon] != ':' {
				return
			}
			m.valueStart = space(obj, colon+1)
			m.valueEnd = valueEnd(obj, m.valueStart)
			if m.valueEnd == m.valueStart || !yield(m) {
				return
			}
			i, ok = following(obj, m.valueEnd)
		}
	}
}

// open returns the position after the opening bracket of v.
func open(v Raw, bracket byte) (i int, ok bool) {
	i = space(v, 0)
	if i >= len(v) || v[i] != bracket {
		return i, false
	}
	return space(v, i+1), true
}

// following returns the position after the comma that follows a value ending at i; ok is false without a comma.
func following(v Raw, i int) (next int, ok bool) {
	i = space(v, i)
	if i >= len(v) || v[i] != ',' {
		return i, false
	}
	return space(v, i+1), true
}

// space returns the first position from i on that is not whitespace.
func space(v Raw, i int) int {
	for i < len(v) && isSpace(v[i]) {
		i++
	}
	return i
}

// valueEnd returns the position after the value that starts at i, or i if no value does.
func valueEnd(v Raw, i int) int {
	depth := 0
	for j := i; j < len(v); j++ {
		switch v[j] {
		case '"':
			end := stringEnd(v, j)
			if end < 0 {
				return i
			}
			if j = end - 1; depth == 0 {
				return end
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return j // the end of a literal before a closing bracket
			}
			if depth == 0 {
				return j + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return j
			}
		}
	}
	if depth > 0 {
		return i
	}
	return len(v)
}
