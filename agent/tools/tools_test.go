package tools

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/protocol"
)

func raws(texts ...string) []protocol.Raw {
	list := make([]protocol.Raw, len(texts))
	for i, text := range texts {
		list[i] = protocol.Raw(text)
	}
	return list
}

// TestSchemas states how descriptions of parameters become JSON Schemas.
func TestSchemas(t *testing.T) {
	for _, test := range []struct{ name, tool, want string }{
		{"no parameters", `{"name":"t"}`, `{"type":"object","properties":{}}`},
		{"null parameters", `{"name":"t","parameters":null}`, `{"type":"object","properties":{}}`},
		{"every parameter of a map is required", `{"name":"t","parameters":{"a":{"description":"A","type":"str"},"b":{"type":"INT"}}}`,
			`{"type":"object","properties":{"a":{"description":"A","type":"string"},"b":{"type":"integer"}},"required":["a","b"]}`},
		{"but the optional ones", `{"name":"t","parameters":{"a":{"type":"float"},"b":{"type":"double"}},"optional":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["b"]}`},
		{"arguments are parameters", `{"name":"t","arguments":{"a":{"type":"bool"}}}`,
			`{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}`},
		{"lists of a type", `{"name":"t","parameters":{"a":{"type":"list[list[float]]"},"b":{"type":"List"}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{"type":"array","items":{"type":"number"}}},"b":{"type":"array"}},"required":["a","b"]}`},
		{"a type that is null is a string", `{"name":"t","parameters":{"a":{"description":"A","type":null,"enum":null}}}`,
			`{"type":"object","properties":{"a":{"description":"A","type":"string"}},"required":["a"]}`},
		{"items that are null leave those of the type", `{"name":"t","parameters":{"a":{"type":"list[int]","items":null}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"]}`},
		{"given items win over those of the type", `{"name":"t","parameters":{"a":{"type":"list[int]","items":{"enum":[1]}}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{"enum":[1]}}},"required":["a"]}`},
		{"an unknown type name means any value", `{"name":"t","parameters":{"a":{"type":"Pose","description":"P"}}}`,
			`{"type":"object","properties":{"a":{"description":"P"}},"required":["a"]}`},
		{"an unknown name in a list of types means any value", `{"name":"t","parameters":{"a":{"type":["str","Pose"],"description":"P"}}}`,
			`{"type":"object","properties":{"a":{"description":"P"}},"required":["a"]}`},
		{"no type means a string", `{"name":"t","parameters":{"a":{"description":"A"}}}`,
			`{"type":"object","properties":{"a":{"description":"A","type":"string"}},"required":["a"]}`},
		{"unless options say more", `{"name":"t","parameters":{"a":{"enum":[1,2]}}}`,
			`{"type":"object","properties":{"a":{"enum":[1,2]}},"required":["a"]}`},
		{"a type name alone", `{"name":"t","parameters":{"a":"dict"}}`,
			`{"type":"object","properties":{"a":{"type":"object"}},"required":["a"]}`},
		{"a map's own required flag does not count", `{"name":"t","parameters":{"a":{"type":"str","required":false}}}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`},
		{"a JSON Schema keeps its own required", `{"name":"t","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["b"],"x":1.0}}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["b"],"x":1.0}`},
		{"a JSON Schema without a type", `{"name":"t","parameters":{"properties":{"a":{"type":"string"}},"required":[]}}`,
			`{"properties":{"a":{"type":"string"}},"required":[],"type":"object"}`},
		{"nor required", `{"name":"t","parameters":{"properties":{"a":{"type":"string"}}}}`,
			`{"properties":{"a":{"type":"string"}},"type":"object"}`},
		{"a parameter that is called properties", `{"name":"t","parameters":{"properties":{"type":"dict","description":"P"}}}`,
			`{"type":"object","properties":{"properties":{"type":"object","description":"P"}},"required":["properties"]}`},
		{"what parameters depend on is a schema", `{"name":"t","parameters":{"dependentRequired":{"a":["b"]}}}`,
			`{"dependentRequired":{"a":["b"]},"type":"object","properties":{}}`},
		{"so it is in older drafts", `{"name":"t","parameters":{"dependencies":{"a":["b"]}}}`,
			`{"dependencies":{"a":["b"]},"type":"object","properties":{}}`},
		{"a parameter that is called dependencies", `{"name":"t","parameters":{"dependencies":{"enum":["a"]}}}`,
			`{"type":"object","properties":{"dependencies":{"enum":["a"]}},"required":["dependencies"]}`},
		{"a map's null members count as absent", `{"name":"t","parameters":{"properties":null,"a":{"type":"str"},"type":null,"b":null}}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`},
		{"a map with a parameter that is called type", `{"name":"t","parameters":{"type":{"type":"str"},"required":{"type":"bool"},"const":"str"}}`,
			`{"type":"object","properties":{"type":{"type":"string"},"required":{"type":"boolean"},"const":{"type":"string"}},"required":["type","required","const"]}`},
		{"type names count in a JSON Schema too", `{"name":"t","parameters":{"type":"OBJECT","properties":{"a":{"type":"Str"},"b":{"type":"Pose"},"type":{"type":["string","null"]}},"required":["a"]}}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{},"type":{"type":["string","null"]}},"required":["a"]}`},
		{"and at every depth", `{"name":"t","parameters":{"a":{"type":"list","items":{"type":"dict","properties":{"x":{"type":"FLOAT","default":{"type":"Str"}}}}},"b":{"anyOf":[{"type":"int"},{"type":"null"},true]}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"x":{"type":"number","default":{"type":"Str"}}}}},"b":{"anyOf":[{"type":"integer"},{"type":"null"},true]}},"required":["a","b"]}`},
		{"a schema of a type from a library", `{"name":"t","parameters":{"$ref":"#/definitions/Go","definitions":{"Go":{"type":"object","properties":{"to":{"type":"STR"}},"required":["to"],"additionalProperties":false}},"$schema":"http://json-schema.org/draft-07/schema#"}}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"to":{"type":"string"}},"required":["to"],"additionalProperties":false}`},
		{"definitions stay while something leads to them", `{"name":"t","parameters":{"$ref":"#/$defs/a~1b%20c","$defs":{"a/b c":{"description":"D","properties":{"next":{"$ref":"#/$defs/a~1b%20c"}},"required":["next"]}}}}`,
			`{"$defs":{"a/b c":{"description":"D","properties":{"next":{"$ref":"#/$defs/a~1b%20c"}},"required":["next"]}},"type":"object","properties":{"next":{"$ref":"#/$defs/a~1b%20c"}},"required":["next"],"description":"D"}`},
		{"parts of a schema are written out", `{"name":"t","parameters":{"description":"D","allOf":[{"$ref":"#/$defs/base"},{"type":"dict","description":"E","properties":{"b":{"type":"int"},"x":{"enum":[1]}},"required":["b","a"]}],"properties":{"x":{"type":"int"}},"required":["x"],"$defs":{"base":{"allOf":[{"properties":{"a":{"type":"bool"}}}],"required":["a"],"additionalProperties":true}}}}`,
			`{"description":"D","properties":{"x":{"type":"integer"},"a":{"type":"boolean"},"b":{"type":"integer"}},"required":["x","a","b"],"type":"object","additionalProperties":true,"allOf":[{"properties":{"x":{"enum":[1]}}}]}`},
		{"conditions stay as they are", `{"name":"t","parameters":{"properties":{"a":{},"b":{}},"allOf":[{"if":{"required":["a"]},"then":{"required":["b"]}},true,{"anyOf":[{"required":["a"]},{"required":["b"]}]}]}}`,
			`{"properties":{"a":{},"b":{}},"type":"object","allOf":[{"if":{"required":["a"]},"then":{"required":["b"]}},{"anyOf":[{"required":["a"]},{"required":["b"]}]}]}`},
		{"so does a choice of what is required", `{"name":"t","parameters":{"properties":{"a":{},"b":{}},"oneOf":[{"required":["a"],"title":"A"},{"type":"object","required":["b"]}]}}`,
			`{"properties":{"a":{},"b":{}},"oneOf":[{"required":["a"],"title":"A"},{"type":"object","required":["b"]}],"type":"object"}`},
		{"a part that knows all parameters may refuse others", `{"name":"t","parameters":{"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"required":["a"]}]}}`,
			`{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}`},
		{"a schema that consists of itself", `{"name":"t","parameters":{"allOf":[{"$ref":"#/$defs/x"},{"$ref":"#"}],"$defs":{"x":{"properties":{"a":{}},"allOf":[{"$ref":"#/$defs/x"}]}}}}`,
			`{"type":"object","properties":{"a":{}}}`},
		{"a type among others", `{"name":"t","parameters":{"type":["object","null"],"properties":{"a":{"type":"str"}}}}`,
			`{"type":["object","null"],"properties":{"a":{"type":"string"}}}`},
		{"type names in a list of types", `{"name":"t","parameters":{"a":{"type":["Str","null"]},"b":{"type":["int","Integer","list[str]"]}}}`,
			`{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":["integer","array"]}},"required":["a","b"]}`},
		{"type names in schemas of names and of what is left", `{"name":"t","parameters":{"type":"object","properties":{},"propertyNames":{"type":"str"},"unevaluatedProperties":{"type":"int"},"dependentSchemas":{"a":{"properties":{"b":{"type":"dict"}}}}}}`,
			`{"type":"object","properties":{},"propertyNames":{"type":"string"},"unevaluatedProperties":{"type":"integer"},"dependentSchemas":{"a":{"properties":{"b":{"type":"object"}}}}}`},
		{"alternatives may say more of declared parameters", `{"name":"t","parameters":{"type":"object","properties":{"m":{"enum":["a","b"]},"x":{}},"oneOf":[{"properties":{"m":{"const":"a"}},"not":{"required":["x"]}},{"properties":{"m":{"const":"b"}},"required":["x"]}]}}`,
			`{"type":"object","properties":{"m":{"enum":["a","b"]},"x":{}},"oneOf":[{"properties":{"m":{"const":"a"}},"not":{"required":["x"]}},{"properties":{"m":{"const":"b"}},"required":["x"]}]}`},
		{"a parameter that is called like a keyword", `{"name":"t","parameters":{"anyOf":{"type":"str"},"$ref":{"type":"str"}}}`,
			`{"type":"object","properties":{"anyOf":{"type":"string"},"$ref":{"type":"string"}},"required":["anyOf","$ref"]}`},
		{"MCP's word for parameters", `{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`},
		{"null for what may be left out", `{"name":"t","parameters":{"type":"object","properties":{"a":{"type":"string","description":null,"default":null},"b":null},"required":null}}`,
			`{"type":"object","properties":{"a":{"type":"string","default":null},"b":true}}`},
		{"type names of Python and Java", `{"name":"t","parameters":{"type":"object","properties":{"a":{"type":"tuple","items":{"type":"Long"}},"b":{"type":"ArrayList"},"c":{"type":"HashMap"},"d":{"type":"double"},"e":{"type":["dict","null"]}}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}},"b":{"type":"array"},"c":{"type":"object"},"d":{"type":"number"},"e":{"type":["object","null"]}}}`},
		{"type names with types of their parts", `{"name":"t","parameters":{"a":{"type":"tuple[int, str]"},"b":{"type":"Dict[str, int]"}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":"object"}},"required":["a","b"]}`},
		{"a schema of other members alone", `{"name":"t","parameters":{"additionalProperties":{"type":"int"}}}`,
			`{"additionalProperties":{"type":"integer"},"type":"object","properties":{}}`},
		{"a schema of members by pattern", `{"name":"t","parameters":{"patternProperties":{"^a":{"type":"integer"}}}}`,
			`{"patternProperties":{"^a":{"type":"integer"}},"type":"object","properties":{}}`},
		{"a schema of remarks alone", `{"name":"t","parameters":{"title":"T","description":"no parameters"}}`,
			`{"title":"T","description":"no parameters","type":"object","properties":{}}`},
		{"a schema of required alone", `{"name":"t","parameters":{"required":["a"]}}`,
			`{"required":["a"],"type":"object","properties":{}}`},
		{"a schema that forbids other members alone", `{"name":"t","parameters":{"additionalProperties":false}}`,
			`{"additionalProperties":false,"type":"object","properties":{}}`},
		{"a schema of a condition alone", `{"name":"t","parameters":{"if":{"required":["a"]},"then":{"required":["b"]},"minProperties":1}}`,
			`{"if":{"required":["a"]},"then":{"required":["b"]},"minProperties":1,"type":"object","properties":{}}`},
		{"a schema of a limit and an extension", `{"name":"t","parameters":{"maxProperties":2,"x-order":3}}`,
			`{"maxProperties":2,"x-order":3,"type":"object","properties":{}}`},
		{"one parameter called title with a type of its parts", `{"name":"t","parameters":{"title":"list[str]"}}`,
			`{"type":"object","properties":{"title":{"type":"array","items":{"type":"string"}}},"required":["title"]}`},
		{"parameters called like keywords with types of their parts", `{"name":"t","parameters":{"title":"list[str]","default":"dict[str, int]"}}`,
			`{"type":"object","properties":{"title":{"type":"array","items":{"type":"string"}},"default":{"type":"object"}},"required":["title","default"]}`},
		{"parameters that are called items and title", `{"name":"t","parameters":{"items":{"type":"list","description":"what to bring"},"title":"str"}}`,
			`{"type":"object","properties":{"items":{"type":"array","description":"what to bring"},"title":{"type":"string"}},"required":["items","title"]}`},
		{"a parameter called type beside others", `{"name":"t","parameters":{"type":"str","room":"str"}}`,
			`{"type":"object","properties":{"type":{"type":"string"},"room":{"type":"string"}},"required":["type","room"]}`},
		{"parameters called like keywords that limit", `{"name":"t","parameters":{"format":{"type":"str"},"minimum":{"type":"int"},"pattern":"str"}}`,
			`{"type":"object","properties":{"format":{"type":"string"},"minimum":{"type":"integer"},"pattern":{"type":"string"}},"required":["format","minimum","pattern"]}`},
		{"a parameter that is called type", `{"name":"t","parameters":{"type":{"type":"str"}}}`,
			`{"type":"object","properties":{"type":{"type":"string"}},"required":["type"]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			set, err := Normalise(raws(test.tool), nil, "robot")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(set.Tools[0].Schema)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnusableTools(t *testing.T) {
	for _, test := range []struct{ name, tools, err string }{
		{"no name", `{"description":"x"}`, "tools[0]: it needs a name"},
		{"OpenAI's form of a tool", `{"type":"function","function":{"name":"t"}}`, "tools[0]: it is in OpenAI's form; send what this has as function"},
		{"a name that is no string", `{"name":5}`, "tools[0]: it needs a name"},
		{"a name that call syntaxes can't hold", `{"name":"a>b"}`, `"a>b" has a space`},
		{"a name with a space of Unicode", `{"name":"go\u00a0to"}`, "has a space"},
		{"a name twice", `{"name":"a"}|{"name":"b"}|{"name":"a"}`, `tools[2]: the name "a" is already that of tools[0]`},
		{"parameters that are a list", `{"name":"a","parameters":[]}`, "parameters must be an object, not a list"},
		{"a parameter that is a number", `{"name":"a","parameters":{"x":5}}`, `parameter "x": it must be an object`},
		{"optional that is a string", `{"name":"a","parameters":{"x":{}},"optional":"x"}`, "optional must be a list"},
		{"a schema that is none", `{"name":"a","parameters":{"type":"object","properties":{"x":{"type":[1]}}}}`, "not a usable JSON Schema"},
		{"a bound beyond all numbers", `{"name":"a","parameters":{"x":{"type":"float","minimum":1e99999999999}}}`, "exponent beyond 400"},
		{"a reference to a file", `{"name":"a","parameters":{"type":"object","properties":{"x":{"$ref":"file:///etc/passwd"}}}}`, "are not followed"},
		{"properties that are a list", `{"name":"a","parameters":{"type":"object","properties":[]}}`, "parameters.properties must be an object"},
		{"alternatives with parameters of their own", `{"name":"a","parameters":{"type":"object","properties":{"x":{}},"oneOf":[{"required":["x"]},{"properties":{"y":{}}}]}}`,
			"parameters.oneOf has alternatives with properties; they may only say which parameters are required and more of those that are declared: declare all parameters under properties, or make each alternative a tool"},
		{"a part that is written out again and again", `{"name":"a","parameters":{"allOf":[` + nestedRefs(12) + `],"$defs":{"a":` +
			strings.Repeat(`{"allOf":[`, 12) + `{"not":{"const":"` + strings.Repeat("x", 100000) + `"}}` + strings.Repeat("]}", 12) + `}}}`,
			"once their $ref and allOf are written out"},
		{"alternatives that are references", `{"name":"a","parameters":{"anyOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"type":"object"}}}}`, "parameters.anyOf has alternatives with $ref"},
		{"alternatives in a part", `{"name":"a","parameters":{"allOf":[{"type":"object"},{"oneOf":[{"properties":{"y":{}}}]}]}}`, "parameters.allOf[1].oneOf has alternatives"},
		{"arguments that are given as a whole", `{"name":"a","parameters":{"type":"object","enum":[{}]}}`, "parameters.enum fixes the arguments as a whole"},
		{"a reference at the top to nothing", `{"name":"a","parameters":{"$ref":"#/$defs/y","$defs":{"x":{}}}}`, `the $ref "#/$defs/y" leads to nothing within the parameters`},
		{"a reference at the top to another document", `{"name":"a","parameters":{"$ref":"https://example.org/x"}}`, `the $ref "https://example.org/x" leads to another document`},
		{"a list as the parameters", `{"name":"a","parameters":{"type":"array","items":{"type":"string"}}}`, `parameters.type must be object, not "array"`},
		{"a string as the parameters", `{"name":"a","parameters":{"type":"string","minLength":2}}`, `parameters.type must be object, not "string"`},
		{"a list of a type as the parameters", `{"name":"a","parameters":{"type":"list[str]","minItems":2}}`, `parameters.type must be object, not "list[str]"`},
		{"several types as the parameters", `{"name":"a","parameters":{"type":["string","null"]}}`, `parameters.type must be object, not ["string","null"]`},
		{"a map beside a keyword", `{"name":"a","parameters":{"room":{"type":"str"},"required":["room"]}}`, `"required" is a keyword of JSON Schema; write the parameters under properties`},
		{"look-ahead within a pattern", `{"name":"a","parameters":{"x":{"type":"str","pattern":"^a(?!x)"}}}`, `parameters.properties.x.pattern "^a(?!x)": groups other than`},
		{"arguments that are no object", `{"name":"a","parameters":{"$ref":"#/$defs/x","$defs":{"x":{"type":"string"}}}}`, `parameters.$ref.type must be object, not "string"`},
		{"a part that refuses what stands in another", `{"name":"a","parameters":{"allOf":[{"properties":{"x":{}},"additionalProperties":false},{"properties":{"y":{}}}]}}`,
			`parameters.allOf[0].additionalProperties says what else there may be, and the parameter "y" stands in another part`},
		{"a reference into what is written out", `{"name":"a","parameters":{"allOf":[{"properties":{"x":{},"y":{"$ref":"#/allOf/0/properties/x"}}}]}}`, "put what it leads to under $defs"},
		{"parts without end", `{"name":"a","parameters":{"allOf":[` + strings.Repeat(`{},`, maxParts) + `{}]}}`, "more than 100 parts"},
	} {
		for i := 0; strings.Contains(test.tools, "%s"); i++ { // one reference in many spellings
			name := ""
			for bit := range 6 {
				name += []string{"a", "%61"}[i>>bit&1]
			}
			test.tools = strings.Replace(test.tools, "%s", name, 1)
		}
		t.Run(test.name, func(t *testing.T) {
			_, err := Normalise(raws(strings.Split(test.tools, "|")...), nil, "robot")
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
		})
	}
}

func TestRobotParameter(t *testing.T) {
	for _, test := range []struct{ name, tool, robots, parameter, schema string }{
		{"an enum of known robots", `{"name":"t"}`, `["a","b"]`, "target_robot",
			`{"type":"object","properties":{"target_robot":{"type":"string","description":"Robot that executes this call.","enum":["a","b"]}},"required":["target_robot"]}`},
		{"an empty name and one twice name nobody more", `{"name":"t"}`, `["a","","b","a"]`, "target_robot",
			`{"type":"object","properties":{"target_robot":{"type":"string","description":"Robot that executes this call.","enum":["a","b"]}},"required":["target_robot"]}`},
		{"a nonempty string when none is known", `{"name":"t"}`, `[]`, "target_robot",
			`{"type":"object","properties":{"target_robot":{"type":"string","description":"Robot that executes this call.","minLength":1}},"required":["target_robot"]}`},
		{"robots that are not all strings are not known", `{"name":"t"}`, `["a",5]`, "target_robot",
			`{"type":"object","properties":{"target_robot":{"type":"string","description":"Robot that executes this call.","minLength":1}},"required":["target_robot"]}`},
		{"a tool's own target_robot stays", `{"name":"t","parameters":{"target_robot":{"type":"int"}}}`, `["a"]`, "executing_robot",
			`{"type":"object","properties":{"target_robot":{"type":"integer"},"executing_robot":{"type":"string","description":"Robot that executes this call.","enum":["a"]}},"required":["target_robot","executing_robot"]}`},
		{"and a third name is found", `{"name":"t","parameters":{"target_robot":{"type":"int"},"executing_robot":{"type":"int"}},"optional":["target_robot","executing_robot"]}`, `["a"]`, "executing_robot_2",
			`{"type":"object","properties":{"target_robot":{"type":"integer"},"executing_robot":{"type":"integer"},"executing_robot_2":{"type":"string","description":"Robot that executes this call.","enum":["a"]}},"required":["executing_robot_2"]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			robots := KnownRobots(protocol.Raw(`{"known_robots":` + test.robots + `}`))
			set, err := Normalise(raws(test.tool), robots, "robot")
			if err != nil {
				t.Fatal(err)
			}
			if got := set.Tools[0].RobotParam; got != test.parameter {
				t.Errorf("parameter %q, want %q", got, test.parameter)
			}
			if diff := cmp.Diff(test.schema, string(set.Tools[0].Prompted.Raw())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRobotIsTakenOutOfArguments(t *testing.T) {
	own := `{"name":"own","parameters":{"target_robot":{"type":"int"}}}`
	for _, test := range []struct {
		name, tool, robots, written string
		want                        Call
		err                         string
	}{
		{"the robot leaves the arguments, which keep their bytes", `{"name":"t","parameters":{"x":{"type":"any"}}}`, `["a","b"]`,
			`{"x":[1.0,"\u0041"],"target_robot":"b"}`, Call{Name: "t", Arguments: protocol.Raw(`{"x":[1.0,"\u0041"]}`), TargetRobotName: "b"}, ""},
		{"the only known robot, when left out", `{"name":"t"}`, `["a"]`, `{}`, Call{Name: "t", Arguments: protocol.Raw(`{}`), TargetRobotName: "a"}, ""},
		{"the default robot among several", `{"name":"t"}`, `["a","b"]`, `{}`, Call{Name: "t", Arguments: protocol.Raw(`{}`), TargetRobotName: "robot"}, ""},
		{"the default robot among none", `{"name":"t"}`, `[]`, `{}`, Call{Name: "t", Arguments: protocol.Raw(`{}`), TargetRobotName: "robot"}, ""},
		{"any robot when none is known", `{"name":"t"}`, `[]`, `{"target_robot":"z"}`, Call{Name: "t", Arguments: protocol.Raw(`{}`), TargetRobotName: "z"}, ""},
		{"no empty robot", `{"name":"t"}`, `[]`, `{"target_robot":""}`, Call{}, "names an empty robot"},
		{"no unknown robot", `{"name":"t"}`, `["a"]`, `{"target_robot":"z"}`, Call{}, `unknown robot "z"; known are a`},
		{"a tool's own target_robot stays an argument", own, `["a","b"]`, `{"target_robot":5,"executing_robot":"b"}`,
			Call{Name: "own", Arguments: protocol.Raw(`{"target_robot":5}`), TargetRobotName: "b"}, ""},
		{"integers beyond int64 are integers", `{"name":"t","parameters":{"x":{"type":"int"}}}`, `["a"]`,
			`{"x":123456789012345678901234567890}`, Call{Name: "t", Arguments: protocol.Raw(`{"x":123456789012345678901234567890}`), TargetRobotName: "a"}, ""},
		{"huge exponents do no harm", `{"name":"t","parameters":{"x":{"type":"float","minimum":0},"y":{"type":"int"}},"optional":["x","y"]}`, `["a"]`,
			`{"x":1e99999999999,"y":1e999999999}`, Call{}, "has an exponent beyond 400"},
		{"a number is no integer", `{"name":"t","parameters":{"x":{"type":"int"}}}`, `["a"]`, `{"x":1.5}`, Call{}, "argument x: got number, want integer"},
		{"options are checked", `{"name":"t","parameters":{"x":{"type":"str","enum":["u","v"]}}}`, `["a"]`, `{"x":"w"}`, Call{}, "argument x: value must be one of"},
		{"arguments that no reader takes", `{"name":"t","parameters":{"x":{"type":"any"}}}`, `["a"]`,
			`{"x":` + strings.Repeat("[", 56) + strings.Repeat("]", 56) + `}`, Call{}, "nested more than 56 levels deep"},
		{"brackets in strings do not nest", `{"name":"t","parameters":{"x":{"type":"str"}}}`, `["a"]`,
			`{"x":"\"` + strings.Repeat("[", 99) + `"}`, Call{Name: "t", Arguments: protocol.Raw(`{"x":"\"` + strings.Repeat("[", 99) + `"}`), TargetRobotName: "a"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			set, err := Normalise(raws(test.tool), KnownRobots(protocol.Raw(`{"known_robots":`+test.robots+`}`)), "robot")
			if err != nil {
				t.Fatal(err)
			}
			got, err := set.Accept(set.Tools[0].Name, protocol.Raw(test.written), nil)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestToolsThatCostTooMuch are refused before their cost, which grows as a square.
func TestToolsThatCostTooMuch(t *testing.T) {
	list := func(n int, element string) string { return strings.Repeat(element+",", n-1) + element }
	var members strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&members, `"p%d":"int",`, i)
	}
	for _, test := range []struct{ name, tool, robots, err string }{
		{"a large tool", `{"name":"t","description":"` + strings.Repeat("x", MaxToolBytes) + `"}`, `[]`, "bytes"},
		{"many schemas", `{"name":"t","parameters":{"x":{"anyOf":[` + list(MaxSubschemas, "true") + `]}}}`, `[]`, "schemas"},
		{"many parameters in a map", `{"name":"t","parameters":{` + strings.TrimSuffix(members.String(), ",") + `}}`, `[]`, "more than 256 parameters"},
		{"many robots", `{"name":"t"}`, `["a"` + numbered(MaxRobots) + `]`, "known_robots"},
		{"long names of robots", `{"name":"t"}`, `["` + strings.Repeat("x", MaxRobotBytes+1) + `"]`, "known_robots"},
	} {
		t.Run(test.name, func(t *testing.T) {
			robots := KnownRobots(protocol.Raw(`{"known_robots":` + test.robots + `}`))
			if _, err := Normalise(raws(test.tool), robots, "robot"); err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
		})
	}
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf(`{"name":"t%d"}`, i)
	}
	if _, err := Normalise(raws(many...), []string{strings.Repeat("x", MaxRobotCopies/100)}, "robot"); err == nil || !strings.Contains(err.Error(), "known_robots") {
		t.Errorf("error %v, want one about the names of robots in all tools", err)
	}
	if set, err := Normalise(raws(many...), []string{strings.Repeat("x", MaxRobotCopies/100-4)}, "robot"); err != nil || set.Bytes() < MaxRobotCopies {
		t.Errorf("%v", err)
	}
	costly := func(i int) string {
		return fmt.Sprintf(`{"name":"t%d","parameters":{"x":{"anyOf":[%s]}}}`, i, list(MaxSubschemas-10, "true"))
	}
	var all []string
	for i := range MaxSetSubschemas/MaxSubschemas + 1 {
		all = append(all, costly(i))
	}
	if _, err := Normalise(raws(all...), nil, "robot"); err == nil || !strings.Contains(err.Error(), "together, but at most") {
		t.Errorf("many costly tools: %v", err)
	}
	deep := `{"name":"t","parameters":{"x":{"type":"` + strings.Repeat("list[", 100000) + strings.Repeat("]", 100000) + `"}}}`
	set, err := Normalise(raws(deep), nil, "robot")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(set.Tools[0].Properties[0].Schema); got != "{}" {
		t.Errorf("a type name without end means any value, not %.80s", got)
	}
}

// TestChecksThatCostTooMuch would each take hours.
func TestChecksThatCostTooMuch(t *testing.T) {
	for _, test := range []struct{ name, schema, arguments string }{
		{"references that double", `{"properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{` + doubling(60) + `"d60":{}}}`, `{"x":1}`},
		{
			"a recursion that doubles with the depth of the value",
			`{"properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"anyOf":[{"properties":{"x":{"$ref":"#/$defs/n"}},"required":["y"]},{"properties":{"x":{"$ref":"#/$defs/n"}},"required":["y"]}]}}}`,
			strings.Repeat(`{"x":`, 50) + "1" + strings.Repeat("}", 50),
		},
		{
			"the same of lists",
			`{"properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"allOf":[{"items":{"$ref":"#/$defs/n"}},{"prefixItems":[{"$ref":"#/$defs/n"}]},{"contains":{"$ref":"#/$defs/n"}}]}}}`,
			`{"x":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`,
		},
		{
			"the same of names and patterns",
			`{"properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"patternProperties":{"x":{"$ref":"#/$defs/n"},"^x":{"$ref":"#/$defs/n"}}}}}`,
			strings.Repeat(`{"x":`, 50) + "1" + strings.Repeat("}", 50),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			set, err := Normalise(raws(`{"name":"t","parameters":`+test.schema+`}`), nil, "robot")
			if err != nil {
				t.Fatal(err)
			}
			_, err = set.Accept("t", protocol.Raw(test.arguments), nil)
			if err == nil || !strings.Contains(err.Error(), "the schema ") {
				t.Errorf("error %v, want one about the schema", err)
			}
		})
	}
}

// TestLargeArgumentsAreChecked: the bound is far from what is sent on purpose.
func TestLargeArgumentsAreChecked(t *testing.T) {
	set, err := Normalise(raws(`{"name":"t","parameters":{"type":"object","properties":{"path":{"type":"array","items":{"oneOf":[
		{"type":"object","properties":{"kind":{"const":"pose"},"x":{"type":"number"},"y":{"type":"number"}},"required":["kind","x","y"]},
		{"type":"object","properties":{"kind":{"const":"wait"},"seconds":{"type":"number"}},"required":["kind","seconds"]}]}}}}}`), nil, "robot")
	if err != nil {
		t.Fatal(err)
	}
	arguments := `{"path":[` + strings.TrimSuffix(strings.Repeat(`{"kind":"pose","x":1,"y":2},`, 5000), ",") + `]}`
	if _, err := set.Accept("t", protocol.Raw(arguments), nil); err != nil {
		t.Error(err)
	}
}

// doubling is schemas d0, d1 and so on, each of which refers to the next twice.
func doubling(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	return b.String()
}

// numbered is ,"r0","r1" and so on.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"r%d"`, i)
	}
	return b.String()
}

// FuzzNormalise: no tool crashes, and a usable one has a valid schema.
func FuzzNormalise(f *testing.F) {
	f.Add(`{"name":"t","parameters":{"a":{"type":"list[int]"},"b":"str"},"optional":["a"]}`)
	f.Add(`{"name":"t","parameters":{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}}`)
	f.Add(`{"name":"t","parameters":{"type":"object","properties":{"a":{"pattern":"("}}}}`)
	f.Add(`{"name":"t","parameters":{"$ref":"#/$defs/x","allOf":[{"required":["a"]},{"not":{}}],"$defs":{"x":{"title":"X","properties":{"a":{}},"additionalProperties":false}}}}`)
	f.Add(`{"name":"t","parameters":{"anyOf":[{"required":["a"]}],"properties":{"a":{}}}}`)
	f.Fuzz(func(t *testing.T, tool string) {
		raw := protocol.Raw(tool)
		if raw.Kind() != '{' || !raw.IsValid() {
			t.Skip()
		}
		set, err := Normalise([]protocol.Raw{raw}, []string{"a"}, "robot")
		if err != nil {
			return
		}
		if s := set.Tools[0].Prompted.Raw(); !s.IsValid() {
			t.Errorf("%s becomes the schema %s", tool, s)
		}
		_, _ = set.Accept(set.Tools[0].Name, protocol.Raw(`{"a":1}`), nil)
	})
}

// nestedRefs are references to a definition and to what is nested in it.
func nestedRefs(depth int) string {
	var refs []string
	for i := range depth {
		refs = append(refs, `{"$ref":"#/$defs/a`+strings.Repeat("/allOf/0", i)+`"}`)
	}
	return strings.Join(refs, ",")
}
