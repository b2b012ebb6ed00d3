package check

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"agentd/protocol"
)

// tool is a tool of an input, as far as calls are judged by it.
type tool struct {
	Name       string                     `json:"name"`
	Parameters map[string]json.RawMessage `json:"parameters"`
	Arguments  map[string]json.RawMessage `json:"arguments"`
	MCP        map[string]json.RawMessage `json:"inputSchema"`
	Optional   []string                   `json:"optional"`
}

// parameter is one of a tool.
type parameter struct {
	Type json.RawMessage `json:"type"`
	Enum []any           `json:"enum"`
}

// parameters are those that a tool declares, and which of them it requires.
func (t *tool) parameters() (all map[string]parameter, required []string) {
	raw := t.Parameters
	for _, other := range []map[string]json.RawMessage{t.Arguments, t.MCP} {
		if raw == nil {
			raw = other
		}
	}
	if properties, schema := raw["properties"]; schema {
		_ = json.Unmarshal(raw["required"], &required) // else none is required
		raw = nil
		_ = json.Unmarshal(properties, &raw)
	} else {
		for name := range raw {
			if !slices.Contains(t.Optional, name) {
				required = append(required, name)
			}
		}
	}
	all = map[string]parameter{}
	for name, text := range raw {
		var p parameter
		_ = json.Unmarshal(text, &p) // else any value
		all[name] = p
	}
	return all, required
}

// fits reports whether a value has the parameter's type. Unknown types are any.
func (p *parameter) fits(value json.RawMessage) bool {
	var kind string
	var v any
	if json.Unmarshal(value, &v) != nil || len(p.Enum) > 0 && !slices.Contains(p.Enum, v) {
		return false
	}
	if json.Unmarshal(p.Type, &kind) != nil {
		return true
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), "[")
	switch v := v.(type) {
	case string:
		return !slices.Contains(slices.Concat(numberTypes, booleanTypes, listTypes, objectTypes), kind)
	case float64:
		whole := v == math.Trunc(v)
		return !slices.Contains(slices.Concat(textTypes, booleanTypes, listTypes, objectTypes), kind) && (whole || !slices.Contains(integerTypes, kind))
	case bool:
		return !slices.Contains(slices.Concat(textTypes, numberTypes, listTypes, objectTypes), kind)
	case []any:
		return !slices.Contains(slices.Concat(textTypes, numberTypes, booleanTypes, objectTypes), kind)
	case map[string]any:
		return !slices.Contains(slices.Concat(textTypes, numberTypes, booleanTypes, listTypes), kind)
	}
	return !slices.Contains(slices.Concat(textTypes, numberTypes, booleanTypes, listTypes, objectTypes), kind) // null
}

// Names of types, in lower case.
var (
	textTypes    = []string{"string", "str"}
	integerTypes = []string{"integer", "int", "long", "short", "byte"}
	numberTypes  = append([]string{"number", "float", "double"}, integerTypes...)
	booleanTypes = []string{"boolean", "bool"}
	listTypes    = []string{"array", "list", "tuple", "arraylist"}
	objectTypes  = []string{"object", "dict", "hashmap", "map"}
)

// wrongCalls is what is wrong with the calls that a model decided.
func wrongCalls(in *protocol.AgentInput, o *protocol.AgentOutput) string {
	if o.Output == nil || len(o.Output.ToolCalls) == 0 || isCorrected(in) {
		return elsewhere
	}
	var attributes struct {
		Robots []string `json:"known_robots"`
	}
	_ = json.Unmarshal(in.Attributes, &attributes) // robots of another form are unknown
	robots := slices.DeleteFunc(attributes.Robots, func(r string) bool { return r == "" })
	seen := map[string]bool{}
	for _, c := range o.Output.ToolCalls {
		switch same := encode(c); {
		case seen[same]:
			return "the same call twice: " + same
		case len(robots) > 0 && !slices.Contains(robots, c.TargetRobotName):
			return "there is no robot " + quote(c.TargetRobotName)
		default:
			seen[same] = true
		}
		if text := wrongCall(in.Tools, &c); text != "" {
			return text
		}
	}
	return ""
}

// wrongCall is what is wrong with a call of one of the tools.
func wrongCall(offered []protocol.Raw, c *protocol.ToolCall) string {
	for _, raw := range offered {
		var t tool
		if json.Unmarshal(raw, &t) != nil || t.Name != c.Name {
			continue
		}
		var arguments map[string]json.RawMessage
		_ = json.Unmarshal(c.Arguments, &arguments) // an object
		all, required := t.parameters()
		for _, name := range required {
			if _, there := arguments[name]; !there {
				return fmt.Sprintf("%s lacks the argument %s", c.Name, name)
			}
		}
		for name, value := range arguments {
			p, declared := all[name]
			switch {
			case declared && !p.fits(value):
				return fmt.Sprintf("%s has for %s the value %s", c.Name, name, shown(string(value)))
			case !declared && name == "target_robot":
				return "target_robot is among the arguments"
			}
		}
		return ""
	}
	return "there is no tool " + quote(c.Name)
}

// moving is a request whose tools are usable. A model that calls tools calls one here.
const moving = `{"request_id":"RULE","inputs":[{"id":1,"instruction":{"type":"user","content":"rover, move to the kitchen."},` +
	`"tools":[` + move + `,` + pick + `],"attributes":{"known_robots":["rover","arm"],"objects":["cup"]},` + deterministic + `}]}`

const (
	move = `{"name":"move","description":"Moves the robot to a room.","parameters":` + room + `}`
	pick = `{"name":"pick","description":"Picks up an object.","parameters":{"object":{"description":"Which","type":"str"}}}`
	room = `{"destination":{"description":"The room.","type":"str"}}`
	// deterministic makes equal requests equal answers.
	deterministic = `"extra_keys":{"inference_mode":true}`
	offered       = `[` + move + `,` + pick + `]`
)

// unusableTools replace the tools of moving.
var unusableTools = []variant{
	{"tools/unusable", Should, offered, `[` + move + `,` + move + `]`},
	{"tools/unusable", Should, offered, `[` + move + `,` + pick + `,{"name":"move","description":"Other.","parameters":{}}]`},
	{"tools/unusable", Should, offered, `[{"name":"","description":"Other.","parameters":{}}]`},
	{"tools/unusable", Should, offered, `[{"name":5,"description":"Other.","parameters":{}}]`},
	{"tools/unusable", Should, offered, `[{"name":null,"description":"Other.","parameters":{}}]`},
	{"tools/unusable", Should, offered, `[{"description":"Other.","parameters":{}}]`},
	{"tools/unusable", Should, offered, `[{}]`},
	{"tools/unusable", Should, offered, `[{"name":"move","description":"Other.","parameters":["destination"]}]`},
	{"tools/unusable", Should, offered, `[{"name":"move","description":"Other.","parameters":"destination"}]`},
}

// notations are usable tools.
var notations = []variant{
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves.","parameters":{}}]`},
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves."}]`},
	{"tools/notation", Should, offered, `[{"name":"move","parameters":` + room + `,"category":"drive"}]`},
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves.","arguments":` + room + `}]`},
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves.","inputSchema":` + roomSchema + `}]`},
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves.","parameters":` + roomSchema + `}]`},
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves.","optional":["speed"],"parameters":` +
		`{"destination":{"description":"The room.","type":"String"},"speed":{"description":"m/s","type":"Float"}}}]`},
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves.","parameters":{"door":{"description":"Open?","type":"BOOL"}}}]`},
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves.","parameters":{"rooms":{"description":"Which","type":"list[str]"}}}]`},
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves.","parameters":{"at":{"description":"Where","type":"HashMap"}}}]`},
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves.","parameters":{"at":{"description":"Where","type":"Vector3"}}}]`},
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves.","parameters":{"steps":{"description":"1 to 3","type":"INT"}}}]`},
	{"tools/notation", Should, offered, `[{"name":"move","description":"Moves.","parameters":{"target_robot":{"description":"Whom to follow","type":"str"}}}]`},
	{"tools/notation", Should, `["rover","arm"]`, `[]`},
	{"tools/notation", Should, `["rover","arm"]`, `["rover"]`},
}

const roomSchema = `{"type":"object","properties":{"destination":{"type":"string"},"speed":{"type":"integer"}},"required":["destination"]}`

// usable is an answer in which no tool is refused.
var usable = every("no tool is refused, and calls fit", func(o output) bool { return o.Error == nil || o.Error.Code != "invalid_tools" })

// lawful is an answer that obeys a law.
func lawful(about string, wrong func(x *exchange) string) right {
	return both(ok, right{text: about, judge: func(x *exchange) string {
		text := wrong(x)
		return when(text == "" || text == elsewhere && wrongSequence(x) == "")
	}})
}

var fitting = lawful("calls that fit", ofCandidates(wrongCalls))

// toolRules are about tools and what models make of them.
var toolRules = slices.Concat(with(needHistory, slices.Concat(
	[]rule{chain("tools/calls", Should, "5", "calls of a model fit the tools and robots",
		step{post(moving), both(usable, fitting)},
		step{post(edit(moving, deterministic, `"num_outputs":4`)), both(usable, fitting)},
		step{post(edit(moving, "rover, move to the kitchen.", "arm, pick up the cup.")), both(usable, fitting)})},
	variants(unusableTools, "5", post(moving), every("the error invalid_tools", func(o output) bool {
		return o.Error != nil && o.Error.Code == "invalid_tools"
	})),
	variants(notations, "5", post(moving), both(usable, fitting)),
)...), []rule{
	chain("tools/free-form", Must, "4", "tools and attributes are any objects",
		step{post(edit(cheap, `"id":1`, `"id":1,"tools":[{"name":"x","category":"y","cost":{"z":[1]}}],"attributes":{"weather":["rain"],"known_robots":[]}`)), ok},
		step{post(edit(cheap, `"id":1`, `"id":1,"tools":[],"attributes":{"objects":null,"n":1.5}`)), ok}),
})
