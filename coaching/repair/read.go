package repair

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/tools"
	"agentd/protocol"
)

// Outcomes of an answer.
const (
	outcomeCorrected = "corrected"
	outcomeAbandoned = "abandoned"
)

// Names of an answer's members, ours first.
var (
	outcomeNames = []string{"outcome", "status"}
	whyNames     = []string{"why", "reason", "explanation"}
	pointNames   = []string{"reinjection_point_id", "reinjection_point", "point_id", "point"}
)

// noReason stands for the reason of a coach that declined without one.
const noReason = "the coach declined and gave no reason"

// answer is a coach's or a person's answer: read, but not checked.
type answer struct {
	abandoned bool
	why       string
	point     string // "" where none was named
	decision  written
}

// Read reads a model's answer: the JSON it was asked for, also fenced, with text
// around it, or nearly JSON. The error tells the coach what to write instead.
func (t *Task) Read(text string) (*Verdict, error) {
	text = behindThoughts(text)
	if err := checkThoughts(text); err != nil {
		return nil, err
	}
	a, err := newReader(t.quoter).findAnswer(text)
	if err != nil {
		return nil, err
	}
	if a.abandoned {
		return declined(a.why), nil
	}
	p, err := t.pointOf(a.point)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fmt.Errorf("reinjection_point_id is missing; write one of %s", t.pointIDs())
	}
	d, err := p.decide(a.decision)
	if err != nil {
		return nil, err
	}
	if found := p.check(d); len(found) > 0 {
		return nil, invalidDecision(found)
	}
	if t.repeats(p, d) {
		return nil, errors.New("this is the very decision that the agent took at this point; write a better one, choose an earlier point, or abandon")
	}
	return &Verdict{Corrected: true, Why: a.why, Proposals: []protocol.CoachingProposal{t.Proposal(p.ID, d)}}, nil
}

// ReadHuman reads the output of a person's answer: {"say", "action"}, a
// decision, a list of calls or the answer of a model, each of the objects with
// or without reinjection_point_id. Without one the decision is proposed at every
// point where it is valid, first at the target step.
func (t *Task) ReadHuman(output string) (*Verdict, error) {
	a, err := newReader(t.quoter).findAnswer(output)
	if err != nil {
		return nil, err
	}
	if a.abandoned {
		return declined(a.why), nil
	}
	named, err := t.pointOf(a.point)
	if err != nil {
		return nil, err
	}
	points := []*Point{named}
	if named == nil {
		points = t.targetFirst()
	}
	if len(points) == 0 {
		return nil, errors.New("the request has no reinjection points")
	}
	proposals, err := t.propose(points, func(p *Point) (*protocol.AgentDecision, error) { return p.decide(a.decision) })
	if len(proposals) == 0 {
		return nil, fmt.Errorf("at the point %s: %w", t.quote(points[0].ID), err)
	}
	return &Verdict{Corrected: true, Why: a.why, Proposals: proposals}, nil
}

// propose makes and checks a decision at each of some points, and proposes it
// where it is valid, within bounds. The error is that of the first point.
func (t *Task) propose(points []*Point, decide func(*Point) (*protocol.AgentDecision, error)) (proposals []protocol.CoachingProposal, first error) {
	made := make(map[*tools.Set]protocol.Raw) // points with the same tools and robots come to the same decision
	left := maxProposalBytes
	for i, p := range points {
		correct, known := made[p.Tools]
		if !known {
			if len(made) == maxProposalSets {
				continue
			}
			d, err := decide(p)
			if err == nil {
				if found := p.check(d); len(found) > 0 {
					err = invalidDecision(found)
				}
			}
			if err == nil {
				correct = correction(d).AppendJSON(nil)
			} else if i == 0 {
				first = err
			}
			made[p.Tools] = correct
		}
		if correct == nil {
			continue
		}
		if left -= len(correct); len(proposals) > 0 && (len(proposals) == maxProposals || left < 0) {
			break
		}
		proposals = append(proposals, protocol.CoachingProposal{ReinjectionPointID: p.ID, ExtraKeys: correct})
	}
	return proposals, first
}

func declined(why string) *Verdict {
	if strings.TrimSpace(why) == "" {
		why = noReason
	}
	return &Verdict{Why: why}
}

// targetFirst are all points, those of the target step first.
func (t *Task) targetFirst() []*Point {
	points := make([]*Point, len(t.points))
	for i := range t.points {
		points[i] = &t.points[i]
	}
	slices.SortStableFunc(points, func(a, b *Point) int {
		switch isA, isB := t.atTarget(a), t.atTarget(b); {
		case isA == isB:
			return 0
		case isA:
			return -1
		default:
			return 1
		}
	})
	return points
}

// atTarget tells whether a correction at the point takes the place of the target
// step's decision.
func (t *Task) atTarget(p *Point) bool { return p.at(t.step()) }

// at tells whether a correction at the point takes the place of a step's decision.
func (p *Point) at(step *protocol.TrajectoryStep) bool {
	if p.StepID != nil {
		return *p.StepID == step.ID
	}
	return sameTurn(p.Input, &step.Input)
}

// sameTurn tells whether two inputs ask for the same turn of a conversation.
func sameTurn(a, b *protocol.AgentInput) bool {
	return a.Instruction == b.Instruction && string(a.Memory) == string(b.Memory)
}

func (t *Task) step() *protocol.TrajectoryStep { return &t.req.Trajectory[t.target] }

// pointOf is the point that an answer names; nil when it names none and there
// are several. The number of a step stands for the only point before that step.
func (t *Task) pointOf(name string) (*Point, error) {
	if p, ok := t.byID[name]; ok {
		return p, nil
	}
	trimmed := strings.TrimSpace(name)
	if p, ok := t.byID[trimmed]; ok {
		return p, nil
	}
	if trimmed == "" {
		if len(t.points) == 1 {
			return &t.points[0], nil
		}
		return nil, nil
	}
	if step, err := strconv.ParseInt(trimmed, 10, 64); err == nil {
		var found []*Point
		for i := range t.points {
			if id := t.points[i].StepID; id != nil && *id == step {
				found = append(found, &t.points[i])
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	return nil, fmt.Errorf("reinjection_point_id: %s is not one of the reinjection points; they are %s", t.quote(name), t.pointIDs())
}

// repeats tells whether a decision is the one that the agent took at the point:
// after it all would go as it went. The target of the kind format has no decision to
// repeat, or one that was made of an output nobody could read.
func (t *Task) repeats(p *Point, d *protocol.AgentDecision) bool {
	written := canonical(d)
	for i := range t.req.Trajectory {
		step := &t.req.Trajectory[i]
		unread := i == t.target && t.req.Kind == protocol.CoachingFormat
		if step.Output != nil && !unread && p.at(step) && string(canonical(step.Output)) == string(written) {
			return true
		}
	}
	return false
}

// canonical is a decision such that equal ones have the same bytes: names
// sorted, numbers as they are.
func canonical(d *protocol.AgentDecision) protocol.Raw {
	v := protocol.Raw(d.AppendJSON(nil))
	if err := v.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return protocol.Raw(d.AppendJSON(nil))
	}
	return v
}

func invalidDecision(found protocol.Problems) error {
	lines := make([]string, len(found))
	for i, p := range found {
		lines[i] = strings.TrimPrefix(p.String(), ": ") // when it is the whole decision's
	}
	return errors.New("the decision is invalid: " + strings.Join(lines, "\n"))
}

// findAnswer finds the answer in what was written. JSON goes before near-JSON,
// and what has an answer's members before other JSON.
func (r *reader) findAnswer(text string) (*answer, error) {
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("the answer has %d bytes, but at most %d are read; write the JSON object alone", len(text), maxAnswer)
	}
	if v, ok := wrapped(text); ok {
		return r.readAnswer(v)
	}
	candidates := jsonTexts(text)
	var other protocol.Raw
	for _, parse := range []func(string) (protocol.Raw, error){parseStrict, r.parse} {
		for _, candidate := range candidates {
			v, err := parse(candidate)
			switch {
			case err != nil:
			case isAnswer(v):
				return r.readAnswer(v)
			case other == nil && (v.Kind() == '[' || len(v) > len("{}")):
				other = v
			}
		}
		if other != nil {
			return r.readAnswer(other)
		}
	}
	if text = strings.TrimSpace(text); strings.HasPrefix(text, `"`) {
		if v, err := parseStrict(text); err == nil {
			return r.readAnswer(v)
		}
	}
	if len(candidates) == 0 {
		return nil, errors.New(`the answer holds no JSON; write one JSON object, for a text {"say": "..."} as its decision`)
	}
	_, err := r.parse(candidates[0])
	if err == nil {
		err = errors.New("it is empty")
	}
	return nil, fmt.Errorf("the answer can't be read: %w", err)
}

// wrapped is the answer that a JSON string or a list of one holds, as models write that encode
// what they write once more.
func wrapped(text string) (protocol.Raw, bool) {
	v, err := parseStrict(unfenced(strings.TrimSpace(text)))
	for layer := 0; err == nil && layer < 3; layer++ {
		switch v.Kind() {
		case '{':
			return v, layer > 0 && isAnswer(v)
		case '"':
			inner, _ := protocol.Text(v)
			v, err = parseStrict(strings.TrimSpace(inner))
		case '[':
			list := slices.Collect(protocol.Elements(v))
			if len(list) != 1 {
				return nil, false
			}
			v = list[0]
		default:
			return nil, false
		}
	}
	return nil, false
}

func isAnswer(v protocol.Raw) bool {
	if v.Kind() != '{' {
		return false
	}
	_, decides := protocol.Get(v, "decision")
	_, ends := member(v, outcomeNames)
	return decides || ends
}

func (r *reader) readAnswer(v protocol.Raw) (*answer, error) {
	a := new(answer)
	if v.Kind() != '{' {
		var err error
		a.decision, err = r.readDecision(v)
		return a, err
	}
	if outcome, ok := member(v, outcomeNames); ok {
		text, _ := protocol.Text(outcome)
		switch strings.ToLower(strings.TrimSpace(text)) {
		case outcomeCorrected:
		case outcomeAbandoned, "abandon", "declined":
			a.abandoned = true
		default:
			return nil, fmt.Errorf("outcome must be %q or %q, not %s", outcomeCorrected, outcomeAbandoned, r.quote(string(outcome)))
		}
	}
	if why, ok := member(v, whyNames); ok {
		text, _ := protocol.Text(why)
		a.why = r.clip(strings.TrimSpace(text), maxWhy)
	}
	if a.abandoned {
		return a, nil
	}
	if point, ok := member(v, pointNames); ok {
		if a.point, ok = protocol.Text(point); !ok {
			a.point = string(point) // the number of a step
		}
	}
	decision, ok := protocol.Get(v, "decision")
	if !ok {
		decision = v
		for _, name := range slices.Concat(outcomeNames, whyNames, pointNames) {
			decision = protocol.DeleteMember(decision, name)
		}
	}
	var err error
	a.decision, err = r.readDecision(decision)
	return a, err
}
