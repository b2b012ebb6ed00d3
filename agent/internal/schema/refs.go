package schema

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentd/protocol"
)

// Applicator tells what the value of a keyword is.
type Applicator int

// Kinds of keywords.
const (
	NoSchema      Applicator = iota
	Schemas                  // a schema, or a list of schemas
	SchemasByName            // an object of schemas
)

var applicators = map[string]Applicator{
	"items": Schemas, "prefixItems": Schemas, "additionalItems": Schemas, "unevaluatedItems": Schemas, "contains": Schemas,
	"additionalProperties": Schemas, "unevaluatedProperties": Schemas, "propertyNames": Schemas, "anyOf": Schemas, "oneOf": Schemas,
	"allOf": Schemas, "not": Schemas, "if": Schemas, "then": Schemas, "else": Schemas,
	"properties": SchemasByName, "patternProperties": SchemasByName, "dependentSchemas": SchemasByName, "dependencies": SchemasByName,
	"$defs": SchemasByName, "definitions": SchemasByName,
}

// ApplicatorOf is what the value of a keyword is.
func ApplicatorOf(keyword string) Applicator { return applicators[keyword] }

// draftOf is the draft that a schema names, or the one of what it is in.
func draftOf(schema protocol.Raw, outer int) int {
	raw, _ := protocol.Get(schema, "$schema")
	name, ok := protocol.Text(raw)
	if !ok {
		return outer
	}
	for _, d := range []struct {
		mark  string
		draft int
	}{{"draft-03", 4}, {"draft-04", 4}, {"draft-06", 6}, {"draft-07", 7}, {"2019-09", 2019}} {
		if strings.Contains(name, d.mark) {
			return d.draft
		}
	}
	return 2020
}

// hasIdentifiers tells whether any schema may have a name for references.
func hasIdentifiers(source protocol.Raw) bool {
	for _, key := range []string{`"$id"`, `"id"`, `"$anchor"`, `"$dynamicAnchor"`} {
		if bytes.Contains(source, []byte(key)) {
			return true
		}
	}
	return false
}

func (d *Document) addResource(u *url.URL, path string, draft int) *resource {
	r := &resource{url: u, path: path, draft: draft}
	d.resources[path] = r
	if _, taken := d.byURL[u.String()]; !taken {
		d.byURL[u.String()] = r
	}
	return r
}

// identify finds the addresses and anchors of a schema and of those in it.
func (d *Document) identify(schema protocol.Raw, path string, in *resource) {
	if schema.Kind() == '[' {
		i := 0
		for e := range protocol.Elements(schema) {
			d.identify(e, path+"/"+strconv.Itoa(i), in)
			i++
		}
		return
	}
	if schema.Kind() != '{' {
		return
	}
	draft := draftOf(schema, in.draft)
	in = d.address(schema, path, in, draft)
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if name := textOf(schema, key); name != "" && draft > 7 {
			d.anchors[in.url.String()+"#"+name] = path
			if key == "$dynamicAnchor" {
				d.dynamic[name]++
			}
		}
	}
	for key, value := range protocol.Members(schema) {
		switch applicators[key] {
		case Schemas:
			d.identify(value, path+"/"+key, in)
		case SchemasByName:
			for name, inner := range protocol.Members(value) {
				d.identify(inner, path+"/"+key+"/"+escapeToken(name), in)
			}
		}
	}
}

// address is the resource that a schema is, or the one it is in.
func (d *Document) address(schema protocol.Raw, path string, in *resource, draft int) *resource {
	id := textOf(schema, "$id")
	if draft == 4 {
		id = textOf(schema, "id")
	}
	if _, refers := protocol.Get(schema, "$ref"); refers && draft <= 7 {
		return in // what stands beside a reference does not count
	}
	u, err := url.Parse(id)
	switch {
	case id == "" || err != nil:
	case draft <= 7 && strings.HasPrefix(id, "#"):
		d.anchors[in.url.String()+"#"+u.Fragment] = path
	default:
		u = in.url.ResolveReference(u)
		u.Fragment = ""
		if path == "" { // by its own address and by ours
			in.url = u
			d.byURL[u.String()] = in
			return in
		}
		return d.addResource(u, path, draft)
	}
	return in
}

// textOf is a member that is a string, or "".
func textOf(obj protocol.Raw, name string) string {
	v, _ := protocol.Get(obj, name)
	s, _ := protocol.Text(v)
	return s
}

// ownerOf is the resource that a path of the source is in.
func (d *Document) ownerOf(path string) *resource {
	for len(d.resources) > 1 && path != "" {
		if r := d.resources[path]; r != nil {
			return r
		}
		path = path[:strings.LastIndexByte(path, '/')]
	}
	return d.resources[""]
}

// Locate finds the schema that a reference within the document leads to, from its root.
func (d *Document) Locate(ref string) (protocol.Raw, error) {
	_, value, err := d.locate(ref, d.resources[""])
	return value, err
}

// locate finds what a reference leads to: RFC 6901 below the address that RFC 3986 gives, or
// an anchor.
func (d *Document) locate(ref string, from *resource) (path string, value protocol.Raw, err error) {
	if pointer, local := strings.CutPrefix(ref, "#"); local {
		path = pointer
		if path, err = url.PathUnescape(pointer); err == nil {
			path, err = d.within(from, path)
		}
	} else if u, bad := url.Parse(ref); bad != nil {
		err = bad
	} else {
		u = from.url.ResolveReference(u)
		name := u.Fragment
		u.Fragment = ""
		r := d.byURL[u.String()]
		if r == nil {
			return "", nil, fmt.Errorf("%q leads to another document, and those are not followed", ref)
		}
		path, err = d.within(r, name)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%q: %w", ref, err)
	}
	value, ok := valueAt(d.source, path)
	if !ok {
		return "", nil, fmt.Errorf("%q leads to nothing within the parameters; write the schema itself there", ref)
	}
	return path, value, nil
}

// within is the path of what a fragment names in a resource.
func (d *Document) within(r *resource, name string) (string, error) {
	if name == "" || name[0] == '/' {
		return r.path + name, nil
	}
	path, ok := d.anchors[r.url.String()+"#"+name]
	if !ok {
		return "", fmt.Errorf("there is no anchor %q", name)
	}
	return path, nil
}

// valueAt is the value at a path.
func valueAt(v protocol.Raw, path string) (protocol.Raw, bool) {
	if path == "" {
		return v, true
	}
	for token := range strings.SplitSeq(path[1:], "/") {
		token = unescapeToken(token)
		if v.Kind() == '[' {
			i, err := strconv.Atoi(token)
			list := slices.Collect(protocol.Elements(v))
			if err != nil || i < 0 || i >= len(list) {
				return nil, false
			}
			v = list[i]
			continue
		}
		var ok bool
		if v, ok = protocol.Get(v, token); !ok {
			return nil, false
		}
	}
	return v, true
}

// knownElsewhere tells whether a reference leads to the schema of schemas, which the check
// knows and rules leave free.
func knownElsewhere(ref string) bool {
	return strings.HasPrefix(ref, "http://json-schema.org/draft-") || strings.HasPrefix(ref, "https://json-schema.org/draft/")
}
