package format

import (
	"fmt"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/rawjson"
	"agentd/agent/tools"
	"agentd/protocol"
)

// How many calls of a decision may go to the same robot.
const (
	CallsOne = "one" // a second one is an invalid output
	CallsAny = "any"
)

// rules are the options that all formats have for decisions.
type rules struct {
	mixed string // MixedReject or MixedTools
	once  bool   // one call for each robot
}

func newRules(o Options) (rules, error) {
	switch o.CallsPerRobot {
	case "", CallsOne:
		return rules{o.MixedOutput, true}, nil
	case CallsAny:
		return rules{o.MixedOutput, false}, nil
	}
	return rules{}, fmt.Errorf("calls_per_robot %q is unknown; use %s or %s", o.CallsPerRobot, CallsOne, CallsAny)
}

// check is the first reason why calls can't be made together.
func (r rules) check(calls []tools.Call) error {
	if !r.once {
		return nil
	}
	first := make(map[string]string, len(calls)) // tools by robot
	for i := range calls {
		call := &calls[i]
		if other, ok := first[call.Robot]; ok {
			return fmt.Errorf("the robot %q has two calls, of %s and %s; a decision may have one for each robot (--calls-per-robot any allows more)",
				call.Robot, other, call.Name)
		}
		first[call.Robot] = call.Name
	}
	return nil
}

// most is how many calls a constrained answer may have. Where each robot is called
// once and all are known, these are no more than there are robots: so a call that has
// begun always finds one that is left.
func (r rules) most(set *tools.Set) int {
	if r.once && len(set.Robots) > 0 {
		return min(maxCalls, len(set.Robots))
	}
	return maxCalls
}

// robotRule is the rule of the robots that a call may name.
const robotRule = "robot"

// addRobots adds the rule of the known robots, each as write spells it. Where a robot
// is called once, a mark stands before its name, so that it is named once. Of more
// robots than there are marks the last ones have none: the check looks at them.
func (r rules) addRobots(g *gbnf.Grammar, set *tools.Set, write func(name string) string) {
	list := make([]string, len(set.Robots))
	for i, robot := range set.Robots {
		list[i] = gbnf.Literal(write(robot))
		if r.once && i < gbnf.MaxMarks {
			list[i] = gbnf.Mark(i) + " " + list[i]
		}
	}
	g.Add(robotRule, gbnf.Alternatives(list))
}

// jsonString is a name as a JSON string.
func jsonString(name string) string { return string(protocol.String(name)) }

// marksRobots tells whether the robot in a tool's arguments is to be the rule
// robotRule. A schema that leads back to itself, or to the robot's parameter, may name
// robots in other places too, which are no calls: there the check has to do.
func (r rules) marksRobots(set *tools.Set, tool *tools.Tool) bool {
	schema := string(tool.Schema)
	return r.once && len(set.Robots) > 0 && !strings.Contains(schema, `"#"`) && !strings.Contains(schema, "#/properties/"+tool.RobotParam)
}

// importArguments adds the rules of a tool's arguments, its robot included, and
// returns their root.
func (r rules) importArguments(g *gbnf.Grammar, kit Toolkit, prefix string, set *tools.Set, tool *tools.Tool) (string, error) {
	schema := tools.ForGrammar(tool.Prompted)
	if !r.marksRobots(set, tool) {
		return importSchema(g, kit, prefix, tool, schema)
	}
	name := unusedText(schema)
	properties, _ := protocol.Get(schema, "properties")
	properties = protocol.SetMember(properties, tool.RobotParam, constant(name))
	r.addRobots(g, set, jsonString)
	return importSchema(g, kit, prefix, tool, protocol.SetMember(schema, "properties", properties), gbnf.Place{Text: name, Rule: robotRule})
}

// constant is the schema of one string.
func constant(text string) protocol.Raw {
	return protocol.AppendMember(protocol.Raw("{}"), "const", protocol.String(text))
}

// unusedText is a text of letters and digits that no string of a schema has.
func unusedText(schema protocol.Raw) string {
	plain := string(rawjson.AppendSpaced(nil, schema)) // without escapes that are not needed
	for i := 0; ; i++ {
		if text := fmt.Sprintf("robotplace%d", i); !strings.Contains(plain, text) {
			return text
		}
	}
}
