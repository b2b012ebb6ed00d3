// Package repair reads the answers of coaches and turns them into proposals. A [Case] is one
// coaching request:
//
//   - [Case.WithoutModel] rewrites an output that could not be read (kind format), if
//     it holds one complete and unambiguous decision in another notation.
//   - [Case.Read] reads a model's answer, and [Case.ReadHuman] a person's.
//   - [Point.Check] decides strictly whether a decision is valid at a point: its tools and
//     robots are known there and its arguments match.
//
// Package prompt, above this one, writes the questions. Package parse, below it, reads answers
// in any notation. All of them are pure: no network, no clock, no randomness. The size of the
// input and constants bound the work.
//
// Each file uses only files after it: verdict.go, rewrite.go, check.go, case.go, limits.go.
package repair

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/tools"
	"agentd/coaching/repair/parse"
	"agentd/protocol"
)

// Verdict is a coach's decision.
type Verdict struct {
	Corrected bool   // there are proposals; else the coach declined
	Why       string // the coach's reason
	Proposals []protocol.CoachingProposal
}

// noReason is the reason of a coach that declined without one.
const noReason = "the coach declined and gave no reason"

// Bounds of the proposals that one decision becomes: their number, their bytes
// together, and the different sets of tools it is checked against.
const (
	maxProposals     = 100
	maxProposalBytes = 4 << 20
	maxProposalSets  = 8
)

// Read reads a model's answer; see [parse.ModelAnswer]. The error says what the
// model should write instead.
func (c *Case) Read(text string) (*Verdict, error) {
	a, err := parse.ModelAnswer(text, c.Quoter)
	if err != nil {
		return nil, err
	}
	if a.Abandoned {
		return declined(a.Why), nil
	}
	p, err := c.PointOf(a.Point)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fmt.Errorf("reinjection_point_id is missing; write one of %s", c.PointIDs())
	}
	d, err := p.Decide(a.Decision)
	if err != nil {
		return nil, err
	}
	if found := p.Check(d); len(found) > 0 {
		return nil, invalidDecision(found)
	}
	if c.Repeats(p, d) {
		return nil, errors.New("this is the very decision that the agent took at this point; write a better one, choose an earlier point, or abandon")
	}
	proposal := protocol.CoachingProposal{ReinjectionPointID: p.ID, ExtraKeys: protocol.CorrectionTo(d).AppendJSON(nil)}
	return &Verdict{Corrected: true, Why: a.Why, Proposals: []protocol.CoachingProposal{proposal}}, nil
}

// ReadHuman reads the output of a person's answer: {"say", "action"}, a decision, a
// list of calls, or the answer of a model. Objects may have a reinjection_point_id.
// Without one the decision is proposed at every point where it is valid, first at the
// target step.
func (c *Case) ReadHuman(output string) (*Verdict, error) {
	a, err := parse.HumanAnswer(output, c.Quoter)
	if err != nil {
		return nil, err
	}
	if a.Abandoned {
		return declined(a.Why), nil
	}
	named, err := c.PointOf(a.Point)
	if err != nil {
		return nil, err
	}
	points := []*Point{named}
	if named == nil {
		points = c.TargetFirst()
	}
	if len(points) == 0 {
		return nil, errors.New("the request has no reinjection points")
	}
	proposals, err := propose(points, func(p *Point) (*protocol.AgentDecision, error) { return p.Decide(a.Decision) })
	if len(proposals) == 0 {
		return nil, fmt.Errorf("at the point %s: %w", c.Quote(points[0].ID), err)
	}
	return &Verdict{Corrected: true, Why: a.Why, Proposals: proposals}, nil
}

// propose makes and checks a decision at each point and proposes it where it is valid,
// within bounds. The error is that of the first point.
func propose(points []*Point, decide func(*Point) (*protocol.AgentDecision, error)) (proposals []protocol.CoachingProposal, first error) {
	made := make(map[*tools.Set]protocol.Raw) // points with the same tools and robots get the same decision
	left := maxProposalBytes
	for i, p := range points {
		correct, known := made[p.Tools]
		if !known {
			if len(made) == maxProposalSets {
				continue
			}
			d, err := decide(p)
			if err == nil {
				if found := p.Check(d); len(found) > 0 {
					err = invalidDecision(found)
				}
			}
			if err == nil {
				correct = protocol.CorrectionTo(d).AppendJSON(nil)
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

func invalidDecision(found protocol.Problems) error {
	lines := make([]string, len(found))
	for i, p := range found {
		lines[i] = strings.TrimPrefix(p.String(), ": ") // of the whole decision
	}
	return errors.New("the decision is invalid: " + strings.Join(lines, "\n"))
}

// WithoutModel rewrites the raw output of the target step without asking a coach, for requests
// of kind format only. The error is the reason why that is not possible.
//
// It changes the notation of a decision and never its meaning. A coach has to judge an
// output that is ambiguous, cut off within a value, or has a question beside its
// calls. Other text beside calls is dropped if every call is complete and valid.
func (c *Case) WithoutModel() (*Verdict, error) {
	if c.Request.Kind != protocol.CoachingFormat {
		return nil, errors.New("only an output that could not be read is repaired without a coach")
	}
	text, isOutput := c.RawOutput()
	if text == "" {
		return nil, errors.New("the target step has no raw output")
	}
	if e := c.Step().Error; e != nil && e.Code == codeTruncated {
		return nil, errors.New("the raw output was cut off at the token limit")
	}
	out, err := parse.RawOutput(text, c.Quoter)
	if err != nil {
		return nil, err
	}
	there := slices.DeleteFunc(slices.Clone(c.Points), func(p *Point) bool { return !c.AtTarget(p) })
	if len(there) == 0 {
		return nil, errors.New("no reinjection point is at the target step")
	}
	proposals, err := propose(there, func(p *Point) (*protocol.AgentDecision, error) { return p.Rewrite(out, isOutput) })
	if len(proposals) == 0 {
		return nil, err
	}
	const why = "The output held a complete decision in another notation; it was rewritten without a coach."
	return &Verdict{Corrected: true, Why: why, Proposals: proposals}, nil
}

// codeTruncated is the agent's code for an output that reached the token limit.
const codeTruncated = "truncated"
