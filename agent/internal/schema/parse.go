package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
)

// parser reads a document's schemas.
type parser struct {
	*Document
	links []link
}

// link is a reference of the check's schema, written when all places are known.
type link struct {
	from map[string]any
	to   *node
}

// at is the node of a path, read or not.
func (p *parser) at(path string, raw protocol.Raw) *node {
	n := p.paths[path]
	if n == nil {
		n = &node{id: p.nodes, path: path, raw: raw, maxLength: -1, maxItems: -1, maxMember: -1, types: allTypes}
		p.nodes++
		p.paths[path] = n
	}
	return n
}

// child reads the schema that stands below n.
func (p *parser) child(n *node, key, out string, raw protocol.Raw) (*node, error) {
	c := p.at(n.path+"/"+key, raw)
	if c.read {
		return c, nil
	}
	return c, p.read(c, n.out+"/"+out)
}

// read reads a node. out is its place in what the check is made of.
func (p *parser) read(n *node, out string) error {
	n.read, n.out = true, out
	switch n.raw.Kind() {
	case 't', 'n': // null counts as absent
		n.always, n.exported = 1, true
		return nil
	case 'f':
		n.always, n.exported = -1, false
		return nil
	case '{':
	default: // for the check to refuse
		n.always = 1
		var err error
		n.exported, err = decode(n.raw)
		return err
	}
	n.owner = p.ownerOf(n.path)
	r := &reader{parser: p, node: n, out: map[string]any{}, draft: draftOf(n.raw, n.owner.draft)}
	n.exported = r.out
	for key, value := range protocol.Members(n.raw) {
		if value.Kind() == 'n' && key != "const" {
			continue
		}
		r.have(key, value)
	}
	return r.keywords()
}

// reader reads the keywords of one schema.
type reader struct {
	*parser
	node  *node
	out   map[string]any // as the check has it
	draft int
	keys  []keyword
}

type keyword struct {
	name  string
	value protocol.Raw
}

func (r *reader) have(name string, value protocol.Raw) { r.keys = append(r.keys, keyword{name, value}) }

func (r *reader) value(name string) protocol.Raw {
	for _, k := range r.keys {
		if k.name == name {
			return k.value
		}
	}
	return nil
}

func (r *reader) keywords() error {
	old := r.draft <= 7
	if old && r.value("$ref") != nil {
		return r.refer(r.value("$ref")) // nothing beside it counts
	}
	for _, k := range r.keys {
		var err error
		switch k.name {
		case "prefixItems", "dependentRequired", "dependentSchemas", "minContains", "maxContains", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef":
			if old {
				continue
			}
		}
		switch k.name {
		case "$ref", "$recursiveRef":
			err = r.refer(k.value)
		case "$dynamicRef":
			err = r.referDynamically(k.value)
		case "type":
			err = r.types(k.value)
		case "enum", "const":
			err = r.constants(k.name, k.value)
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
			err = r.number(k.name, k.value)
		case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
			err = r.count(k.name, k.value)
		case "pattern":
			if r.node.pattern, _ = protocol.Text(k.value); r.node.pattern == "" {
				err = r.keep(k.name, k.value)
			} else {
				r.out[k.name] = r.node.pattern
			}
		case "format":
			r.format(k.value)
		case "uniqueItems":
			err = r.keep(k.name, k.value)
		case "required":
			if r.node.required, err = rawjson.Strings(k.value); err == nil {
				r.out[k.name] = list(r.node.required)
			} else {
				err = r.keep(k.name, k.value)
			}
		default:
			err = r.applicator(k.name, k.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keep leaves a keyword to the check as it is.
func (r *reader) keep(name string, value protocol.Raw) error {
	v, err := decode(value)
	r.out[name] = v
	return err
}

func list(names []string) []any {
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = name
	}
	return out
}

// refer adds a reference.
func (r *reader) refer(value protocol.Raw) error {
	ref, ok := protocol.Text(value)
	if !ok {
		return r.keep("$ref", value)
	}
	path, raw, err := r.locate(ref, r.node.owner)
	if err != nil {
		if knownElsewhere(ref) {
			r.out["$ref"] = ref
			return nil
		}
		return fmt.Errorf("%s.$ref: %w", r.node.where(), err)
	}
	target := r.at(path, raw)
	if !target.read {
		r.pending = append(r.pending, target)
	}
	r.node.refs = append(r.node.refs, target)
	from := r.out
	if _, taken := r.out["$ref"]; taken {
		from = map[string]any{}
		all, _ := r.out["allOf"].([]any)
		r.out["allOf"] = append(all, from)
	}
	from["$ref"] = ""
	r.links = append(r.links, link{from, target})
	return nil
}

// referDynamically takes a reference for a plain one, where only one anchor has its name;
// else any of them may be meant, and all values are let through.
func (r *reader) referDynamically(value protocol.Raw) error {
	ref, _ := protocol.Text(value)
	if _, name, _ := strings.Cut(ref, "#"); r.dynamic[name] > 1 {
		return nil
	}
	return r.refer(value)
}

// vague tells whether a dynamic reference may be let through so.
func (d *Document) vague() bool {
	for _, n := range d.dynamic {
		if n > 1 {
			return true
		}
	}
	return false
}

func (r *reader) types(value protocol.Raw) error {
	var types typeSet
	names, err := rawjson.Strings(value)
	if name, ok := protocol.Text(value); ok {
		names, err = []string{name}, nil
	}
	for _, name := range names {
		bits, known := typesByName[name]
		if !known {
			return r.keep("type", value)
		}
		types |= bits
	}
	if err != nil || types == 0 {
		return r.keep("type", value)
	}
	if string(r.value("nullable")) == "true" && types&nullType == 0 { // OpenAPI's way
		types |= nullType
		names = append(names, "null")
	}
	r.node.types = types
	r.out["type"] = list(names)
	if len(names) == 1 {
		r.out["type"] = names[0]
	}
	return nil
}

func (r *reader) constants(name string, value protocol.Raw) error {
	v, err := decode(value)
	if err != nil {
		return err
	}
	r.out[name] = v
	values := []protocol.Raw{value}
	if name == "enum" {
		if value.Kind() != '[' {
			return nil // for the check to refuse
		}
		values = values[:0]
		for e := range protocol.Elements(value) {
			values = append(values, e)
		}
	}
	if !r.node.enumerated || len(values) < len(r.node.values) {
		r.node.values = values
	}
	r.node.enumerated = true
	return nil
}

// parseNumber reads a JSON number exactly.
func parseNumber(value protocol.Raw) (*big.Rat, error) {
	if value.Kind() != '0' {
		return nil, nil
	}
	if err := checkNumbers(json.Number(value)); err != nil {
		return nil, err
	}
	n, _ := new(big.Rat).SetString(string(value))
	return n, nil
}

func (r *reader) number(name string, value protocol.Raw) error {
	n := r.node
	x, err := parseNumber(value)
	switch {
	case err != nil:
		return err
	case x == nil && strings.HasPrefix(name, "exclusive") && (string(value) == "true" || string(value) == "false"):
		return nil // draft-04's, read with the bound itself
	case x == nil || name == "multipleOf" && x.Sign() <= 0:
		return r.keep(name, value)
	}
	flag := map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}[name]
	open := flag == "" || string(r.value(flag)) == "true"
	if flag != "" && open {
		name = flag
	}
	r.out[name] = json.Number(value)
	switch name {
	case "multipleOf":
		n.multiple = x
	case "minimum", "exclusiveMinimum":
		n.low = stricter(n.low, &bound{x, open}, 1)
	default:
		n.high = stricter(n.high, &bound{x, open}, -1)
	}
	return nil
}

// count reads a count. One beyond all lengths bounds nothing, as a maximum, and is as good as
// the largest one, as a minimum.
func (r *reader) count(name string, value protocol.Raw) error {
	x, err := parseNumber(value)
	if err != nil {
		return err
	}
	if x == nil || !x.IsInt() || x.Sign() < 0 {
		return r.keep(name, value)
	}
	n, least := math.MaxInt32, strings.HasPrefix(name, "min")
	if x.Num().IsInt64() && x.Num().Int64() < math.MaxInt32 {
		n = int(x.Num().Int64())
	} else if !least {
		return nil
	}
	r.out[name] = json.Number(strconv.Itoa(n))
	switch name {
	case "minLength":
		r.node.minLength = n
	case "maxLength":
		r.node.maxLength = n
	case "minItems":
		r.node.minItems = n
	case "maxItems":
		r.node.maxItems = n
	case "minProperties":
		r.node.minMember = n
	case "maxProperties":
		r.node.maxMember = n
	case "minContains":
		r.node.minContains = n
	}
	return nil
}

// format reads a format that has a rule. As the drafts have it, a format is a remark; it
// counts where the type says that the value is a string.
func (r *reader) format(value protocol.Raw) {
	name, _ := protocol.Text(value)
	if _, known := formats[name]; !known {
		return
	}
	typ := r.value("type")
	if name, ok := protocol.Text(typ); ok && name == "string" {
		r.node.format = textOf(r.node.raw, "format")
	}
	if names, err := rawjson.Strings(typ); err == nil {
		for _, name := range names {
			if name == "string" {
				r.node.format = textOf(r.node.raw, "format")
			}
		}
	}
	if r.node.format != "" {
		r.out["format"] = r.node.format
	}
}
