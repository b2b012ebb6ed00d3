package check

import (
	"slices"
	"strings"
	"sync"

	"agentd/protocol"
)

const responses = "/v1/responses"

// keeps is a server whose histories hold the last n turns only.
func keeps(n int) func(*heard, *protocol.AgentOutput, []protocol.Raw) []protocol.Raw {
	return func(_ *heard, _ *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw { return t[max(0, len(t)-n):] }
}

// swapped exchanges a part of the first two candidates, if they have other inputs (or the same one).
func swapped(sameInput bool, swap func(a, b *protocol.AgentOutput)) func(*heard, []protocol.AgentOutput) []protocol.AgentOutput {
	return func(_ *heard, outs []protocol.AgentOutput) []protocol.AgentOutput {
		for i := 1; i < len(outs); i++ {
			if a, b := &outs[i-1], &outs[i]; (a.SourceID == b.SourceID) == sameInput {
				swap(a, b)
				break
			}
		}
		return outs
	}
}

func swapMemories(a, b *protocol.AgentOutput) { a.Memory, b.Memory = b.Memory, a.Memory }
func swapSteps(a, b *protocol.AgentOutput) {
	a.InternalSteps, b.InternalSteps = b.InternalSteps, a.InternalSteps
}
func swapOutputs(a, b *protocol.AgentOutput) { a.Output, b.Output = b.Output, a.Output }

// takesIDs is a server that returns to an id what the same id sent before.
func takesIDs() *defect {
	var mu sync.Mutex
	before := map[int64]protocol.Raw{}
	return each(Must, "takes the id for a conversation", func(h *heard, o *protocol.AgentOutput) {
		mu.Lock()
		defer mu.Unlock()
		if old := before[o.SourceID]; old != nil && len(turnsOf(h.input(o).Memory)) == 0 && o.Output != nil {
			setTurns(o, append(turnsOf(old), turnsOf(o.Memory)...))
		}
		before[o.SourceID] = o.Memory
	})
}

// stale is a server that applies a correction to the next request, too.
func stale() *defect {
	var mu sync.Mutex
	var last *protocol.AgentDecision
	return each(Must, "corrects the next request, too", func(h *heard, o *protocol.AgentOutput) {
		mu.Lock()
		defer mu.Unlock()
		if o.Output == nil {
			return
		}
		if h.corrected(o) {
			last = o.Output
		} else if last != nil {
			o.Output = last
			remember(o, *last)
			last = nil
		}
	})
}

// answerDefects are servers whose candidates are wrong.
var answerDefects = []*defect{
	// The list.
	lists(Must, "forgets the last candidate", func(_ *heard, o []protocol.AgentOutput) []protocol.AgentOutput { return o[:max(1, len(o)-1)] }),
	lists(Must, "returns a candidate twice", func(_ *heard, o []protocol.AgentOutput) []protocol.AgentOutput { return append(o, o[len(o)-1]) }),
	lists(Must, "returns one candidate for each input", func(_ *heard, o []protocol.AgentOutput) []protocol.AgentOutput {
		return slices.CompactFunc(o, func(a, b protocol.AgentOutput) bool { return a.SourceID == b.SourceID })
	}),
	lists(Must, "sorts by id", func(_ *heard, o []protocol.AgentOutput) []protocol.AgentOutput {
		slices.SortStableFunc(o, func(a, b protocol.AgentOutput) int { return int(a.SourceID - b.SourceID) })
		return o
	}),
	lists(Must, "reverses the inputs", func(_ *heard, o []protocol.AgentOutput) []protocol.AgentOutput { slices.Reverse(o); return o }),
	lists(Must, "counts indexes over all inputs", func(_ *heard, o []protocol.AgentOutput) []protocol.AgentOutput {
		for i := range o {
			o[i].CandidateIndex = i
		}
		return o
	}),
	each(Must, "counts indexes from 1", func(_ *heard, o *protocol.AgentOutput) { o.CandidateIndex++ }),
	lists(Must, "sorts indexes as texts", func(_ *heard, o []protocol.AgentOutput) []protocol.AgentOutput {
		if len(o) >= 12 && o[0].SourceID == o[11].SourceID {
			return slices.Concat(o[:2], o[10:12], o[2:10], o[12:])
		}
		return o
	}),
	each(Must, "invents a request_id", func(_ *heard, o *protocol.AgentOutput) { o.RequestID = "1" }),
	each(Must, "trims request_id", func(_ *heard, o *protocol.AgentOutput) { o.RequestID = strings.TrimSpace(o.RequestID) }),
	each(Must, "numbers the inputs", func(h *heard, o *protocol.AgentOutput) {
		o.SourceID = int64(slices.IndexFunc(h.req.Inputs, func(in protocol.AgentInput) bool { return in.ID == o.SourceID }))
	}),
	each(Must, "takes id 0 for absent", func(_ *heard, o *protocol.AgentOutput) {
		if o.SourceID == 0 {
			o.SourceID = 1
		}
	}),
	writes(Should, "rounds large ids", responses, `"source_id":9223372036854775807`, `"source_id":9223372036854775808`),
	writes(Must, "wraps the list", responses, `(?s)^(\[.*\])$`, `{"outputs":$1}`),
	writes(Must, "has another field", responses, `"status":"`, `"model":"m","status":"`),
	writes(Must, "lacks memory", responses, `"memory":\{\},|"memory":\{"history":[^\]]*\]\},`, ``),
	writes(Must, "writes ids as texts", responses, `"source_id":(\d+)`, `"source_id":"$1"`),
	writes(Must, "writes null for say", responses, `"say":"[^"]*"`, `"say":null`),
	writes(Must, "writes null for tool_calls", responses, `"tool_calls":\[\]`, `"tool_calls":null`),
	writes(Must, "writes null for steps", responses, `"internal_steps":\[\]`, `"internal_steps":null`),
	writes(Must, "has another status", responses, `"status":"completed"`, `"status":"ok"`),
	writes(Must, "completes without output", responses, `,"output":\{"say":"I[^}]*\}`, ``),
	writes(Must, "completes with an error, too", responses, `"status":"completed"`, `"status":"completed","error":{"code":"c","message":"m"}`),
	writes(Must, "an error has an output, too", responses, `"status":"error"`, `"status":"error","output":{"say":"","tool_calls":[]}`),
	writes(Must, "an error has no message", responses, `"message":"[^"]*",?`, ``),
	writes(Must, "an error has an empty code", responses, `"code":"[^"]*"`, `"code":""`),
	writes(Must, "an error is a text", responses, `"error":\{[^}]*\}`, `"error":"no"`),
	writes(Must, "an error has another field", responses, `"error":\{`, `"error":{"retry":true,`),
	writes(Must, "calls lack arguments", responses, `"arguments":\{[^}]*\},"target`, `"target`),
	writes(Must, "calls have arguments as text", responses, `"arguments":\{[^}]*\},"target`, `"arguments":"{}","target`),
	writes(Must, "calls have another field", responses, `"tool_calls":\[\{`, `"tool_calls":[{"id":"1",`),
	writes(Must, "calls lack the robot", responses, `,"target_robot_name":"[^"]*"\}`, `}`),
	called(Must, "speaks beside calls", func(_ *protocol.AgentInput, d *protocol.AgentDecision) { d.Say = "I go." }),
	called(Must, "calls without a name", func(_ *protocol.AgentInput, d *protocol.AgentDecision) { d.ToolCalls[0].Name = "" }),
	called(Must, "calls without a robot", func(_ *protocol.AgentInput, d *protocol.AgentDecision) { d.ToolCalls[0].TargetRobotName = "" }),
	called(Should, "calls unknown tools", func(_ *protocol.AgentInput, d *protocol.AgentDecision) { d.ToolCalls[0].Name += "x" }),
	called(Should, "calls unknown robots", func(_ *protocol.AgentInput, d *protocol.AgentDecision) { d.ToolCalls[0].TargetRobotName = "nobody" }),
	called(Should, "calls without arguments that are required", func(_ *protocol.AgentInput, d *protocol.AgentDecision) {
		d.ToolCalls[0].Arguments = protocol.Raw(`{}`)
	}),
	called(Should, "writes integers as texts", func(_ *protocol.AgentInput, d *protocol.AgentDecision) {
		d.ToolCalls[0].Arguments = protocol.Raw(strings.ReplaceAll(string(d.ToolCalls[0].Arguments), ":3", `:"3"`))
	}),
	called(Should, "calls twice alike", func(_ *protocol.AgentInput, d *protocol.AgentDecision) {
		d.ToolCalls = append(d.ToolCalls, d.ToolCalls[0])
	}),
	called(Should, "leaves target_robot in the arguments", func(in *protocol.AgentInput, d *protocol.AgentDecision) {
		if !strings.Contains(string(in.Tools[0]), "target_robot") {
			d.ToolCalls[0].Arguments = protocol.SetMember(d.ToolCalls[0].Arguments, "target_robot", protocol.Raw(`"arm"`))
		}
	}),
	lists(Must, "is not deterministic", notDeterministic()),

	// Memory.
	turns(Must, "forgets the history", keeps(2)),
	turns(Must, "keeps the last 4 turns", keeps(4)),
	turns(Must, "keeps the last 10 turns", keeps(10)),
	turns(Must, "keeps the last 50 turns", keeps(50)),
	turns(Must, "keeps the last 100 turns", keeps(100)),
	turns(Must, "forgets the history of what the model decided", func(h *heard, o *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		if h.corrected(o) {
			return t
		}
		return keeps(2)(h, o, t)
	}),
	turns(Must, "keeps 20 turns of what the model decided", func(h *heard, o *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		if h.corrected(o) {
			return t
		}
		return keeps(20)(h, o, t)
	}),
	turns(Must, "does not append the instruction", func(_ *heard, _ *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		return append(t[:len(t)-2:len(t)-2], t[len(t)-1])
	}),
	turns(Must, "does not append the decision", func(_ *heard, _ *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw { return t[:len(t)-1] }),
	turns(Must, "does not append calls", func(_ *heard, o *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		return t[:len(t)-min(1, len(o.Output.ToolCalls))]
	}),
	turns(Must, "appends at the beginning", func(_ *heard, _ *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		return append(t[len(t)-2:len(t):len(t)], t[:len(t)-2]...)
	}),
	turns(Must, "appends the turns twice", func(_ *heard, _ *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		return append(t, t[len(t)-2:]...)
	}),
	turns(Must, "swaps the two turns", func(_ *heard, _ *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		t[len(t)-1], t[len(t)-2] = t[len(t)-2], t[len(t)-1]
		return t
	}),
	turns(Must, "drops turns that repeat", func(_ *heard, _ *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		return slices.CompactFunc(t, func(a, b protocol.Raw) bool { return string(a) == string(b) })
	}),
	turns(Must, "drops empty turns", func(_ *heard, _ *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		return slices.DeleteFunc(t, func(a protocol.Raw) bool { return strings.Contains(string(a), `"content":""`) })
	}),
	turns(Must, "writes env as USER", func(h *heard, o *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		t[len(t)-2] = protocol.Raw(strings.Replace(string(t[len(t)-2]), "SYSTEM", "USER", 1))
		return t
	}),
	turns(Must, "remembers calls as texts", func(_ *heard, o *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		if len(o.Output.ToolCalls) > 0 {
			t[len(t)-1] = protocol.Raw(`{"author":"MODEL","content":"{\"say\": \"I call.\", \"action\": {}}"}`)
		}
		return t
	}),
	turns(Must, "remembers calls without arguments", func(h *heard, o *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		if len(o.Output.ToolCalls) > 0 && !h.corrected(o) {
			d := *o.Output
			d.ToolCalls = slices.Clone(d.ToolCalls)
			d.ToolCalls[0].Arguments = protocol.Raw(`{}`)
			remember(o, d)
			return turnsOf(o.Memory)
		}
		return t
	}),
	turns(Must, "cuts long contents", func(_ *heard, _ *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		for i := range t {
			if len(t[i]) > 5000 {
				t[i] = protocol.Raw(`{"author":"USER","content":"cut"}`)
			}
		}
		return t
	}),
	lists(Must, "mixes up the memories of inputs", swapped(false, swapMemories)),
	lists(Must, "mixes up the memories of candidates", swapped(true, swapMemories)),
	lists(Should, "mixes up the steps of inputs", swapped(false, swapSteps)),
	lists(Should, "mixes up the steps of candidates", swapped(true, swapSteps)),
	lists(Must, "mixes up the decisions of candidates", swapped(true, swapOutputs)),
	lists(Must, "gives all candidates the first memory", func(_ *heard, o []protocol.AgentOutput) []protocol.AgentOutput {
		for i := range o {
			o[i].Memory = o[0].Memory
		}
		return o
	}),
	lists(Must, "appends each candidate to the same memory", func(_ *heard, o []protocol.AgentOutput) []protocol.AgentOutput {
		for i := 1; i < len(o); i++ {
			if t := turnsOf(o[i].Memory); o[i].Output != nil && o[i].SourceID == o[i-1].SourceID {
				setTurns(&o[i], append(turnsOf(o[i-1].Memory), t[len(t)-1]))
			}
		}
		return o
	}),
	takesIDs(),
	stale(),
	each(Must, "drops other keys of the memory", func(_ *heard, o *protocol.AgentOutput) {
		history, there := protocol.Get(o.Memory, "history")
		if rules, also := protocol.Get(o.Memory, "memory_list"); there && also {
			o.Memory = protocol.Raw(`{"history":` + string(history) + `,"memory_list":` + string(rules) + `}`)
		}
	}),
	each(Must, "drops other keys of what the model decided", func(h *heard, o *protocol.AgentOutput) {
		for name := range protocol.Members(o.Memory) {
			if name != "history" && !h.corrected(o) {
				o.Memory = protocol.DeleteMember(o.Memory, name)
			}
		}
	}),
	each(Must, "drops memory_list", func(_ *heard, o *protocol.AgentOutput) { o.Memory = protocol.DeleteMember(o.Memory, "memory_list") }),
	each(Must, "drops the summary", func(_ *heard, o *protocol.AgentOutput) { o.Memory = protocol.DeleteMember(o.Memory, "summary") }),
	each(Must, "drops null", func(_ *heard, o *protocol.AgentOutput) {
		for name, v := range protocol.Members(o.Memory) {
			if string(v) == "null" {
				o.Memory = protocol.DeleteMember(o.Memory, name)
			}
		}
	}),
	each(Should, "invents memory_list", func(_ *heard, o *protocol.AgentOutput) {
		if _, there := protocol.Get(o.Memory, "memory_list"); !there && o.Output != nil {
			o.Memory = protocol.AppendMember(o.Memory, "memory_list", protocol.Raw(`[]`))
		}
	}),
	each(Must, "keeps what it corrected in the memory", func(h *heard, o *protocol.AgentOutput) {
		if h.corrected(o) && o.Output != nil {
			o.Memory = protocol.AppendMember(o.Memory, "last_coaching", protocol.Raw(`{"kind":"replace_say"}`))
		}
	}),
	writes(Should, "writes numbers again", responses, `1\.50`, `1.5`),
	writes(Should, "rounds large numbers", responses, `12345678901234567890123`, `12345678901234567000000`),
	writes(Should, "writes escapes again", responses, `\\u0061`, `a`),
	each(Should, "sorts the memory", func(_ *heard, o *protocol.AgentOutput) {
		var names []string
		for name := range protocol.Members(o.Memory) {
			names = append(names, name)
		}
		slices.Sort(names)
		var sorted protocol.Raw
		for _, name := range names {
			v, _ := protocol.Get(o.Memory, name)
			sorted = protocol.AppendMember(sorted, name, v)
		}
		if sorted != nil {
			o.Memory = sorted
		}
	}),
	turns(Should, "drops other fields of turns", func(_ *heard, _ *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		for i := range t {
			t[i] = protocol.DeleteMember(t[i], "mood")
		}
		return t
	}),
	turns(Should, "writes authors in upper case", func(_ *heard, _ *protocol.AgentOutput, t []protocol.Raw) []protocol.Raw {
		for i := range t {
			t[i] = protocol.Raw(strings.Replace(string(t[i]), `"uSer"`, `"USER"`, 1))
		}
		return t
	}),
	each(Should, "appends to the memory of an error", func(_ *heard, o *protocol.AgentOutput) {
		if o.Output == nil {
			o.Memory = protocol.SetMember(o.Memory, "history", protocol.Raw(`[{"author":"USER","content":"hi"}]`))
		}
	}),
	each(Should, "empties the memory of an error", func(_ *heard, o *protocol.AgentOutput) {
		if o.Output == nil {
			o.Memory = protocol.Raw(`{}`)
		}
	}),
	// Steps.
	each(Should, "has no steps", func(_ *heard, o *protocol.AgentOutput) { o.InternalSteps = nil }),
	each(Should, "has no step of a correction", func(h *heard, o *protocol.AgentOutput) {
		if h.corrected(o) {
			o.InternalSteps = nil
		}
	}),
	each(Should, "has no steps of calls", func(_ *heard, o *protocol.AgentOutput) {
		if o.Output != nil && len(o.Output.ToolCalls) > 0 {
			o.InternalSteps = nil
		}
	}),
	each(Should, "returns steps twice with one id", func(_ *heard, o *protocol.AgentOutput) {
		o.InternalSteps = append(o.InternalSteps, o.InternalSteps...)
	}),
	writes(Should, "steps have another field", responses, `"component":"commander","origin"`, `"took":1,"component":"commander","origin"`),
	writes(Should, "steps lack the prompt", responses, `"full_prompt":"(\\.|[^"\\])*",?`, ``),
	writes(Should, "steps have an empty prompt", responses, `"full_prompt":"(\\.|[^"\\])*"`, `"full_prompt":""`),
	writes(Should, "steps lack the output", responses, `,"output_raw":"(\\.|[^"\\])*"`, ``),
	writes(Should, "steps have another origin", responses, `"origin":"model"`, `"origin":"robot"`),
	writes(Should, "steps have numbers as ids", responses, `"id":"step-(\d+)"`, `"id":$1`),
	writes(Must, "steps are texts", responses, `"internal_steps":\[\{`, `"internal_steps":["x",{`),
	each(Should, "leaves the history out of the prompt", prompts(func(in *protocol.AgentInput, prompt string) string {
		for _, t := range turnsOf(in.Memory) {
			content, _ := protocol.Get(t, "content")
			if text, _ := protocol.Text(content); len(text) > 3 {
				prompt = strings.ReplaceAll(prompt, text, "")
			}
		}
		return prompt
	})),
	each(Should, "leaves the rules out of the prompt", prompts(func(in *protocol.AgentInput, prompt string) string {
		rules, _ := protocol.Get(in.Memory, "memory_list")
		for rule := range protocol.Elements(rules) {
			if text, _ := protocol.Text(rule); text != "" {
				prompt = strings.ReplaceAll(prompt, text, "")
			}
		}
		return prompt
	})),
	each(Should, "leaves the instruction out of the prompt", prompts(func(in *protocol.AgentInput, prompt string) string {
		if len(in.Instruction.Content) < 2 {
			return prompt
		}
		return strings.ReplaceAll(prompt, in.Instruction.Content, "")
	})),
	// Tools.
	toolError("tools without a name", `no name|name`, `"tools":\[\{("description":"no name")?\}`),
	toolError("tools with the same name", `already`, `.`),
	toolRefused("JSON Schema", `"parameters":\{"type":"object"`),
	toolRefused("inputSchema", `"inputSchema"`),
	toolRefused("arguments", `"arguments":\{"[a-z]+":\{`),
	toolRefused("lists of optional parameters", `"optional":\[`),
	toolRefused("types in other letter case", `"type":"(INT|String|Float)"`),
	toolRefused("types such as list[str]", `list\[`),
	toolRefused("tools without parameters", `"name":"[a-z]+"\}\]|"description":"[^"]*"\}\]`),
}

// notDeterministic changes what inference_mode gives, from the second request on.
func notDeterministic() func(h *heard, outs []protocol.AgentOutput) []protocol.AgentOutput {
	var mu sync.Mutex
	n := 0
	return func(h *heard, outs []protocol.AgentOutput) []protocol.AgentOutput {
		mu.Lock()
		defer mu.Unlock()
		for i := range outs {
			if o := &outs[i]; strings.Contains(h.body, `"inference_mode":true`) && o.Output != nil && o.Output.Say != "" {
				n++
				o.Output.Say = strings.Repeat("I am lost. ", n)
				remember(o, *o.Output)
			}
		}
		return outs
	}
}

// prompts changes the prompts of model steps.
func prompts(change func(in *protocol.AgentInput, prompt string) string) func(h *heard, o *protocol.AgentOutput) {
	return func(h *heard, o *protocol.AgentOutput) {
		for i, step := range o.InternalSteps {
			raw, _ := protocol.Get(step, "full_prompt")
			text, _ := protocol.Text(raw)
			if !h.corrected(o) {
				o.InternalSteps[i] = protocol.SetMember(step, "full_prompt", protocol.String(change(h.input(o), text)))
			}
		}
	}
}

// toolError is a server that decides with tools that can't be used.
func toolError(name, message, body string) *defect {
	return each(Should, "uses "+name, func(h *heard, o *protocol.AgentOutput) {
		if o.Error != nil && matches(message, o.Error.Message) && matches(body, h.body) {
			o.Status, o.Output, o.Error = protocol.StatusCompleted, &protocol.AgentDecision{Say: "ok", ToolCalls: []protocol.ToolCall{}}, nil
			setTurns(o, append(turnsOf(o.Memory), protocol.Raw(`{"author":"USER","content":`+
				string(protocol.String(h.input(o).Instruction.Content))+`}`), nil))
			remember(o, *o.Output)
		}
	})
}

// toolRefused is a server that can't use tools in a notation.
func toolRefused(name, body string) *defect {
	return each(Should, "can't use "+name, func(h *heard, o *protocol.AgentOutput) {
		if in := h.input(o); len(in.Tools) == 1 && o.Output != nil && !h.corrected(o) && matches(body, `"tools":[`+string(in.Tools[0])+`]`) {
			*o = protocol.AgentOutput{RequestID: o.RequestID, SourceID: o.SourceID, CandidateIndex: o.CandidateIndex, Status: protocol.StatusError,
				Memory: in.Memory, Error: &protocol.AgentError{Code: "invalid_tools", Message: "no"}}
		}
	})
}
