package repair

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"agentd/agent/tools"
	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

// Case is one coaching request with its points and their compiled tools. It is immutable, and safe for concurrent use.
type Case struct {
	quote.Quoter
	Request *protocol.SpecializedCoachingRequest
	Points  []*Point // in the order of the request
	Target  int      // index of the target step in the trajectory
	byID    map[string]*Point
	steps   map[int64]int // step id to its index in the trajectory
}

// Point is a reinjection point with the input that a correction would answer.
type Point struct {
	quote.Quoter
	ID     string
	StepID *int64 // the step with this input; nil for an explicit input
	Input  *protocol.AgentInput
	// Tools is nil if the tools are unusable. Then ToolsErr has the reason, and only a text can be proposed here.
	Tools    *tools.Set
	ToolsErr error
	Robots   []string // the known robots, empty if the input names none

	// DefaultRobot is the robot of a call without a robot, unless several are known.
	DefaultRobot string
}

// NewCase prepares a decoded request.
func NewCase(req *protocol.SpecializedCoachingRequest) *Case {
	c := &Case{
		Request: req,
		Points:  make([]*Point, len(req.ReinjectionPoints)),
		byID:    make(map[string]*Point, len(req.ReinjectionPoints)),
		steps:   make(map[int64]int, len(req.Trajectory)),
	}
	for i := range req.Trajectory {
		c.steps[req.Trajectory[i].ID] = i
	}
	c.Target = c.steps[req.TargetStepID]
	sets := toolSets{robot: usualRobot(req), made: make(map[string]func() (*tools.Set, error))}
	ofInput := make(map[*protocol.AgentInput]Point) // many points may share a step's input
	for i := range req.ReinjectionPoints {
		c.Points[i] = c.point(&req.ReinjectionPoints[i], &sets, ofInput)
		c.byID[c.Points[i].ID] = c.Points[i]
	}
	return c
}

func (c *Case) point(given *protocol.ReinjectionPoint, sets *toolSets, ofInput map[*protocol.AgentInput]Point) *Point {
	input := given.Input
	if given.InputStepID != nil {
		input = &c.Request.Trajectory[c.steps[*given.InputStepID]].Input
	}
	p, made := ofInput[input]
	if !made {
		p = Point{Input: input, Robots: tools.KnownRobots(input.Attributes), DefaultRobot: sets.robot}
		if len(p.Robots) == 1 {
			p.DefaultRobot = p.Robots[0]
		}
		p.Tools, p.ToolsErr = sets.of(input.Tools, p.Robots)
		ofInput[input] = p
	}
	p.ID, p.StepID = given.ID, given.InputStepID
	return &p
}

// Redacted returns the case with keys removed from errors and reasons. Decisions are not changed. The coach itself gets
// errors of the original case, since a removed text may be a name that it has to write.
func (c *Case) Redacted(keys *quote.Redactor) *Case {
	redacted := *c
	redacted.Keys = keys
	redacted.Points = make([]*Point, len(c.Points))
	redacted.byID = make(map[string]*Point, len(c.Points))
	for i, p := range c.Points {
		point := *p
		point.Keys = keys
		redacted.Points[i], redacted.byID[p.ID] = &point, &point
	}
	return &redacted
}

// TargetFirst returns all points, the target step's first.
func (c *Case) TargetFirst() []*Point {
	at := slices.DeleteFunc(slices.Clone(c.Points), func(p *Point) bool { return !c.AtTarget(p) })
	return append(at, slices.DeleteFunc(slices.Clone(c.Points), c.AtTarget)...)
}

// AtTarget reports whether a correction at the point replaces the target step's
// decision.
func (c *Case) AtTarget(p *Point) bool { return p.at(c.Step()) }

// at reports whether a correction at the point replaces a step's decision.
func (p *Point) at(step *protocol.TrajectoryStep) bool {
	if p.StepID != nil {
		return *p.StepID == step.ID
	}
	return SameTurn(p.Input, &step.Input)
}

// SameTurn reports whether two inputs ask for the same turn of a conversation.
func SameTurn(a, b *protocol.AgentInput) bool {
	return a.Instruction == b.Instruction && string(a.Memory) == string(b.Memory)
}

// StepIndex returns the index of a step in the trajectory.
func (c *Case) StepIndex(id int64) int { return c.steps[id] }

// Step returns the target step.
func (c *Case) Step() *protocol.TrajectoryStep { return &c.Request.Trajectory[c.Target] }

// PointOf returns the point that an answer names. It is nil if name is "" and there are several. The
// number of a step also names the only point at that step.
func (c *Case) PointOf(name string) (*Point, error) {
	trimmed := strings.TrimSpace(name)
	if p := cmp.Or(c.byID[name], c.byID[trimmed]); p != nil {
		return p, nil
	}
	candidates := c.Points
	if trimmed != "" {
		step, err := strconv.ParseInt(trimmed, 10, 64)
		candidates = slices.DeleteFunc(slices.Clone(c.Points), func(p *Point) bool {
			return err != nil || p.StepID == nil || *p.StepID != step
		})
	}
	if len(candidates) == 1 {
		return candidates[0], nil
	}
	if trimmed == "" {
		return nil, nil
	}
	return nil, fmt.Errorf("reinjection_point_id: %s is not one of the reinjection points; they are %s", c.Quote(name), c.PointIDs())
}

// Repeats reports whether the agent made the same decision at the point. It is false for the target of
// the kind format, whose decision can't be read.
func (c *Case) Repeats(p *Point, d *protocol.AgentDecision) bool {
	own := decisionKey(d)
	for i := range c.Request.Trajectory {
		step := &c.Request.Trajectory[i]
		unread := i == c.Target && c.Request.Kind == protocol.CoachingFormat
		if step.Output != nil && !unread && p.at(step) && decisionKey(step.Output) == own {
			return true
		}
	}
	return false
}

// decisionKey is [tools.DecisionKey] without spaces around the text.
func decisionKey(d *protocol.AgentDecision) string {
	trimmed := *d
	trimmed.Say = strings.TrimSpace(d.Say)
	return tools.DecisionKey(&trimmed)
}

// RawOutput returns the target step's raw output; without one, the text of its error, which may quote it.
func (c *Case) RawOutput() (text string, isOutput bool) {
	step := c.Step()
	text, isOutput = RawOutputOf(step)
	if !isOutput && step.Error != nil {
		text = step.Error.Message
	}
	return text, isOutput
}

// RawOutputOf returns the raw output of the last internal step of a model that has one.
func RawOutputOf(step *protocol.TrajectoryStep) (text string, ok bool) {
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

// PointIDs returns a list of the IDs of all points, for a message.
func (c *Case) PointIDs() string {
	if len(c.Points) == 0 {
		return "none"
	}
	return c.Names(IDs(c.Points))
}

// IDs returns the IDs of points.
func IDs(points []*Point) []string {
	ids := make([]string, len(points))
	for i, p := range points {
		ids[i] = p.ID
	}
	return ids
}

// toolSets compiles each set of tools once, since most points share their tools.
type toolSets struct {
	robot string // default target of calls
	made  map[string]func() (*tools.Set, error)
	bytes int
	cost  int // schemas
}

func (s *toolSets) of(raw []protocol.Raw, robots []string) (*tools.Set, error) {
	key := toolsKey(raw, robots)
	if made, ok := s.made[key]; ok {
		return made()
	}
	cost := tools.Subschemas(raw)
	if len(s.made) >= maxToolSets || s.bytes+len(key) > maxToolSetBytes || s.cost+cost > maxToolSchemas {
		return nil, fmt.Errorf("the request has more than %d different sets of tools, or more than %d bytes or %d schemas in them", maxToolSets, maxToolSetBytes, maxToolSchemas)
	}
	s.bytes += len(key)
	s.cost += cost
	s.made[key] = sync.OnceValues(func() (*tools.Set, error) { return tools.Normalise(raw, robots, s.robot) })
	return s.made[key]()
}

// toolsKey returns the key of a set of tools: its JSON and robot names, each after its length.
func toolsKey(raw []protocol.Raw, robots []string) string {
	var key strings.Builder
	for _, r := range raw {
		fmt.Fprintf(&key, "%d:%s", len(r), r)
	}
	key.WriteByte('|')
	for _, r := range robots {
		fmt.Fprintf(&key, "%d:%s", len(r), r)
	}
	return key.String()
}

// usualRobot returns the robot that all calls of the trajectory share, otherwise DefaultRobot.
func usualRobot(req *protocol.SpecializedCoachingRequest) string {
	usual := ""
	for i := range req.Trajectory {
		output := cmp.Or(req.Trajectory[i].Output, &protocol.AgentDecision{})
		for _, call := range output.ToolCalls {
			if usual != "" && call.TargetRobotName != usual {
				return DefaultRobot
			}
			usual = call.TargetRobotName
		}
	}
	return cmp.Or(usual, DefaultRobot)
}

// DefaultRobot is the agent's default name of a robot.
const DefaultRobot = "robot"
