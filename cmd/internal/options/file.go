package options

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// fileLimit bounds a configuration file in bytes, far above any real one.
const fileLimit = 1 << 20

// File describes a command's configuration file: one JSON object with a key for each
// option.
type File struct {
	Option string            // that names the file; it has no key in it
	Object string            // key of an object that may gather the options of Groups
	Groups []string          // whose options may stand in that object
	Inner  map[string]string // keys there that differ from the options' own, by option name
	// Nullable are the options whose keys may be null, which leaves them unset.
	Nullable []string
}

// fileKeys are the options by their keys in the file, and in its object.
func (c *Command) fileKeys() (byKey, byInner map[string]Option) {
	byKey, byInner = map[string]Option{}, map[string]Option{}
	for _, o := range c.Options {
		if o.Name == c.File.Option {
			continue // a file that names another file is not followed
		}
		byKey[o.Key()] = o
		if inner, ok := c.File.Inner[o.Name]; ok {
			byInner[inner] = o
		} else if slices.Contains(c.File.Groups, o.Group) {
			byInner[o.Key()] = o
		}
	}
	return byKey, byInner
}

// FileSchema is the JSON Schema of the configuration file without the options named.
func (c *Command) FileSchema(without ...string) map[string]any {
	byKey, byInner := c.fileKeys()
	for _, name := range without {
		delete(byKey, name)
	}
	schema := objectSchema(byKey)
	members := schema["properties"].(map[string]any)
	members[c.File.Object] = anyOf(members[c.File.Object], objectSchema(byInner))
	return schema
}

// objectSchema is the schema of an object of options.
func objectSchema(byKey map[string]Option) map[string]any {
	members := map[string]any{}
	for key, o := range byKey {
		members[key] = o.Value.schema()
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": members}
}

// schema is what setJSON takes.
func (v Value) schema() any {
	types := map[form][]string{asText: {"string"}, asBool: {"boolean"}, asNumber: {"number", "string"}, asDuration: {"number", "string"}}[v.form]
	switch {
	case v.form == asSettings:
		byKey := map[string]Option{}
		for _, o := range v.settings {
			byKey[o.Key()] = o
		}
		return anyOf(map[string]any{"type": "string"}, objectSchema(byKey))
	case types == nil: // a list
		return map[string]any{"type": []string{"array", "string"}, "items": map[string]any{"type": "string"}}
	case v.form == asNumber && len(v.words) == 0:
		types = types[:1]
	}
	return map[string]any{"type": types}
}

func anyOf(schemas ...any) any { return map[string]any{"anyOf": schemas} }

// applyFile sets options from the configuration file. named is what names it.
func (c *Command) applyFile(path, named string, from Origins) error {
	raw, err := ReadFile(path, fileLimit)
	if err != nil {
		return fmt.Errorf("%s: %w", named, err)
	}
	byKey, byInner := c.fileKeys()
	keys, inners := slices.Sorted(maps.Keys(byKey)), slices.Sorted(maps.Keys(byInner))
	where := "configuration file " + path
	set := func(o Option, key string, v jsontext.Value) error {
		as := fmt.Sprintf("%s: %s", where, key)
		if earlier, twice := from[o.Name]; twice {
			return fmt.Errorf("%s: the same option was already given as %q; keep one", as, strings.TrimPrefix(earlier, where+": "))
		}
		if v.Kind() == 'n' && slices.Contains(c.File.Nullable, o.Name) {
			return nil
		}
		if err := o.Value.setJSON(v); err != nil {
			return fmt.Errorf("%s: %w", as, err)
		}
		from[o.Name] = as
		return nil
	}
	// unknown refuses a key that does not name an option.
	unknown := func(as, key string, known []string) error {
		return fmt.Errorf("%s: %s %s", where, as, c.advice(key, known, func(option string) string { return strings.ReplaceAll(option, "-", "_") }))
	}
	return eachMember(raw, where, func(key string, v jsontext.Value) error {
		if key == c.File.Object && v.Kind() == '{' {
			return eachMember(v, where+": "+key, func(inner string, v jsontext.Value) error {
				o, ok := byInner[inner]
				if !ok {
					return unknown(key+"."+inner, inner, inners)
				}
				return set(o, key+"."+inner, v)
			})
		}
		o, ok := byKey[key]
		if !ok {
			return unknown(key, key, keys)
		}
		return set(o, key, v)
	})
}

// eachMember calls f for every member of the JSON object raw. Duplicate keys, trailing
// data and anything but an object are errors.
func eachMember(raw []byte, where string, f func(key string, v jsontext.Value) error) error {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	object, err := dec.ReadValue()
	switch {
	case err != nil:
		return fmt.Errorf("%s: want one JSON object, as {\"port\": 8888}: %w", where, err)
	case object.Kind() != '{':
		return fmt.Errorf("%s: want one JSON object", where)
	}
	members := jsontext.NewDecoder(bytes.NewReader(object.Clone()))
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: there is more after the closing brace", where)
	}
	_, err = members.ReadToken()
	for err == nil && members.PeekKind() != '}' {
		name, _ := members.ReadToken()
		key := name.String() // before the next read, which reuses the buffer
		value, _ := members.ReadValue()
		err = f(key, value.Clone())
	}
	return err
}

// ReadFile reads a file of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, limit)
	}
	return raw, nil
}
