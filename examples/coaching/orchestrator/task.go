package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentd/protocol"
)

const (
	maxSteps   = 20 // of a task
	maxRepairs = 3  // of one step
)

// failure says why a step failed.
type failure struct {
	kind string // of coaching that is asked for
	code string
	text string
}

// task goes step by step until the agent ends it by a reply.
func (o *orchestrator) task(ctx context.Context) error {
	fmt.Fprintf(o.out, "Task:  %s\nHouse: %s\n", o.about.Task, o.house.String())
	fmt.Fprintln(o.out, "\nOnly the coach gets the code of the cupboard's lock, so at least one step has to fail,\n"+
		"however good the model.")

	instruction := protocol.AgentInstruction{Type: protocol.InstructionUser, Content: o.about.Task}
	repairs := 0
	for id := int64(1); id <= maxSteps; id++ {
		fmt.Fprintf(o.out, "\nStep %d\n", id)
		report, n, err := o.step(ctx, id, instruction)
		repairs += n
		if err != nil {
			return fmt.Errorf("step %d: %w", id, err)
		}
		if last := o.trajectory[len(o.trajectory)-1]; last.Output.Say != "" {
			fmt.Fprintf(o.out, "\nFinished after %d steps and %d corrections.\nHouse: %s\n", id, repairs, o.house.String())
			if repairs > 0 {
				fmt.Fprintf(o.out, "Logs:  %s\n", o.logs)
			}
			return nil
		}
		instruction = protocol.AgentInstruction{Type: protocol.InstructionEnv, Content: report}
	}
	return fmt.Errorf("%d steps were not enough", maxSteps)
}

// step gets one decision and carries it out, with as many repairs as it takes.
// The agent gets the report next.
func (o *orchestrator) step(ctx context.Context, id int64, instruction protocol.AgentInstruction) (report string, repairs int, err error) {
	before := o.house
	input := protocol.AgentInput{ID: 1, Instruction: instruction, Tools: o.about.Tools, Attributes: o.about.Attributes,
		Memory: o.memory, NumOutputs: 1, ExtraKeys: protocol.Raw(`{"inference_mode": true}`)}
	who := "agent"
	for {
		output, err := o.decide(ctx, id, input)
		if err != nil {
			return "", repairs, err
		}
		o.say(who, show(output))
		report, failed := o.perform(output)
		done := protocol.TrajectoryStep{ID: id, Input: input, Output: output.Output, Error: output.Error, InternalSteps: output.InternalSteps}
		if failed == nil {
			o.say("house", report)
			o.trajectory = append(o.trajectory, done)
			o.memory = output.Memory // the corrected one, when there was a correction
			return report, repairs, nil
		}
		o.say("FAILED", failed.text)
		if repairs == maxRepairs {
			return "", repairs, fmt.Errorf("it still fails after %d corrections", repairs)
		}

		// A simulation can return to the moment before the step. With real robots, which can't, describe what
		// happened as the next input and give that as the reinjection point.
		o.house = before
		done.Execution = protocol.AppendMember(protocol.Raw(`{}`), "failed", protocol.String(failed.text))
		repairs++
		correction, err := o.coach(ctx, done, failed, repairs)
		if err != nil {
			return "", repairs, err
		}
		input.ExtraKeys = protocol.SetMember(input.ExtraKeys, "coaching", correction)
		who = "again"
	}
}

// decide asks the agent for one decision.
func (o *orchestrator) decide(ctx context.Context, id int64, input protocol.AgentInput) (*protocol.AgentOutput, error) {
	outputs, err := o.agent.Responses(ctx, &protocol.AgentRequest{
		RequestID: fmt.Sprintf("%s-step-%d", o.runID, id), Inputs: []protocol.AgentInput{input}})
	if err != nil {
		return nil, err
	}
	return &outputs[0], nil // the client has checked that there is exactly one
}

// perform carries a decision out. A reply ends the task, when the cup is on the
// table by then.
func (o *orchestrator) perform(output *protocol.AgentOutput) (report string, failed *failure) {
	switch {
	case output.Error != nil:
		return "", &failure{protocol.CoachingFormat, output.Error.Code, "The agent's output is not a decision: " + output.Error.Message}
	case output.Output.Say != "" && o.house.Done():
		return "The task is done.", nil
	case len(output.Output.ToolCalls) == 0:
		return "", &failure{protocol.CoachingSuboptimal, "not_done", "The agent only talks, but the cup is not on the table yet."}
	}
	var reports []string
	for _, call := range output.Output.ToolCalls {
		report, err := o.house.Do(call)
		if err != nil {
			return "", &failure{protocol.CoachingFailure, "tool_failed", call.TargetRobotName + "." + call.Name + ": " + err.Error()}
		}
		reports = append(reports, report)
	}
	return strings.Join(reports, " "), nil
}

// coach asks for the repair of a failed step. The result belongs under
// extra_keys.coaching of the input at the reinjection point.
func (o *orchestrator) coach(ctx context.Context, step protocol.TrajectoryStep, failed *failure, try int) (protocol.Raw, error) {
	request := &protocol.SpecializedCoachingRequest{
		RunID:        o.runID,
		RequestID:    fmt.Sprintf("step-%02d-%d", step.ID, try),
		Kind:         failed.kind,
		Stage:        protocol.CoachingStage{ID: new(int64), Goal: o.about.Task, Hint: o.about.Hint},
		TargetStepID: step.ID,
		Trajectory:   append(slices.Clone(o.trajectory), step),
		// One point: the input of the failed step, once more.
		ReinjectionPoints: []protocol.ReinjectionPoint{{ID: fmt.Sprintf("again-at-step-%d", step.ID), InputStepID: &step.ID}},
		AdditionalInfo:    protocol.AppendMember(protocol.Raw(`{}`), "house_now", protocol.String(o.house.String())),
	}
	if failed.kind == protocol.CoachingSuboptimal {
		request.Diagnosis = (&protocol.CoachingDiagnosis{Explanation: failed.text}).AppendJSON(nil)
	} else {
		request.ActiveErrors = []protocol.Raw{(&protocol.CoachingError{Code: failed.code, Description: failed.text}).AppendJSON(nil)}
	}

	response, err := o.agent.Coach(ctx, request)
	if err != nil {
		return nil, err
	}
	if err := o.keep(request, response.Logs); err != nil {
		return nil, err
	}
	if response.Status != protocol.CoachingCorrected {
		return nil, fmt.Errorf("the coaching ended as %s: %s", response.Status, response.Reason)
	}
	o.say("repair", failed.kind+", corrected at "+response.Proposals[0].ReinjectionPointID)
	return response.Proposals[0].ExtraKeys, nil // the client has checked that it is for our point
}

// keep writes the logs of a coaching to files.
func (o *orchestrator) keep(request *protocol.SpecializedCoachingRequest, logs []protocol.CoachingLog) error {
	if err := os.MkdirAll(o.logs, 0o750); err != nil {
		return err
	}
	for i, log := range logs {
		name := fmt.Sprintf("%s-%d-%s.md", request.RequestID, i+1, log.CoachingType)
		if err := os.WriteFile(filepath.Join(o.logs, name), []byte(log.Content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// say prints a line of the transcript.
func (o *orchestrator) say(who, what string) { fmt.Fprintf(o.out, "  %-7s %s\n", who, what) }

// show renders an output for a person.
func show(output *protocol.AgentOutput) string {
	if output.Error != nil {
		return fmt.Sprintf("no decision (%s)", output.Error.Code)
	}
	var calls []string
	for _, call := range output.Output.ToolCalls {
		calls = append(calls, fmt.Sprintf("%s.%s %s", call.TargetRobotName, call.Name, call.Arguments))
	}
	if len(calls) > 0 {
		return strings.Join(calls, ", ")
	}
	return fmt.Sprintf("says %.80q", output.Output.Say) // a random model may say much
}
