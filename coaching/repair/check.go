package repair

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"agentd/protocol"
)

// Verdict is what a coach decided.
type Verdict struct {
	// Corrected tells that there are proposals; else the coach declined.
	Corrected bool
	// Why is the coach's reason, for a person.
	Why       string
	Proposals []protocol.CoachingProposal
}

// Check holds a decision against a point: the point was supplied, the decision
// is valid and not empty, its tools and robots are known, arguments fit. Problems
// are located from the decision on: ["tool_calls", 0, "arguments", "place"].
func (t *Task) Check(pointID string, d *protocol.AgentDecision) protocol.Problems {
	p, ok := t.byID[pointID]
	if !ok {
		return protocol.Problems{{
			Type: protocol.TypeValue,
			Loc:  []any{"reinjection_point_id"},
			Msg:  fmt.Sprintf("%s is not one of the reinjection points; they are %s", t.quote(pointID), t.pointIDs()),
		}}
	}
	return p.check(d)
}

// Proposal is the proposal of a decision that passed Check.
func (t *Task) Proposal(pointID string, d *protocol.AgentDecision) protocol.CoachingProposal {
	return protocol.CoachingProposal{ReinjectionPointID: pointID, ExtraKeys: correction(d).AppendJSON(nil)}
}

// correction is what the agent applies: the generic replacement for a text, its
// own for calls.
func correction(d *protocol.AgentDecision) protocol.Correction {
	if len(d.ToolCalls) == 0 {
		return &protocol.ReplaceSay{Text: d.Say}
	}
	return &protocol.ReplaceDecision{Decision: *d}
}

func (p *Point) check(d *protocol.AgentDecision) protocol.Problems {
	var found problems
	switch {
	case d == nil, len(d.ToolCalls) == 0 && strings.TrimSpace(d.Say) == "":
		found.add(protocol.TypeValue, "the decision is empty; write a text in say, or at least one tool call")
		return found.list
	case len(d.ToolCalls) > maxCalls:
		found.add(protocol.TypeTooLong, fmt.Sprintf("there are %d calls; one decision may have at most %d", len(d.ToolCalls), maxCalls), "tool_calls")
		return found.list
	case !utf8.ValidString(d.Say):
		found.add(protocol.TypeString, "the text is not valid UTF-8", "say")
	}
	found.addAll(wellFormed(d))
	if len(found.list) > 0 || len(d.ToolCalls) == 0 {
		return found.list
	}
	if p.Tools == nil {
		found.add(protocol.TypeValue, fmt.Sprintf("no call can be checked at the point %s, since its tools are unusable (%s); only a text can be proposed here, in say",
			p.quote(p.ID), p.errorText(p.ToolsErr)), "tool_calls")
		return found.list
	}
	for i := range d.ToolCalls {
		if len(found.list) == maxProblems {
			break // each call costs a check
		}
		p.checkCall(&found, i, &d.ToolCalls[i])
	}
	return found.list
}

// wellFormed are the problems that the agent would have with the correction when
// it is sent back, located from the decision on.
func wellFormed(d *protocol.AgentDecision) (list protocol.Problems) {
	for i, call := range d.ToolCalls {
		if !call.Arguments.IsValid() {
			list = append(list, protocol.Problem{Type: protocol.TypeJSONInvalid, Loc: []any{"tool_calls", i, "arguments"}, Msg: "the arguments are not valid JSON, or have a name twice"})
		}
		if !utf8.ValidString(call.Name) || !utf8.ValidString(call.TargetRobotName) {
			list = append(list, protocol.Problem{Type: protocol.TypeString, Loc: []any{"tool_calls", i}, Msg: "name and target_robot_name must be valid UTF-8"})
		}
	}
	if len(list) > 0 {
		return list
	}
	_, err := protocol.DecodeCorrection(correction(d).AppendJSON(nil))
	var found protocol.Problems
	if !errors.As(err, &found) {
		return nil
	}
	for _, problem := range found {
		loc := problem.Loc[1:] // "body"
		if len(loc) > 0 && loc[0] == "decision" {
			loc = loc[1:]
		}
		list = append(list, protocol.Problem{Type: problem.Type, Loc: loc, Msg: problem.Msg})
	}
	return list
}

func (p *Point) checkCall(found *problems, i int, call *protocol.ToolCall) {
	tool, known := p.Tools.Find(call.Name)
	if !known {
		found.add(protocol.TypeValue, p.unknownName("tool", call.Name, p.Tools.Names()), "tool_calls", i, "name")
		return
	}
	robot := call.TargetRobotName
	if len(p.Robots) > 0 && !slices.Contains(p.Robots, robot) {
		found.add(protocol.TypeValue, p.unknownName("robot", robot, p.Robots), "tool_calls", i, "target_robot_name")
		robot = p.Robots[0] // the arguments are looked at all the same
	}
	if _, err := p.Tools.Accept(call.Name, call.Arguments, robot); err != nil {
		found.addArguments(p.quoter, tool, call.Arguments, err, "tool_calls", i, "arguments")
	}
}

// problems collects up to maxProblems problems.
type problems struct{ list protocol.Problems }

func (p *problems) add(typ, msg string, loc ...any) {
	if len(p.list) < maxProblems {
		p.list = append(p.list, protocol.Problem{Type: typ, Loc: loc, Msg: msg})
	}
}

func (p *problems) addAll(list protocol.Problems) {
	p.list = append(p.list, list[:min(len(list), maxProblems-len(p.list))]...)
}

// closest is the only known name that is the same in letters and digits.
func closest(name string, known []string) (found string, ok bool) {
	folded := fold(name)
	for _, k := range known {
		if fold(k) != folded {
			continue
		}
		if ok {
			return "", false
		}
		found, ok = k, true
	}
	return found, ok
}

// fold is the letters and digits of a name, in lower case, without the prefix
// that some models give functions.
func fold(name string) string {
	name = strings.TrimPrefix(strings.ToLower(name), "functions.")
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' || r == '.' {
			return -1
		}
		return r
	}, name)
}

func (t *Task) pointIDs() string {
	if len(t.points) == 0 {
		return "none"
	}
	ids := make([]string, len(t.points))
	for i := range t.points {
		ids[i] = t.points[i].ID
	}
	return t.names(ids)
}
