package console

import (
	"errors"
	"slices"
	"strings"

	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/coaching/repair"
	"agentd/internal/base/clip"
	"agentd/protocol"
)

// Members of a payload. An agentd server adds coaching_request, its whole request, for the
// console. The first implementation sends the others.
const (
	keyCoachingRequest = "coaching_request"
	keyToolsAPI        = "tools_api"
	keyStageGoal       = "stage_goal"
	keyRunID           = "run_id"
)

// Kinds of tasks beside the protocol's.
const (
	kindOther  = "other"
	kindUnsure = "unsure" // the agent lets a coach choose among its options; also the code of the target step's error
)

// payloadKinds are the first implementation's payload types.
var payloadKinds = map[string]string{
	"FailureFixPayload":    protocol.CoachingFailure,
	"SuboptimalFixPayload": protocol.CoachingSuboptimal,
	"FormatFixPayload":     protocol.CoachingFormat,
}

// freePoint is the id of the only point of a task without a coaching request. Its agent knows
// where the answer belongs.
const freePoint = ""

// taskView is an agent's request and what was parsed from it. It is immutable.
type taskView struct {
	request  *protocol.HumanCoachingRequest
	coaching protocol.Raw                         // the coaching request as sent; nil when there is none
	decoded  *protocol.SpecializedCoachingRequest // nil when there is none
	repair   *repair.Case                         // nil when there is none
	points   []*repair.Point
}

// newTaskView parses a request. A request without a coaching request that this version
// understands is shown as it is.
func newTaskView(req *protocol.HumanCoachingRequest) *taskView {
	s := &taskView{request: req}
	if raw, ok := protocol.Get(req.Payload, keyCoachingRequest); ok {
		if decoded, err := protocol.DecodeSpecializedCoachingRequest(raw); err == nil {
			s.coaching, s.decoded, s.repair = raw, decoded, repair.NewCase(decoded)
			s.points = s.repair.Points
			return s
		}
	}
	if raw, ok := protocol.Get(req.Payload, keyToolsAPI); ok {
		point := &repair.Point{ID: freePoint}
		if attributes, ok := protocol.Get(req.Payload, "task_attributes"); ok && attributes.Kind() == '{' {
			point.Robots = tools.KnownRobots(attributes)
		}
		point.Tools, point.ToolsErr = toolsOf(raw, point.Robots)
		s.points = []*repair.Point{point}
	}
	return s
}

// toolsOf parses tools_api: a list of tools as in an input, or an object of tools by name.
func toolsOf(raw protocol.Raw, robots []string) (*tools.Set, error) {
	var list []protocol.Raw
	switch raw.Kind() {
	case '[':
		list = slices.Collect(protocol.Elements(raw))
	case '{':
		for name, tool := range protocol.Members(raw) {
			if tool.Kind() == '{' {
				tool = protocol.SetMember(tool, "name", protocol.String(name))
			}
			list = append(list, tool)
		}
	default:
		return nil, errors.New("tools_api is neither a list nor an object of tools")
	}
	if slices.ContainsFunc(list, func(tool protocol.Raw) bool { return tool.Kind() != '{' }) {
		return nil, errors.New("tools_api holds something other than tools, which are objects")
	}
	return tools.Normalise(list, robots, "")
}

// describe makes the stored task of a request.
func (s *taskView) describe() *task {
	t := &task{RequestID: s.request.RequestID, PayloadType: clip.Text(s.request.PayloadType, maxShown), Kind: kindOther}
	if s.decoded != nil {
		t.Kind, t.RunID, t.Stage = s.decoded.Kind, clip.Text(s.decoded.RunID, maxShown), clip.Text(s.decoded.Stage.Goal, maxStage)
		if s.options().Kind() == '[' {
			t.Kind = kindUnsure
		}
		return t
	}
	if kind, ok := payloadKinds[t.PayloadType]; ok {
		t.Kind = kind
	}
	t.RunID = clip.Text(payloadText(s.request.Payload, keyRunID), maxShown)
	t.Stage = clip.Text(payloadText(s.request.Payload, keyStageGoal), maxStage)
	return t
}

func payloadText(payload protocol.Raw, key string) string {
	v, _ := protocol.Get(payload, key)
	s, _ := protocol.Text(v)
	return s
}

func (s *taskView) point(id string) *repair.Point {
	if i := slices.IndexFunc(s.points, func(p *repair.Point) bool { return p.ID == id }); i >= 0 {
		return s.points[i]
	}
	return nil
}

// output formats a decision at a point for the agent. agentd's servers get the point too. The
// first implementation reads a list of calls in failure coaching, and else the form of its
// history.
func (s *taskView) output(pointID string, d *protocol.AgentDecision) string {
	if s.repair != nil {
		out := protocol.AppendMember(nil, "reinjection_point_id", protocol.String(pointID))
		for name, value := range protocol.Members(d.AppendJSON(nil)) {
			out = protocol.AppendMember(out, name, value)
		}
		return string(out)
	}
	if payloadKinds[s.request.PayloadType] == protocol.CoachingFailure && len(d.ToolCalls) > 0 {
		var list protocol.Raw = []byte("[]")
		for _, call := range d.ToolCalls {
			one := protocol.AppendMember(nil, "name", protocol.String(call.Name))
			one = protocol.AppendMember(one, "arguments", call.Arguments)
			list = protocol.AppendElements(list, protocol.AppendMember(one, "robot", protocol.String(call.TargetRobotName)))
		}
		return string(list)
	}
	return string(memory.WriteDecision(d.Say, d.ToolCalls, false))
}

// checkOutput validates an output that a person wrote as text. Problems are located from the
// output. Only agentd's own format is checked, since other agents have formats of their own.
func (s *taskView) checkOutput(output string) protocol.Problems {
	if strings.TrimSpace(output) == "" {
		return protocol.Problems{protocol.NewProblem(protocol.TypeStringTooShort, "the output is empty; write the correction")}
	}
	if s.repair == nil {
		return nil
	}
	verdict, err := s.repair.ReadHuman(output)
	switch {
	case err != nil:
		return protocol.Problems{protocol.NewProblem(protocol.TypeValue, err.Error())}
	case !verdict.Corrected:
		return protocol.Problems{protocol.NewProblem(protocol.TypeValue, "the output holds no correction: "+verdict.Why)}
	}
	return s.checkOption(verdict.Proposals[0].ExtraKeys)
}

// options returns the options of a decoded request of an unsure agent.
func (s *taskView) options() (list protocol.Raw) {
	if e := s.repair.Step().Error; e != nil && e.Code == kindUnsure {
		list, _ = protocol.Get(s.decoded.AdditionalInfo, "options")
	}
	return list
}

// checkOption refuses a correction that is not one of the options, of which a text is a reply.
func (s *taskView) checkOption(correction protocol.Raw) protocol.Problems {
	c, err := protocol.DecodeCorrection(correction)
	list := s.options()
	if err != nil || list.Kind() != '[' {
		return nil
	}
	chosen := c.Corrected()
	for e := range protocol.Elements(list) {
		text, _ := protocol.Text(e)
		if d, err := protocol.DecodeAgentDecision(e); chosen.Say != "" && chosen.Say == text || err == nil && tools.DecisionKey(d) == tools.DecisionKey(&chosen) {
			return nil
		}
	}
	msg := "not one of the agent's options; choose one of " + clip.Text(string(list), maxReason)
	return protocol.Problems{protocol.NewProblem(protocol.TypeValue, msg)}
}
