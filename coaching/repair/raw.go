package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentd/agent/tools"
	"agentd/protocol"
)

// WithoutModel repairs the raw output of the target step without asking anyone;
// for requests of kind format only. The error says why that is not possible.
//
// It changes how a decision is written, never what was decided: an output that
// can be understood in two ways, that was cut off within a value, or that has a
// question beside its calls is left to a coach. Other text beside calls is
// dropped when every call is complete and valid.
func (t *Task) WithoutModel() (*Verdict, error) {
	if t.req.Kind != protocol.CoachingFormat {
		return nil, errors.New("only an output that could not be read is repaired without a coach")
	}
	text, isOutput := t.rawOutput()
	if text == "" {
		return nil, errors.New("the target step has no raw output")
	}
	out, err := t.readRaw(text)
	if err != nil {
		return nil, err
	}
	var there []*Point
	for i := range t.points {
		if t.atTarget(&t.points[i]) {
			there = append(there, &t.points[i])
		}
	}
	if len(there) == 0 {
		return nil, errors.New("no reinjection point is at the target step")
	}
	proposals, err := t.propose(there, func(p *Point) (*protocol.AgentDecision, error) { return p.repair(out, isOutput) })
	if len(proposals) == 0 {
		return nil, err
	}
	const why = "The output held a complete decision in another notation; it was rewritten without a coach."
	return &Verdict{Corrected: true, Why: why, Proposals: proposals}, nil
}

// rawOutput is what the model wrote in the target step: the raw output of its
// last internal step that is a model's, else the text of the error, which may
// quote it.
func (t *Task) rawOutput() (text string, isOutput bool) {
	step := t.step()
	if text, ok := rawOutputOf(step); ok {
		return text, true
	}
	if step.Error != nil {
		return step.Error.Message, false
	}
	return "", false
}

// rawOutputOf is the raw output of a step's last internal step that is a model's
// and has one.
func rawOutputOf(step *protocol.TrajectoryStep) (text string, ok bool) {
	for i := len(step.InternalSteps) - 1; i >= 0; i-- {
		origin, _ := protocol.Get(step.InternalSteps[i], "origin")
		if name, ok := protocol.Text(origin); ok && name != protocol.OriginModel {
			continue
		}
		raw, _ := protocol.Get(step.InternalSteps[i], "output_raw")
		if text, _ := protocol.Text(raw); strings.TrimSpace(text) != "" {
			return text, true
		}
	}
	return "", false
}

// codeTruncated is the agent's code for an output that reached the token limit.
const codeTruncated = "truncated"

// readRaw reads the raw output of the target step.
func (t *Task) readRaw(text string) (output, error) {
	switch e := t.step().Error; {
	case len(text) > maxAnswer:
		return output{}, fmt.Errorf("the raw output has more than %d bytes", maxAnswer)
	case e != nil && e.Code == codeTruncated:
		return output{}, errors.New("the raw output was cut off at the token limit")
	}
	return newReader(t.quoter).readOutput(text)
}

// repair makes the point's decision of a raw output; it is not checked.
func (p *Point) repair(out output, isOutput bool) (*protocol.AgentDecision, error) {
	if len(out.calls) > 0 {
		return p.repairCalls(out)
	}
	return p.repairText(out, isOutput)
}

func (p *Point) repairCalls(out output) (*protocol.AgentDecision, error) {
	switch beside := strings.TrimSpace(out.beside + out.say); {
	case strings.ContainsAny(beside, "?？"):
		return nil, fmt.Errorf("beside its calls the output has a question: %s", p.quote(beside))
	case strings.ContainsAny(out.beside, "<>{}[]|"):
		return nil, fmt.Errorf("beside its calls the output has what may be another one: %s", p.quote(beside))
	}
	w := written{calls: slices.Clone(out.calls)}
	for i := range w.calls {
		p.mend(&w.calls[i])
	}
	return p.decide(w)
}

// repairText takes what stands in say. Text by itself is a reply only when
// nothing in it looks like an attempt to act.
func (p *Point) repairText(out output, isOutput bool) (*protocol.AgentDecision, error) {
	if say := strings.TrimSpace(out.say); say != "" {
		return &protocol.AgentDecision{Say: say}, nil
	}
	reply := strings.TrimSpace(out.beside)
	switch {
	case reply == "":
		return nil, errors.New("the raw output has neither a reply nor a tool call")
	case !isOutput:
		return nil, errors.New("the step has no raw output, and its error quotes no decision")
	case strings.ContainsAny(reply, "<>{}[]|`"):
		return nil, errors.New("the raw output is neither a clean reply nor a complete call")
	case p.Tools == nil:
		return nil, errors.New("the tools are unusable, so that a reply can't be told from an attempt to call one")
	}
	for _, name := range p.Tools.Names() {
		if strings.Contains(fold(reply), fold(name)) {
			return nil, fmt.Errorf("the raw output is text that mentions the tool %s: it may be a reply or an attempt to call it", p.quote(name))
		}
	}
	return &protocol.AgentDecision{Say: reply}, nil
}

// mend writes a call as the tools expect it where there is only one way to: the
// name of the tool and the robot in their own letters, arguments in the types of
// their schemas.
func (p *Point) mend(call *writtenCall) {
	if p.Tools == nil {
		return
	}
	if _, known := p.Tools.Find(call.name); !known {
		if meant, ok := closest(call.name, p.Tools.Names()); ok {
			call.name = meant
		}
	}
	p.liftRobot(call)
	if meant, ok := closest(call.robot, p.Robots); ok && call.robot != "" {
		call.robot = meant
	}
	tool, known := p.Tools.Find(call.name)
	if !known {
		return
	}
	for _, property := range tool.Properties {
		if v, ok := protocol.Get(call.arguments, property.Name); ok {
			call.arguments = protocol.SetMember(call.arguments, property.Name, mendValue(property, v, call.tagged))
		}
	}
}

// mendValue writes a value in the type that its schema names, if it names one
// and the value can be read as one. Else the value stays, for the check to judge;
// from tags, where all is text, JSON of an object or a list becomes one.
func mendValue(property tools.Property, v protocol.Raw, tagged bool) protocol.Raw {
	typ, _ := protocol.Get(property.Schema, "type")
	want, _ := protocol.Text(typ)
	text, isText := protocol.Text(v)
	if want == "" && tagged {
		want = "object"
	}
	switch want {
	case "string":
		if kind := v.Kind(); kind == '0' || kind == 't' || kind == 'f' {
			return protocol.String(string(v))
		}
	case "integer", "number":
		if _, err := strconv.ParseFloat(text, 64); isText && err == nil && json.Valid([]byte(text)) {
			return protocol.Raw(text)
		}
	case "boolean":
		if lower := strings.ToLower(text); isText && (lower == "true" || lower == "false") {
			return protocol.Raw(lower)
		}
	case "object", "array":
		if inner, err := parseStrict(text); isText && err == nil && (inner.Kind() == '{' || inner.Kind() == '[') {
			return inner
		}
	}
	return v
}
