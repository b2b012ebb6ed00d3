package repair

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"agentd/agent/tools"
	"agentd/protocol"
)

// Task is one coaching request with its tools made usable. It never changes
// after NewTask and may be used by any number of goroutines.
type Task struct {
	quoter
	req    *protocol.SpecializedCoachingRequest
	points []Point
	byID   map[string]*Point
	target int           // index of the target step in the trajectory
	steps  map[int64]int // step id to its index in the trajectory
}

// Point is a reinjection point with the input that a correction would answer.
type Point struct {
	quoter
	ID     string
	StepID *int64 // the step whose input it is, nil for an explicit input
	Input  *protocol.AgentInput
	// Tools are nil when they are unusable; then ToolsErr says why and only a
	// text can be proposed here.
	Tools    *tools.Set
	ToolsErr error
	Robots   []string // the known robots, empty when the input names none

	usual string // the robot of a call that names none, where no several are known
}

// NewTask prepares a request that was decoded, and so is valid.
func NewTask(req *protocol.SpecializedCoachingRequest) *Task {
	t := &Task{
		req:    req,
		points: make([]Point, len(req.ReinjectionPoints)),
		byID:   make(map[string]*Point, len(req.ReinjectionPoints)),
		steps:  make(map[int64]int, len(req.Trajectory)),
	}
	for i := range req.Trajectory {
		t.steps[req.Trajectory[i].ID] = i
	}
	t.target = t.steps[req.TargetStepID]
	sets := toolSets{robot: usualRobot(req), made: make(map[string]toolSet)}
	ofInput := make(map[*protocol.AgentInput]Point) // a step's input may be that of very many points
	for i := range req.ReinjectionPoints {
		t.points[i] = t.point(&req.ReinjectionPoints[i], &sets, ofInput)
		t.byID[t.points[i].ID] = &t.points[i]
	}
	return t
}

func (t *Task) point(given *protocol.ReinjectionPoint, sets *toolSets, ofInput map[*protocol.AgentInput]Point) Point {
	input := given.Input
	if given.InputStepID != nil {
		input = &t.req.Trajectory[t.steps[*given.InputStepID]].Input
	}
	p, made := ofInput[input]
	if !made {
		p = newPoint(input, sets)
		ofInput[input] = p
	}
	p.ID, p.StepID = given.ID, given.InputStepID
	return p
}

// newPoint is a point with an input, as yet without a name.
func newPoint(input *protocol.AgentInput, sets *toolSets) Point {
	p := Point{Input: input}
	p.Robots = tools.KnownRobots(p.Input.Attributes)
	p.usual = sets.robot
	if len(p.Robots) == 1 {
		p.usual = p.Robots[0]
	}
	p.Tools, p.ToolsErr = sets.of(p.Input.Tools, p.Robots)
	return p
}

// Hiding is the same task, with errors and reasons that quote no keys. Decisions keep
// every text as it is. A coach must not be told the errors: what is hidden may be a
// name that it should have written.
func (t *Task) Hiding(keys Redactor) *Task {
	hiding := *t
	hiding.keys = keys
	hiding.points = slices.Clone(t.points)
	hiding.byID = make(map[string]*Point, len(t.points))
	for i := range hiding.points {
		p := &hiding.points[i]
		p.keys = keys
		hiding.byID[p.ID] = p
	}
	return &hiding
}

// Points are the reinjection points in the order of the request.
func (t *Task) Points() []Point { return t.points }

// toolSets makes each set of tools once: points along a trajectory nearly always
// share theirs.
type toolSets struct {
	robot string // default target of calls
	made  map[string]toolSet
	bytes int
	cost  int // schemas
}

type toolSet struct {
	set *tools.Set
	err error
}

func (s *toolSets) of(raw []protocol.Raw, robots []string) (*tools.Set, error) {
	key := toolsKey(raw, robots)
	if made, ok := s.made[key]; ok {
		return made.set, made.err
	}
	cost := tools.Subschemas(raw)
	if len(s.made) >= maxToolSets || s.bytes+len(key) > maxToolSetBytes || s.cost+cost > maxToolSchemas {
		return nil, fmt.Errorf("the request has more than %d different sets of tools, or more than %d bytes or %d schemas in them", maxToolSets, maxToolSetBytes, maxToolSchemas)
	}
	s.bytes += len(key)
	s.cost += cost
	var made toolSet
	made.set, made.err = tools.Normalise(raw, robots, s.robot)
	s.made[key] = made
	return made.set, made.err
}

// toolsKey tells sets of tools apart: JSON and robots' names, each behind its
// length.
func toolsKey(raw []protocol.Raw, robots []string) string {
	var key bytes.Buffer
	write := func(s string) {
		key.WriteString(strconv.Itoa(len(s)))
		key.WriteByte(':')
		key.WriteString(s)
	}
	for _, r := range raw {
		write(string(r))
	}
	key.WriteByte('|')
	for _, r := range robots {
		write(r)
	}
	return key.String()
}

// usualRobot is the robot of every call of the trajectory when they have one in
// common, else the name that the agent gives a robot nobody named.
func usualRobot(req *protocol.SpecializedCoachingRequest) string {
	usual := ""
	for i := range req.Trajectory {
		output := req.Trajectory[i].Output
		if output == nil {
			continue
		}
		for _, call := range output.ToolCalls {
			if usual != "" && call.TargetRobotName != usual {
				return defaultRobot
			}
			usual = call.TargetRobotName
		}
	}
	if usual == "" {
		return defaultRobot
	}
	return usual
}

// defaultRobot is the agent's own default.
const defaultRobot = "robot"
