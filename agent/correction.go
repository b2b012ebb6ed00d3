package agent

import (
	"errors"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
)

// correct applies the correction in extra_keys.coaching: its decision replaces the model's,
// without a model call. Clients check its tools and robots, the agent does not. The memory gets
// the corrected turn and no trace of the correction.
func (a *Agent) correct(in *plannedInput, out []protocol.AgentOutput) {
	correction, err := protocol.DecodeCorrection(in.correction)
	if err != nil {
		var problems protocol.Problems
		if errors.As(err, &problems) {
			err = errors.New("extra_keys.coaching is no correction: " + problems.All())
		}
		in.failAll(out, &failure{CodeInvalidCoaching, ComponentCommander, err})
		return
	}
	corrected := correction.Corrected()
	d := format.Decision{Say: corrected.Say}
	for _, c := range corrected.ToolCalls {
		d.Calls = append(d.Calls, tools.Call{Name: c.Name, Arguments: c.Arguments, Robot: c.TargetRobotName})
	}

	var prompt *format.Prompt
	if in.toolsErr == nil {
		// A correction works without a prompt too.
		if prompt, err = a.format.Render(in.formatInput(a.cfg.HistoryMaxMessages, a.format.ShowsResults())); err != nil {
			prompt = nil
		}
	}
	step := newStep(in, prompt, 0, ComponentCommander, protocol.OriginCoaching).correction(d.Say, d.Calls)
	turn := in.memory.Prepare(in.author(), in.input.Instruction.Content)
	for k := range out {
		if k > 0 {
			index := out[k].CandidateIndex
			out[k] = out[0]
			out[k].CandidateIndex = index
			continue
		}
		out[k].InternalSteps = []protocol.Raw{step}
		in.complete(&out[k], turn, d, in.change(d, a.format.ResetsState()))
	}
}
