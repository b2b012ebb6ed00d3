package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// gptoss is the harmony form: messages on the channels analysis (thoughts),
// commentary (calls) and final (the reply).
type gptoss struct {
	rules
	effort string
	split  *splitter
}

// reasoningEfforts are the values that the system message may have.
var reasoningEfforts = []string{defaultEffort, "medium", "high"}

const defaultEffort = "low"

func newGPTOSS(o Options) (*gptoss, error) {
	r, err := newRules(o)
	if err != nil {
		return nil, err
	}
	effort := cmp.Or(o.ReasoningEffort, defaultEffort)
	if !slices.Contains(reasoningEfforts, effort) {
		return nil, fmt.Errorf("reasoning_effort %q is unknown; use %s", effort, strings.Join(reasoningEfforts, ", "))
	}
	return &gptoss{rules: r, effort: effort, split: newSplitter(o.ModelAPI.SpecialTokens())}, nil
}

func (f *gptoss) Name() string       { return GPTOSS }
func (f *gptoss) StateKey() string   { return memory.GPTOSSKey }
func (f *gptoss) ResetsState() bool  { return false }
func (f *gptoss) ShowsResults() bool { return true }

// SuppressControl is false: the channels' marks are control tokens.
func (f *gptoss) SuppressControl() bool { return false }

// parallelName is the function that stands for several calls at once, of which
// the harmony form has only one in a message.
const parallelName = "call_in_parallel"

func (f *gptoss) Catalog(set *tools.Set) *Catalog {
	c := &Catalog{Set: set, parallel: freeName(set, parallelName), spacing: gbnf.AnySpacing, build: f.grammar}
	c.Calls = CallForm{Begin: functionsPrefix + c.parallel, Depth: 2, Again: "<|start|>assistant"}
	shown := set.Tools
	if len(shown) > 0 && len(set.Robots) > 1 {
		shown = append(slices.Clip(shown), tools.Tool{Name: c.parallel, Description: parallelDescription, Prompted: parallelPrompted})
	}
	c.json = functionsJSON(shown)
	if len(shown) == 0 {
		return c
	}
	b := []byte("# Tools\n\n## functions\n\nnamespace functions {\n\n")
	for i := range shown {
		b = appendTypeScript(b, &shown[i])
	}
	c.text = string(append(b, "} // namespace functions"...))
	return c
}

const parallelDescription = "Make two or more independent calls of the other functions at once, each on a different robot." +
	" Every element of calls is {name: string, arguments: object, target_robot: string}."

var parallelPrompted = protocol.Raw(`{"type":"object","properties":{"calls":{"type":"array","description":"The calls to make.",` +
	`"items":{}}},"required":["calls"]}`)

// freeName is name, or followed by a number when a tool has that name.
func freeName(set *tools.Set, name string) string {
	free := name
	for i := 2; ; i++ {
		if _, taken := set.Find(free); !taken {
			return free
		}
		free = fmt.Sprintf("%s_%d", name, i)
	}
}

// The system message is the one the models were trained with, without the current date.
// A date would change the prompt overnight, and with it the answer and the cached prefix.
const (
	harmonySystem   = "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\n\nReasoning: "
	harmonyChannels = "\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message."
	harmonyCalls    = "\nCalls to these tools must go to the commentary channel: 'functions'."
)

func (f *gptoss) Render(in *Input) (*Prompt, error) {
	return f.render(conversation(in), in.Catalog), nil
}

// RenderChat puts each result after its call: a message of this form has one call.
func (f *gptoss) RenderChat(c *Chat) (*Prompt, error) {
	list := c.messages()
	var turns []message
	for len(list) > 0 {
		m, n := list[0], len(list[0].calls)
		if list = list[1:]; n < 2 {
			turns = append(turns, m)
			continue
		}
		for i := range n {
			turns = append(turns, message{role: roleAssistant, content: m.content, calls: m.calls[i : i+1]}, list[i])
			m.content = ""
		}
		list = list[n:]
	}
	return f.render(turns, c.catalog()), nil
}

// render renders a system message and what follows it.
func (f *gptoss) render(messages []message, c *Catalog) *Prompt {
	b := newBuilder(f.split, c, messages)
	b.markup(harmonySystem)
	b.markup(f.effort)
	b.markup(harmonyChannels)
	if c.text != "" {
		b.markup(harmonyCalls)
	}
	b.block("<|end|><|start|>developer<|message|># Instructions\n\n", messages[0].content+"\n\n"+c.text, "<|end|>")

	// Thoughts after calls are shown until a later reply has used them up.
	lastReply := 0
	for i := range messages {
		if m := &messages[i]; m.role == roleAssistant && (len(m.calls) == 0 || m.content != "") {
			lastReply = i
		}
	}
	caller := ""
	for i := 1; i < len(messages); i++ {
		m := &messages[i]
		switch m.role {
		case roleUser:
			b.block("<|start|>user<|message|>", m.fullContent(), "<|end|>")
		case roleTool:
			b.block("<|start|>", "functions."+caller, " to=assistant<|channel|>commentary<|message|>")
			b.text = appendResult(b.text, m)
			b.markup("<|end|>")
		case roleAssistant:
			caller = f.renderAssistant(b, m, c, i >= lastReply)
		}
	}
	b.markup("<|start|>assistant")
	p := b.prompt()
	p.Messages, p.Tools = messagesJSON(messages), c.json
	return p
}

// renderAssistant renders a decision and returns the name of the function that
// it calls.
func (f *gptoss) renderAssistant(b *builder, m *message, c *Catalog, thoughts bool) (caller string) {
	if len(m.calls) == 0 || m.content != "" {
		b.block("<|start|>assistant<|channel|>final<|message|>", m.content, "")
		b.endTurn("<|end|>")
	}
	if len(m.calls) == 0 {
		return ""
	}
	if thoughts {
		for _, text := range m.reasoning {
			b.block("<|start|>assistant<|channel|>analysis<|message|>", text, "<|end|>")
		}
	}
	caller, arguments := m.calls[0].Name, m.calls[0].Arguments
	if len(m.calls) > 1 {
		caller, arguments = c.parallel, parallelArguments(m.calls)
	}
	b.block("<|start|>assistant to=", "functions."+caller, "<|channel|>commentary json<|message|>")
	b.text = rawjson.AppendSpaced(b.text, arguments)
	b.endTurn("<|call|>")
	return caller
}

// parallelArguments are the arguments of the function for several calls, whose robots
// stand beside their arguments.
func parallelArguments(calls []pastCall) protocol.Raw {
	dst := []byte(`{"calls":[`)
	for i := range calls {
		call := &calls[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		arguments := call.Arguments
		if call.robotParam != "" {
			arguments = protocol.DeleteMember(arguments, call.robotParam)
		}
		dst = append(dst, `{"name":`...)
		dst = rawjson.AppendString(dst, call.Name)
		dst = append(append(append(dst, `,"arguments":`...), arguments...), `,"target_robot":`...)
		dst = append(rawjson.AppendString(dst, call.Robot), '}')
	}
	return append(dst, "]}"...)
}

// appendResult appends a tool's result as JSON: a JSON object as it is, with the
// task attributes as a member more, any other text as a string.
func appendResult(dst []byte, m *message) []byte {
	if raw := protocol.Raw(trimSpace(m.content)); raw.Kind() == '{' && raw.IsValid() {
		if m.attributes != nil {
			raw = protocol.SetMember(raw, "task_attributes", m.attributes)
		}
		return rawjson.AppendSpaced(dst, raw)
	}
	return rawjson.AppendString(dst, m.fullContent())
}
