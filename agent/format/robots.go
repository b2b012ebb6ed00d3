package format

import (
	"fmt"

	"agentd/agent/internal/gbnf"
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
		if call.Robot == "" { // in a chat
			continue
		}
		if other, ok := first[call.Robot]; ok {
			return fmt.Errorf("the robot %q has two calls, of %s and %s; a decision may have one for each robot (calls_per_robot any allows more)",
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
	if set.OneCall {
		return 1
	}
	if r.once && len(set.Robots) > 0 {
		return min(maxCalls, len(set.Robots))
	}
	return maxCalls
}

// addRobot adds the rule of the robot of a call and returns its name, "" in a chat: the known
// robots, each as write spells it, else any JSON string that is not empty. Where a
// robot is called once, a mark stands before its name, so that it is named once. Of
// more robots than there are marks the last ones have none: the check looks at them.
func (r rules) addRobot(g *gbnf.Grammar, set *tools.Set, write func(name string) string) string {
	if set.Chat {
		return ""
	}
	if len(set.Robots) == 0 {
		return g.Rule(`"\"" ` + g.JSON(gbnf.AnyChar) + `+ "\""`)
	}
	list := make([]string, len(set.Robots))
	for i, robot := range set.Robots {
		list[i] = gbnf.Literal(write(robot))
		if r.once && i < gbnf.MaxMarks {
			list[i] = gbnf.Mark(i) + " " + list[i]
		}
	}
	return g.Rule(gbnf.Alternatives(list))
}

// either are the alternatives of an answer: calls, and a reply where there may be one.
func either(set *tools.Set, calls, reply string) string {
	if set.MustCall {
		return calls
	}
	return "( " + calls + " | " + reply + " )"
}

// jsonString is a name as a JSON string.
func jsonString(name string) string { return string(protocol.String(name)) }
