package format

import (
	"errors"
	"fmt"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/tools"
	"agentd/protocol"
)

// grammar admits reasoning, then a reply or an action, in the output style. White space in arguments is free.
//
//	blocks: root ::= think? ("<tool_call>" action "</tool_call>" | reply)
//	json:   root ::= think? {"say": ..., "action": {}} | {"say": "", "action": ...}
func (t *template) grammar(g *gbnf.Grammar, c *Catalog) error {
	set, think := c.Set, t.before(g)
	reply := gbnf.Text{Forbidden: callMarks, NonBlank: true}
	var answers []string
	if len(set.Tools) > 0 {
		others, err := t.addAction(g, set)
		if err != nil {
			return err
		}
		if t.jsonOut {
			answers = append(answers, gbnf.Literal(`{"say": "", "action": `)+" action "+gbnf.Literal("}"))
		} else {
			g.Add("calls", gbnf.Literal(callOpen)+` "\n"? action "\n"? `+gbnf.Literal(callClose))
			answers = append(answers, t.addForms(g, c, &reply, "calls", others))
		}
	}
	switch {
	case t.jsonOut && set.MustCall:
	case t.jsonOut && set.Answer != nil:
		return errors.New("the output style json has no place for an answer of a schema beside calls")
	case t.jsonOut:
		g.Add("said", `"\"" ( `+gbnf.NonBlank(controls+`"\`)+` | [\\] ["\\] ) `+g.JSON(gbnf.AnyChar)+`* "\""`)
		answers = append(answers, gbnf.Literal(`{"say": `)+" said "+gbnf.Literal(`, "action": {}}`))
	case len(answers) == 0:
		answers = append(answers, "reply")
		fallthrough
	default:
		if err := c.addReply(g, reply, t.introduced(set, "calls")); err != nil {
			return err
		}
	}
	g.Add("root", think+gbnf.Alternatives(answers))
	return nil
}

// addAction adds the rule action: one {robot: call} object, also of several robots, or a list; in a chat a call alone.
func (t *template) addAction(g *gbnf.Grammar, set *tools.Set) (otherForms, error) {
	begin, end := t.unit(set, gbnf.UnitBegin), t.unit(set, gbnf.UnitEnd)
	before, after := begin+gbnf.Literal(`{"name": "`), end+gbnf.Literal("}")
	robot := t.addRobot(g, set, jsonString)
	named := robot + " " + gbnf.Literal(`: {"name": "`)
	if !set.Chat {
		before, after = begin+gbnf.Literal("{")+" "+named, end+gbnf.Literal("}}")
	}
	functions := functions{g: g, next: callArguments}
	err := addCall(g, "one", set, before, after, functions.add)
	action := "one"
	if most := t.most(set); most > 1 {
		action += fmt.Sprintf(` | "[" one ( %s", " one ){1,%d} "]"`, t.unit(set, gbnf.UnitNext), most-1)
		if begin == "" { // each robot has one call: as prompts show them
			g.Add("entry", named+" "+gbnf.Alternatives(functions.rules)+" "+gbnf.Literal("}"))
			action += fmt.Sprintf(` | "{" entry ( ", " entry ){1,%d} "}"`, most-1)
		}
	}
	g.Add("action", action)
	others := functions.forms(end)
	if !set.Chat { // the robot stands before the call, or after the arguments
		call := gbnf.Literal(`"name": "`) + " " + gbnf.Alternatives(functions.rules)
		others.object = "( " + robot + " " + gbnf.Literal(": {") + " gap " + call + " gap " + gbnf.Literal("}") +
			" | " + call + " " + gbnf.Literal(`, "target_robot": `) + " " + robot + " ) gap " + end + gbnf.Literal("}")
		for _, name := range set.Robots {
			others.starts = append(others.starts, string(protocol.String(name))+gbnf.Gap+":"+gbnf.Gap+"{"+gbnf.Gap+nameStart)
		}
		if len(set.Robots) > 1 {
			others.args = nil // they name no robot
		}
	}
	return others, err
}

// controls are the control characters of ASCII, which JSON strings escape.
const controls = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f" +
	"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f"

// Parse parses reasoning, then blocks or one JSON object.
func (t *template) Parse(text string, c *Catalog) (Decision, error) {
	if t.jsonOut {
		return t.parseJSON(text, c)
	}
	return t.parseBlocks(text, c.Set, func(calls []tools.Call, body string) ([]tools.Call, string, error) {
		action, after, err := readJSON(body, "an action is")
		if err != nil {
			return nil, "", err
		}
		calls, err = readAction(calls, action, c.Set)
		return calls, after, err
	})
}

// parseJSON parses {"say", "action"}, and ignores other members.
func (t *template) parseJSON(text string, c *Catalog) (Decision, error) {
	reasoning, rest, err := splitThoughts(trimEnd(text), false, "{")
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Reasoning: reasoning}
	value, after, err := readJSON(rest, "the output is")
	if err != nil {
		return d, err
	}
	if after = strings.TrimSpace(after); after != "" {
		return d, fmt.Errorf("the output goes on after its JSON object: %s", quoteStart(after))
	}
	if value.Kind() != '{' {
		return d, fmt.Errorf("the output must be an object with say or action, not %s", quoteStart(string(value)))
	}
	say, hasSay := protocol.Get(value, "say")
	action, hasAction := protocol.Get(value, "action")
	if !hasSay && !hasAction {
		return d, errors.New("the output's object has neither say nor action")
	}
	reply, ok := protocol.Text(say)
	if hasSay && !ok {
		return d, errors.New("say must be a string")
	}
	if s, ok := protocol.Text(action); ok { // JSON inside of a string
		if action, rest, err = readJSON(s, "the action is"); err != nil || rest != "" {
			return d, errors.New("action must be an object or a list")
		}
	}
	var calls []tools.Call
	if hasAction {
		if calls, err = readAction(nil, action, c.Set); err != nil {
			return d, err
		}
	}
	return t.decide(c.Set, reply, calls, reasoning)
}

// readAction appends the calls of an action: {robot: {name, arguments}}, {name, arguments, target_robot}
// or a list of these; {} has no calls.
func readAction(calls []tools.Call, action protocol.Raw, set *tools.Set) ([]tools.Call, error) {
	if action.Kind() == '[' {
		for e := range protocol.Elements(action) {
			var err error
			if calls, err = readAction(calls, e, set); err != nil {
				return nil, err
			}
		}
		return calls, nil
	}
	if action.Kind() != '{' {
		return nil, fmt.Errorf("an action must be an object or a list, not %s", quoteStart(string(action)))
	}
	if name, ok := protocol.Get(action, "name"); ok && name.Kind() == '"' {
		var robot protocol.Raw
		for _, key := range []string{targetRobotName, tools.RobotParameter} {
			if v, ok := protocol.Get(action, key); ok {
				robot = v
				action = protocol.DeleteMember(action, key)
			}
		}
		call, err := readFunction(action, robot, set)
		return append(calls, call), err
	}
	for robot, function := range protocol.Members(action) {
		call, err := readFunction(function, protocol.String(robot), set)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}
