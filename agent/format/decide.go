package format

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/tools"
)

// decide makes a decision of a parsed text and calls. The error is the first reason why it would be invalid.
func (r rules) decide(set *tools.Set, say string, calls []tools.Call, reasoning []string) (Decision, error) {
	d := Decision{Reasoning: reasoning}
	say = strings.TrimSpace(say)
	if len(calls) > 0 {
		d.CallForm = FormNative
	} else if len(set.Tools) > 0 {
		var err error
		if calls, d.CallForm, err = r.recognise(say, set); err != nil {
			return d, err
		}
		if len(calls) > 0 {
			say = ""
		}
	}
	switch {
	case len(calls) == 0 && say == "" && !set.MayEnd:
		return d, errNothing
	case len(calls) == 0:
		d.Say = say
		return d, nil
	case say != "" && set.Chat:
		d.Say = say
	case say != "" && r.mixed != MixedTools:
		return d, errMixed
	}
	called := make(map[string]string, len(calls)) // tools by robot
	for i := range calls {
		call := &calls[i]
		if !r.once || call.TargetRobotName == "" { // in a chat
			if slices.ContainsFunc(calls[:i], func(c tools.Call) bool {
				return c.Name == call.Name && c.TargetRobotName == call.TargetRobotName &&
					bytes.Equal(c.Arguments, call.Arguments)
			}) {
				return d, fmt.Errorf("the call of %s is there twice with the same arguments; each call may be there once", call.Name)
			}
			continue
		}
		if other, ok := called[call.TargetRobotName]; ok {
			return d, fmt.Errorf("the robot %q has two calls, of %s and %s; a decision may have one for each robot (calls_per_robot any allows more)",
				call.TargetRobotName, other, call.Name)
		}
		called[call.TargetRobotName] = call.Name
	}
	d.ToolCalls = calls
	return d, nil
}
