package agent

import (
	"errors"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
)

// correct applies the correction in extra_keys.coaching: its decision takes the
// place of the model's, without a model call. Consumers check its tools and
// robots; the agent does not look at them. Only the turn itself remains in the
// memory.
func (a *Agent) correct(j *job, out []protocol.AgentOutput) {
	correction, err := protocol.DecodeCorrection(j.correction)
	if err != nil {
		var problems protocol.Problems
		if errors.As(err, &problems) {
			err = errors.New("extra_keys.coaching is no correction: " + problems.All())
		}
		j.failAll(out, CodeInvalidCoaching, ComponentCommander, err)
		return
	}
	corrected := correction.Corrected()
	d := format.Decision{Say: corrected.Say}
	for _, c := range corrected.ToolCalls {
		d.Calls = append(d.Calls, tools.Call{Name: c.Name, Arguments: c.Arguments, Robot: c.TargetRobotName})
	}

	var prompt *format.Prompt
	if j.toolsErr == nil {
		// A prompt that can't be rendered does not stop a correction either.
		if prompt, err = a.format.Render(j.input(a.cfg.HistoryMaxMessages, a.format.ShowsResults())); err != nil {
			prompt = nil
		}
	}
	step := newStep(j, prompt, 0, ComponentCommander, protocol.OriginCoaching).correction(d.Say, d.Calls)
	turn := j.memory.Prepare(j.author(), j.in.Instruction.Content)
	for k := range out {
		if k > 0 {
			index := out[k].CandidateIndex
			out[k] = out[0]
			out[k].CandidateIndex = index
			continue
		}
		out[k].InternalSteps = []protocol.Raw{step}
		j.complete(&out[k], turn, d, j.change(d, a.format.ResetsState()))
	}
}
