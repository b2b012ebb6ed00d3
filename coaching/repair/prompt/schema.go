package prompt

import (
	"net/url"
	"slices"
	"strings"

	"agentd/agent/tools"
	"agentd/coaching/repair"
	"agentd/protocol"
)

// schemaName is how endpoints name the answer to the model.
const schemaName = "coaching_answer"

// portableSchema is the answer's schema in the subset that every endpoint supports. All
// properties are required and no others allowed. Each tool's call has the tool's name and
// arguments. Arguments that the subset can't express are a string of JSON. So are the arguments of
// all tools if the schema would become larger than limit bytes. The rest of an abandoned
// answer is ignored.
func portableSchema(points []*repair.Point, limit int) protocol.Raw {
	if schema := buildPortable(points, ownCalls(points)); len(schema) <= limit {
		return protocol.Raw(schema)
	}
	var names []string
	for _, group := range toolGroups(points) {
		names = append(names, group.tools.Names()...)
	}
	return protocol.Raw(buildPortable(points, strictObject(
		`"name":{`+stringType(distinct(names))+`}`,
		`"arguments":`+textArguments,
		`"target_robot_name":{`+stringType(robotsOf(points))+`}`,
	)))
}

const textArguments = `{"type":"string","description":"A JSON object with the arguments, as text."}`

// ownCalls is the schema of a call of any tool, each with its own arguments.
func ownCalls(points []*repair.Point) string {
	var calls []string
	for _, group := range toolGroups(points) {
		for i := range group.tools.Tools {
			tool := &group.tools.Tools[i]
			arguments, ok := strictArguments(tool.Schema)
			if !ok {
				arguments = textArguments
			}
			call := strictObject(
				`"name":{"type":"string","const":`+string(protocol.String(tool.Name))+`}`,
				`"arguments":`+arguments,
				`"target_robot_name":{`+stringType(group.tools.Robots)+`}`,
			)
			if !slices.Contains(calls, call) {
				calls = append(calls, call)
			}
		}
	}
	if len(calls) == 1 {
		return calls[0]
	}
	return `{"anyOf":[` + strings.Join(calls, ",") + `]}`
}

func buildPortable(points []*repair.Point, call string) string {
	properties := []string{
		`"why":{"type":"string","description":"What went wrong, and why your decision is right, or why you abandon. Two or three sentences."}`,
		`"outcome":{"type":"string","enum":["corrected","abandoned"]}`,
		`"reinjection_point_id":{` + stringType(repair.IDs(points)) + `,"description":"The point at which the decision replaces the agent's. Not read when you abandon."}`,
	}
	decision := strictObject(`"say":{"type":"string","description":"The text the agent says. Not read when you abandon."}`)
	if slices.ContainsFunc(points, hasTools) {
		decision = `{"anyOf":[` + strictObject(`"tool_calls":{"type":"array","items":`+call+`}`) + `,` + decision + `]}`
	}
	return strictObject(append(properties, `"decision":`+decision)...)
}

// strictObject is the schema of an object that requires all of some properties, each
// given as a member of "properties".
func strictObject(properties ...string) string {
	names := make([]string, len(properties))
	for i, p := range properties {
		name, _, _ := strings.Cut(p, ":")
		names[i] = name
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(names, ",") + `],"additionalProperties":false}`
}

// stringType is the inside of the schema of a string. It is an enum of the values unless
// there are none, too many, or an empty one, which some endpoints reject.
func stringType(values []string) string {
	list := enum(values)
	if len(values) == 0 || len(values) > maxEnum || slices.Contains(values, "") || len(list) > maxEnumBytes {
		return `"type":"string"`
	}
	return `"type":"string","enum":` + list
}

func enum(values []string) string { return string(texts(values)) }

func texts(elements []string) protocol.Raw {
	quoted := make([]protocol.Raw, len(elements))
	for i, e := range elements {
		quoted[i] = protocol.String(e)
	}
	return protocol.AppendElements(nil, quoted...)
}

func hasTools(p *repair.Point) bool { return p.Tools != nil && len(p.Tools.Tools) > 0 }

// robotsOf are the known robots of some points, none if one point has none.
func robotsOf(points []*repair.Point) []string {
	var all []string
	for _, p := range points {
		if !hasTools(p) {
			continue // no calls there
		}
		if len(p.Robots) == 0 {
			return nil
		}
		all = append(all, p.Robots...)
	}
	return distinct(all)
}

// distinct keeps the first of equal texts.
func distinct(list []string) []string {
	seen := make(map[string]bool)
	return slices.DeleteFunc(list, func(s string) bool {
		before := seen[s]
		seen[s] = true
		return before
	})
}

// toolGroup is points that share their tools.
type toolGroup struct {
	tools  *tools.Set
	points []*repair.Point
}

// toolGroups groups points by their usable tools, in the order of the points.
func toolGroups(points []*repair.Point) (groups []toolGroup) {
	for _, p := range points {
		if !hasTools(p) {
			continue
		}
		at := slices.IndexFunc(groups, func(g toolGroup) bool { return g.tools == p.Tools })
		if at < 0 {
			at = len(groups)
			groups = append(groups, toolGroup{tools: p.Tools})
		}
		groups[at].points = append(groups[at].points, p)
	}
	return groups
}

// exactSchema is the answer's schema for models with a grammar. A correction has a text
// or calls, each call has the schema of its tool, each point its own tools. Arguments
// are any object for tools with references that the strict subset can't express, and for
// all tools if the schema would become too large.
func exactSchema(points []*repair.Point) protocol.Raw {
	for _, own := range []bool{true, false} {
		if schema := buildExact(points, own); len(schema) <= maxExact {
			return protocol.Raw(schema)
		}
	}
	return portableSchema(points, maxPortable)
}

func buildExact(points []*repair.Point, own bool) string {
	const why = `"why":{"type":"string","minLength":1}`
	say := strictObject(`"say":{"type":"string","minLength":1}`)
	variants := []string{strictObject(why, `"outcome":{"const":"abandoned"}`)}
	correct := func(points []*repair.Point, decision string) {
		variants = append(variants, strictObject(why, `"outcome":{"const":"corrected"}`,
			`"reinjection_point_id":{"enum":`+enum(repair.IDs(points))+`}`, `"decision":`+decision))
	}
	textOnly := slices.DeleteFunc(slices.Clone(points), hasTools)
	for _, group := range toolGroups(points) {
		calls := make([]string, len(group.tools.Tools))
		for i := range group.tools.Tools {
			calls[i] = exactCall(group.tools, &group.tools.Tools[i], own)
		}
		correct(group.points, `{"anyOf":[`+say+`,`+strictObject(`"tool_calls":{"type":"array","minItems":1,"items":{"anyOf":[`+strings.Join(calls, ",")+`]}}`)+`]}`)
	}
	if len(textOnly) > 0 {
		correct(textOnly, say)
	}
	return `{"anyOf":[` + strings.Join(variants, ",") + `]}`
}

func exactCall(set *tools.Set, tool *tools.Tool, own bool) string {
	arguments := `{"type":"object"}`
	if own {
		if !strings.Contains(string(tool.Schema), `"$ref"`) {
			arguments = string(tools.ForGrammar(tool.Schema))
		} else if strict, ok := strictArguments(tool.Schema); ok { // references would not resolve inside another schema
			arguments = strict
		}
	}
	robot := `{"type":"string","minLength":1}`
	if len(set.Robots) > 0 {
		robot = `{"enum":` + enum(set.Robots) + `}`
	}
	return strictObject(`"name":{"const":`+string(protocol.String(tool.Name))+`}`, `"arguments":`+arguments, `"target_robot_name":`+robot)
}

// strictSchema writes a tool's schema in the subset that strict modes of endpoints take: types,
// enumerations, lists, alternatives, and objects that require all of their properties and allow no
// others. An optional property may be null, and the reader of the answer drops it then. Bounds and
// patterns are left out. The check of the decision applies them.
type strictSchema struct {
	root protocol.Raw // that references point into
	left int          // schemas that may still be written; references can multiply them
}

// strictArguments is a tool's schema in the strict subset. ok is false if it can't be written so,
// such as an object with any properties.
func strictArguments(schema protocol.Raw) (text string, ok bool) {
	s := &strictSchema{root: schema, left: maxStrictSchemas}
	return s.object(schema, maxStrictDepth)
}

func (s *strictSchema) value(schema protocol.Raw, depth int) (text string, ok bool) {
	if s.left--; s.left < 0 || depth == 0 || schema.Kind() != '{' {
		return "", false
	}
	get := func(name string) protocol.Raw { v, _ := protocol.Get(schema, name); return v }
	if ref, isRef := protocol.Text(get("$ref")); isRef {
		target, found := s.resolve(ref)
		if !found {
			return "", false
		}
		return s.value(target, depth-1)
	}
	for _, keyword := range []string{"allOf", "not", "if", "prefixItems", "patternProperties"} {
		if get(keyword) != nil {
			return "", false
		}
	}
	if value := get("const"); value != nil {
		return constants([]protocol.Raw{value})
	}
	if list := get("enum"); list.Kind() == '[' {
		return constants(slices.Collect(protocol.Elements(list)))
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list := get(keyword); list.Kind() == '[' {
			if get("properties") != nil {
				return "", false
			}
			return s.alternatives(slices.Collect(protocol.Elements(list)), depth)
		}
	}
	switch typ := get("type"); typ.Kind() {
	case '[':
		var each []protocol.Raw
		for one := range protocol.Elements(typ) {
			each = append(each, protocol.SetMember(schema, "type", one))
		}
		return s.alternatives(each, depth)
	case '"':
		switch name, _ := protocol.Text(typ); name {
		case "string", "integer", "number", "boolean", "null":
			return `{"type":"` + name + `"}`, true
		case "array":
			items, ok := s.value(get("items"), depth)
			return `{"type":"array","items":` + items + `}`, ok
		case "object":
			if get("properties") == nil {
				return "", false // any object
			}
			return s.object(schema, depth)
		}
	}
	return "", false
}

// object writes an object with the properties that a schema declares.
func (s *strictSchema) object(schema protocol.Raw, depth int) (string, bool) {
	if others, said := protocol.Get(schema, "additionalProperties"); said && string(others) != "false" {
		return "", false
	}
	if _, said := protocol.Get(schema, "patternProperties"); said {
		return "", false
	}
	var required, names, members []string
	list, _ := protocol.Get(schema, "required")
	for name := range protocol.Elements(list) {
		text, _ := protocol.Text(name)
		required = append(required, text)
	}
	properties, _ := protocol.Get(schema, "properties")
	for name, property := range protocol.Members(properties) {
		text, ok := s.value(property, depth-1)
		if !ok {
			return "", false
		}
		if !slices.Contains(required, name) && text != nullType {
			text = `{"anyOf":[` + text + `,` + nullType + `]}`
		}
		names = append(names, name)
		members = append(members, string(protocol.String(name))+":"+text)
	}
	return `{"type":"object","properties":{` + strings.Join(members, ",") + `},"required":` + enum(names) + `,"additionalProperties":false}`, true
}

const nullType = `{"type":"null"}`

func (s *strictSchema) alternatives(list []protocol.Raw, depth int) (string, bool) {
	var each []string
	for _, one := range list {
		text, ok := s.value(one, depth)
		if !ok {
			return "", false
		}
		each = append(each, text)
	}
	if len(each) < 2 {
		return strings.Join(each, ""), len(each) == 1
	}
	return `{"anyOf":[` + strings.Join(each, ",") + `]}`, true
}

// constants writes an enumeration of values of one type. Endpoints want the type beside it.
func constants(list []protocol.Raw) (string, bool) {
	if len(list) == 0 {
		return "", false
	}
	var texts []string
	for _, v := range list {
		text, isText := protocol.Text(v)
		if v.Kind() != list[0].Kind() && (!isBool(v) || !isBool(list[0])) {
			return "", false
		}
		if isText {
			texts = append(texts, text)
		}
	}
	switch {
	case list[0].Kind() == '"':
		return `{` + stringType(texts) + `}`, true
	case list[0].Kind() == '0':
		return `{"type":"number","enum":` + string(protocol.AppendElements(nil, list...)) + `}`, len(list) <= maxEnum
	case isBool(list[0]):
		return `{"type":"boolean"}`, true
	case list[0].Kind() == 'n':
		return nullType, true
	}
	return "", false
}

func isBool(v protocol.Raw) bool { return v.Kind() == 't' || v.Kind() == 'f' }

// resolve finds what a reference within the tool's schema points to.
func (s *strictSchema) resolve(ref string) (protocol.Raw, bool) {
	pointer, local := strings.CutPrefix(ref, "#")
	pointer, err := url.PathUnescape(pointer)
	if !local || err != nil || pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	at := s.root
	for _, token := range strings.Split(pointer, "/")[1:] {
		next, there := protocol.Get(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
		if !there {
			return nil, false
		}
		at = next
	}
	return at, true
}
