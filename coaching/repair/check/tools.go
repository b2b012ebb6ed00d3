package check

import (
	"bytes"
	"fmt"
	"strconv"

	"agentd/agent/tools"
	"agentd/protocol"
)

// toolSets compiles each set of tools once. Points of a trajectory mostly share theirs.
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

// toolsKey identifies a set of tools: its JSON and robot names, each after its length.
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

// usualRobot is the robot that all calls of the trajectory share, else the agent's
// default.
func usualRobot(req *protocol.SpecializedCoachingRequest) string {
	usual := ""
	for i := range req.Trajectory {
		output := req.Trajectory[i].Output
		if output == nil {
			continue
		}
		for _, call := range output.ToolCalls {
			if usual != "" && call.TargetRobotName != usual {
				return DefaultRobot
			}
			usual = call.TargetRobotName
		}
	}
	if usual == "" {
		return DefaultRobot
	}
	return usual
}

// DefaultRobot is the agent's name for a robot that nobody named.
const DefaultRobot = "robot"
