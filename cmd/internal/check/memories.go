package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentd/protocol"
)

// entries are the turns of a memory.
func entries(memory protocol.Raw) []protocol.Raw {
	history, _ := protocol.Get(memory, "history")
	return slices.Collect(protocol.Elements(history))
}

// private reports whether a member of the memory belongs to the agent, such as the tokens of turns.
func private(name string) bool { return strings.HasPrefix(name, "_") }

// wrongMemory is what is wrong with the values in the memory of a completed candidate.
func wrongMemory(in *protocol.AgentInput, o *protocol.AgentOutput) string {
	if o.Output == nil {
		return elsewhere
	}
	before, after := entries(in.Memory), entries(o.Memory)
	if len(after) != len(before)+2 {
		return fmt.Sprintf("the history has %d turns after %d; right is two more", len(after), len(before))
	}
	for i := range before {
		if !equal(before[i], after[i]) {
			return fmt.Sprintf("turn %d was %s and is %s", i, shown(string(before[i])), shown(string(after[i])))
		}
	}
	author := map[string]string{protocol.InstructionUser: "USER", protocol.InstructionEnv: "SYSTEM"}[in.Instruction.Type]
	if text := wrongTurn(after[len(before)], author, func(s string) bool { return s == in.Instruction.Content }); text != "" {
		return "the instruction: " + text
	}
	if text := wrongTurn(after[len(before)+1], "MODEL", func(s string) bool { return remembersDecision(s, o.Output) }); text != "" {
		return "the decision: " + text
	}
	for name, v := range protocol.Members(in.Memory) {
		if now, there := protocol.Get(o.Memory, name); name != "history" && !private(name) && (!there || !equal(v, now)) {
			return fmt.Sprintf("%s was %s and is %s", name, shown(string(v)), shown(string(now)))
		}
	}
	return ""
}

// wrongTurn is what is wrong with a new entry of the history.
func wrongTurn(entry protocol.Raw, author string, right func(content string) bool) string {
	var t turn
	if json.Unmarshal(entry, &t) != nil || t.Author != author || !right(t.Content) {
		return "the turn is " + shown(string(entry))
	}
	return ""
}

// remembersDecision reports whether the content of a MODEL turn is the decision.
func remembersDecision(content string, d *protocol.AgentDecision) bool {
	var turn struct {
		Say    *string         `json:"say"`
		Action json.RawMessage `json:"action"`
	}
	if json.Unmarshal([]byte(content), &turn) != nil || turn.Say == nil || *turn.Say != d.Say {
		return false
	}
	robots := []protocol.Raw{protocol.Raw(turn.Action)}
	if bytes.HasPrefix(bytes.TrimSpace(turn.Action), []byte("[")) {
		robots = slices.Collect(protocol.Elements(protocol.Raw(turn.Action)))
	}
	var calls []protocol.ToolCall
	for _, r := range robots {
		for robot, c := range protocol.Members(r) {
			var call struct {
				Name      string       `json:"name"`
				Arguments protocol.Raw `json:"arguments"`
			}
			_ = json.Unmarshal(c, &call) // else it equals no call
			calls = append(calls, protocol.ToolCall{Name: call.Name, Arguments: call.Arguments, TargetRobotName: robot})
		}
	}
	return slices.EqualFunc(calls, d.ToolCalls, func(a, b protocol.ToolCall) bool {
		return a.Name == b.Name && a.TargetRobotName == b.TargetRobotName && equal(a.Arguments, b.Arguments)
	})
}

// wrongBytes is what is wrong with how the memory is written.
func wrongBytes(in *protocol.AgentInput, o *protocol.AgentOutput) string {
	before, after := entries(in.Memory), entries(o.Memory)
	if o.Output != nil && len(after) >= len(before) {
		after = after[:len(before)]
	}
	if !slices.EqualFunc(before, after, func(a, b protocol.Raw) bool { return bytes.Equal(a, b) }) {
		return "the turns before are written in another way"
	}
	was, is := others(in.Memory), others(o.Memory)
	if !slices.Equal(was, is) {
		return fmt.Sprintf("the members were %s and are %s", shown(strings.Join(was, ", ")), shown(strings.Join(is, ", ")))
	}
	if place(in.Memory) >= 0 && place(in.Memory) != place(o.Memory) {
		return "history is at another place"
	}
	return ""
}

// others are the members of a memory without the history and what belongs to the agent.
func others(memory protocol.Raw) (list []string) {
	for name, v := range protocol.Members(memory) {
		if name != "history" && !private(name) {
			list = append(list, encode(name)+": "+string(v))
		}
	}
	return list
}

// place is that of history among the members, -1 if it is absent.
func place(memory protocol.Raw) int {
	i := 0
	for name := range protocol.Members(memory) {
		if name == "history" {
			return i
		}
		if !private(name) {
			i++
		}
	}
	return -1
}

// wrongSteps is what is wrong with the steps of a candidate.
func wrongSteps(in *protocol.AgentInput, o *protocol.AgentOutput) string {
	ids, raw := map[string]bool{}, ""
	origins := map[string]int{}
	for _, s := range o.InternalSteps {
		step, err := protocol.DecodeInternalStep(s)
		switch {
		case err != nil:
			return err.Error()
		case ids[step.ID]:
			return "two steps have the id " + quote(step.ID)
		case step.Origin == protocol.OriginModel && step.FullPrompt == "":
			return "the step " + quote(step.ID) + " of the model has no prompt"
		}
		ids[step.ID] = true
		origins[step.Origin]++
		raw += step.OutputRaw
	}
	switch corrected := isCorrected(in); {
	case o.Output == nil:
	case corrected && (len(ids) != 1 || origins[protocol.OriginModel] > 0):
		return "a correction has one step, of the origin coaching"
	case !corrected && origins[protocol.OriginModel] == 0:
		return "no step of the model"
	case !corrected && !holds(raw, o.Output):
		return "the outputs of the steps are not what was decided: " + shown(raw)
	}
	return ""
}

// holds reports whether a model's output has the texts of a decision, as they are or as JSON.
func holds(raw string, d *protocol.AgentDecision) bool {
	texts := []string{d.Say}
	for _, c := range d.ToolCalls {
		texts = append(texts, c.Name)
	}
	squeezed := func(s string) string { return strings.Join(strings.Fields(s), "") }
	for _, text := range texts {
		if quoted := encode(text); !strings.Contains(squeezed(raw), squeezed(text)) &&
			!strings.Contains(squeezed(raw), squeezed(quoted[1:len(quoted)-1])) {
			return false
		}
	}
	return true
}
