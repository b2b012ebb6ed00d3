package check

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"agentd/agent/tools"
	"agentd/protocol"
)

// toolSets compiles each set of tools once. Points of a trajectory mostly share theirs.
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

// toolsKey identifies a set of tools: its JSON and robot names, each after its length.
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

// usualRobot is the robot that all calls of the trajectory share, else the agent's
// default.
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

// DefaultRobot is the agent's name for a robot that nobody named.
const DefaultRobot = "robot"
