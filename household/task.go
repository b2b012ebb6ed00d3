package household

import (
	"slices"
	"strings"

	"agentd/protocol"
)

// Patience is the factor of the planner's steps that an agent may take for a task.
const Patience = 2

// Rooms of the house.
func (e *Episode) Rooms() []string { return slices.Clone(e.group.plan.rooms) }

// Robots of the house.
func (e *Episode) Robots() []string { return slices.Clone(e.group.plan.robots) }

// Fork is an independent copy of the episode in its present state.
func (e *Episode) Fork() *Episode {
	f := e.group.Episode(e.index)
	for _, d := range e.past {
		f.Apply(d, e.memory)
	}
	return f
}

// Steps is the number of decisions taken for the present task.
func (e *Episode) Steps() int { return e.steps }

// Planned is the number of the planner's decisions to the end of the task, and the kind
// of the last one.
func (e *Episode) Planned() (steps int, last Kind) {
	f := e.Fork()
	for tasks := f.score.Tasks; f.score.Tasks == tasks && !f.done; steps++ {
		last = f.Kind()
		f.Apply(f.Expected(), f.memory)
	}
	return steps, last
}

// reopen reconsiders goals that were reached, since a later call may have undone them. A
// goal with a later one for the same robot stays reached, because that may have to undo
// it.
func (e *Episode) reopen(calls []protocol.ToolCall) {
	idle := func(c protocol.ToolCall) bool {
		return !slices.ContainsFunc(e.next.actions, func(a action) bool { return a.robot == c.TargetRobotName })
	}
	if !slices.ContainsFunc(calls, idle) {
		return
	}
	for i, g := range e.goals {
		followed := slices.ContainsFunc(e.goals[i+1:], func(later *goal) bool { return later.robot == g.robot })
		if g.kind != told && !followed {
			g.result = ""
		}
	}
}

// Kind classifies the right decision.
type Kind int

// The kinds of decisions.
const (
	FirstCall        Kind = iota // of a task: the robot, the tool and its arguments come from what a person said
	NextCall                     // after a report of what the call before did, or after an answer to a question
	CallAfterFailure             // after a report that it failed
	SeveralCalls                 // of several robots at once
	Question                     // about what nobody said
	Answer                       // to a question
	Refusal                      // with the reason
	Confirmation                 // of what was done or said
	Kinds            int  = iota
)

func (k Kind) String() string {
	return [...]string{
		"first call", "next call", "call after a failure", "calls of several robots", "question", "answer", "refusal", "confirmation",
	}[k]
}

// Kind of the right decision.
func (e *Episode) Kind() Kind {
	switch {
	case len(e.next.actions) > 1:
		return SeveralCalls
	case len(e.next.actions) == 1 && strings.Contains(e.instruction.Content, failed):
		return CallAfterFailure
	case len(e.next.actions) == 1 && e.steps > 0:
		return NextCall
	case len(e.next.actions) == 1:
		return FirstCall
	case e.next.asks != "":
		return Question
	}
	kind := Answer
	for _, g := range e.goals {
		switch {
		case strings.HasPrefix(g.result, cannot):
			return Refusal
		case g.kind == told, strings.HasPrefix(g.result, finished):
			kind = Confirmation
		}
	}
	return kind
}
