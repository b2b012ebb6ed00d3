// Package rawjson formats raw JSON for prompts, and names kinds of values in errors.
package rawjson

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/protocol"
)

// String returns the text of a JSON string. The error says which kind the value is instead.
func String(v protocol.Raw) (string, error) {
	s, ok := protocol.Text(v)
	if !ok {
		return "", fmt.Errorf("it must be a string, not %s", KindName(v))
	}
	return s, nil
}

// Strings returns the elements of a JSON array of strings. The error says what the value is instead.
func Strings(v protocol.Raw) ([]string, error) {
	if v.Kind() != '[' {
		return nil, fmt.Errorf("it must be a list of strings, not %s", KindName(v))
	}
	var out []string
	for e := range protocol.Elements(v) {
		s, err := String(e)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", len(out), err)
		}
		out = append(out, s)
	}
	return out, nil
}

// AppendString appends s as a JSON string with the fewest escapes, like json.dumps(s, ensure_ascii=False).
func AppendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // invalid UTF-8 becomes U+FFFD
	return dst
}

// AppendStrings appends a JSON array of strings.
func AppendStrings(dst []byte, list []string) []byte {
	return AppendList(dst, list, AppendString[string])
}

// AppendList appends a JSON array; element appends one element.
func AppendList[T any](dst []byte, list []T, element func([]byte, T) []byte) []byte {
	dst = append(dst, '[')
	for i, e := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, e)
	}
	return append(dst, ']')
}

var spaced = []jsontext.Options{
	jsontext.SpaceAfterComma(true), jsontext.SpaceAfterColon(true),
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
}

// AppendSpaced appends v as json.dumps(v, ensure_ascii=False) and templates' tojson do. Numbers keep their bytes.
func AppendSpaced(dst []byte, v protocol.Raw) []byte { return appendFormat(dst, v, spaced) }

func appendFormat(dst []byte, v protocol.Raw, how []jsontext.Options) []byte {
	out, err := jsontext.AppendFormat(dst, v, how...)
	if err != nil { // no JSON at all: show what there is
		return append(dst, v...)
	}
	return out
}

var indented = append(slices.Clone(spaced), jsontext.SpaceAfterComma(false), jsontext.Multiline(true), jsontext.WithIndent("    "))

// AppendIndented appends v as json.dumps(v, ensure_ascii=False, indent=4) and tojson(indent=4) do.
func AppendIndented(dst []byte, v protocol.Raw) []byte { return appendFormat(dst, v, indented) }

// KindName names the kind of v for messages: "an object", "a string", ...
func KindName(v protocol.Raw) string {
	switch kind := v.Kind(); kind {
	case '[':
		return "a list"
	case '{', '"', '0', 't', 'f', 'n':
		return protocol.KindName(kind)
	}
	return "no JSON value"
}

// Wrong returns the problem that v must be want, such as "a list".
func Wrong(typ, want string, v protocol.Raw, loc ...any) protocol.Problems {
	return protocol.Problems{protocol.NewProblem(typ, "it must be "+want+", not "+KindName(v), loc...)}
}

// Strict returns JSON as Python accepts it in a form that every parser accepts. Of equal names it keeps the last
// value in the first place; a lone surrogate becomes U+FFFD. It takes O(size * depth) time.
func Strict(v protocol.Raw) protocol.Raw {
	switch v.Kind() {
	case '{':
		var names []string
		last := map[string]protocol.Raw{}
		for name, value := range protocol.Members(v) {
			if _, twice := last[name]; !twice {
				names = append(names, name)
			}
			last[name] = value
		}
		out := protocol.Raw("{")
		for _, name := range names {
			out = AddMember(out, name, Strict(last[name]))
		}
		return append(out, '}')
	case '[':
		return AppendList(nil, slices.Collect(protocol.Elements(v)), func(dst []byte, inner protocol.Raw) []byte { return append(dst, Strict(inner)...) })
	case '"':
		if !v.IsValid() {
			s, _ := protocol.Text(v)
			return AppendString(nil, s)
		}
	}
	return v
}

// AddMember appends a member to an object that has no closing brace yet.
func AddMember(open protocol.Raw, name string, value protocol.Raw) protocol.Raw {
	if len(open) > 1 {
		open = append(open, ',')
	}
	return append(append(AppendString(open, name), ':'), value...)
}
