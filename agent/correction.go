package agent

import (
	"errors"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/protocol"
)

// correct applies the correction in extra_keys.coaching without a model call. Clients must check
// its tools and robots. The memory gets the corrected turn as if the model had made it.
func (a *Agent) correct(in *inputRun) {
	correction, err := protocol.DecodeCorrection(in.correction)
	if err != nil {
		if problems, ok := errors.AsType[protocol.Problems](err); ok {
			err = errors.New("extra_keys.coaching is not a correction: " + problems.All())
		}
		in.fail(&failure{CodeInvalidCoaching, ComponentCommander, err})
		return
	}
	d := format.Decision{AgentDecision: correction.Corrected()}
	var prompt *format.Prompt
	if in.catalog != nil {
		// A correction works without a prompt too.
		if prompt, err = a.rendered(in, false); err != nil {
			prompt = nil
		}
	}
	step := newStep(in, prompt, 0, ComponentCommander, protocol.OriginCoaching, nil).correction(d.Say, d.ToolCalls)
	turn := in.memory.Prepare(memory.AuthorOf(in.input.Instruction.Type), in.input.Instruction.Content)
	in.out[0].InternalSteps = []protocol.Raw{step}
	in.complete(&in.out[0], turn, d)
	in.dropTokens(&in.out[0]) // a correction has no tokens
	in.repeatFirst(1)
}
