package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/rawjson"
	"agentd/agent/internal/tree"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// gptoss is OpenAI's harmony format: channels analysis (reasoning), commentary (calls) and final (the reply).
type gptoss struct{ common }

var reasoningEfforts = []string{defaultEffort, "medium", "high"} // values in the system message

const defaultEffort = "low"

func newGPTOSS(o Options, c common) (*gptoss, error) {
	if c.effort = cmp.Or(o.ReasoningEffort, defaultEffort); !slices.Contains(reasoningEfforts, c.effort) {
		return nil, fmt.Errorf("reasoning_effort %q is unknown; use %s", c.effort, strings.Join(reasoningEfforts, ", "))
	}
	c.stateKey, c.suppressControl = memory.GPTOSSKey, false // the channels' marks are control tokens
	return &gptoss{c}, nil
}

// parallelName is a function for several calls at once: a harmony message has only one call.
const parallelName = "call_in_parallel"

func (f *gptoss) Catalog(set *tools.Set) *Catalog {
	c := &Catalog{
		Set: set, CallBegin: functionsPrefix, parallel: freeName(set, parallelName), spacing: f.spacing(gbnf.AnySpacing), build: f.grammar,
	}
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

var parallelPrompted = tree.Parse(protocol.Raw(`{"type":"object","properties":{"calls":{"type":"array","description":"The calls to make.",` +
	`"items":{}}},"required":["calls"]}`))

// freeName returns name, followed by a number if a tool has that name.
func freeName(set *tools.Set, name string) string {
	free := name
	for i := 2; ; i++ {
		if _, taken := set.Find(free); !taken {
			return free
		}
		free = fmt.Sprintf("%s_%d", name, i)
	}
}

// The system message with which the models were trained, but without the date: prompts must not change overnight.
const (
	harmonySystem   = "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\n\nReasoning: "
	harmonyChannels = "\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message."
	harmonyCalls    = "\nCalls to these tools must go to the commentary channel: 'functions'."
)

func (f *gptoss) Render(in *Input) (*Prompt, error) {
	messages, c := conversation(in, false, decided), in.catalog()
	if in.Chat != nil {
		messages = oneCallEach(messages)
	}
	b := newBuilder(f.split, c, messages)
	b.markup(harmonySystem)
	b.markup(f.effort)
	b.markup(harmonyChannels)
	if c.text != "" {
		b.markup(harmonyCalls)
	}
	b.markup("<|end|>")
	open, developer := "<|start|>developer<|message|>", c.text
	if system := messages[0].content; system != "" {
		open, developer = open+"# Instructions\n\n", system+"\n\n"+c.text
	}
	if developer != "" {
		b.block(open, developer, "<|end|>")
	}

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
		case roleSystem:
			b.block("<|start|>developer<|message|># Instructions\n\n", m.content, "<|end|>")
		case roleTool:
			b.block("<|start|>", "functions."+caller, " to=assistant<|channel|>commentary<|message|>")
			b.text = appendResult(b.text, m)
			b.markup("<|end|>")
		case roleAssistant:
			caller = f.renderAssistant(b, m, c, i >= lastReply)
		}
	}
	b.markup("<|start|>assistant")
	return b.prompt(messagesJSON(messages), c.json), nil
}

// oneCallEach splits messages with several calls, since a harmony message has one, and puts each result after its call.
func oneCallEach(list []message) (turns []message) {
	for len(list) > 0 {
		m, calls := list[0], list[0].calls
		if list = list[1:]; len(calls) < 2 {
			turns = append(turns, m)
			continue
		}
		for i := range calls {
			m.calls = calls[i : i+1]
			turns = append(turns, m, list[i])
			m.content, m.reasoning = "", nil
		}
		list = list[len(calls):]
	}
	return turns
}

// renderAssistant renders a decision and returns the function that it calls.
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
	b.markup("<|start|>assistant")
	caller = f.writeCall(b, m, c)
	b.endTurn("<|call|>")
	return caller
}

// writeCall writes calls after the role in the header, and returns the name of the called function.
func (f *gptoss) writeCall(b *builder, m *message, c *Catalog) (caller string) {
	caller, arguments := m.calls[0].Name, m.calls[0].Arguments
	if len(m.calls) > 1 {
		caller, arguments = c.parallel, parallelArguments(m.calls)
	}
	b.block(" to=", "functions."+caller, "<|channel|>commentary json<|message|>")
	b.text = rawjson.AppendSpaced(b.text, arguments)
	return caller
}

func (f *gptoss) write(b *builder, m *message, c *Catalog) {
	if len(m.calls) > 0 {
		f.writeCall(b, m, c)
		return
	}
	b.block("<|channel|>final<|message|>", m.content, "")
}

func (f *gptoss) inForms(*message, *Catalog) []string { return nil } // it has no other forms

// parallelArguments returns the arguments of parallelName. Each robot is beside the arguments of its call.
func parallelArguments(calls []pastCall) protocol.Raw {
	dst := rawjson.AppendList([]byte(`{"calls":`), calls, func(dst []byte, call pastCall) []byte {
		arguments := call.Arguments
		if call.robotParam != "" {
			arguments = protocol.DeleteMember(arguments, call.robotParam)
		}
		dst = rawjson.AppendString(append(dst, `{"name":`...), call.Name)
		dst = append(append(append(dst, `,"arguments":`...), arguments...), `,"target_robot":`...)
		return append(rawjson.AppendString(dst, call.TargetRobotName), '}')
	})
	return append(dst, '}')
}

// appendResult appends a result of a call. A JSON object gets the task attributes as a member; other text is a string.
func appendResult(dst []byte, m *message) []byte {
	if raw := protocol.Raw(trimSpace(m.content)); raw.Kind() == '{' && raw.IsValid() {
		if m.attributes != nil {
			raw = protocol.SetMember(raw, "task_attributes", m.attributes)
		}
		return rawjson.AppendSpaced(dst, raw)
	}
	return rawjson.AppendString(dst, m.fullContent())
}

// appendTypeScript appends a function as a TypeScript type, the form with which gpt-oss was trained.
func appendTypeScript(dst []byte, t *tools.Tool) []byte {
	dst = fmt.Appendf(dst, "// %s\ntype %s = ", t.Description, t.Name)
	properties := t.Prompted.Get("properties").Members
	if len(properties) == 0 {
		return append(dst, "() => any;\n\n"...)
	}
	required, _ := t.Prompted.Get("required").Strings()
	dst = append(dst, "(_: {\n"...)
	for _, parameter := range properties {
		spec := parameter.Value
		if text := text(spec, "description"); text != "" {
			dst = fmt.Appendf(dst, "// %s\n", text)
		}
		dst = append(dst, parameter.Name...)
		if !slices.Contains(required, parameter.Name) {
			dst = append(dst, '?')
		}
		dst = append(dst, ": "...)
		dst = appendTSType(dst, spec)
		switch value := spec.Get("default").Raw(); {
		case value == nil:
		case spec.Has("enum"):
			dst = appendUnquoted(append(dst, ", // default: "...), value)
		case spec.Has("oneOf"):
			dst = appendUnquoted(append(dst, "// default: "...), value)
		default:
			dst = rawjson.AppendSpaced(append(dst, ", // default: "...), value)
		}
		dst = append(dst, ",\n"...)
	}
	return append(dst, "}) => any;\n\n"...)
}

func appendTSType(dst []byte, spec *tree.Value) []byte {
	types, oneOf, name := slices.Collect(spec.Get("type").Elements()), slices.Collect(spec.Get("oneOf").Elements()), text(spec, "type")
	switch {
	case name == "array":
		return appendNullable(appendTSArray(dst, spec), spec)
	case len(types) > 0:
		separator := ""
		for _, e := range types {
			dst = appendUnquoted(append(dst, separator...), e.Raw())
			separator = " | "
		}
		return dst
	case len(oneOf) > 0:
		return appendTSUnion(dst, oneOf)
	case name == "string":
		enum := slices.Collect(spec.Get("enum").Elements())
		if len(enum) == 0 {
			return appendNullable(append(dst, "string"...), spec)
		}
		separator := `"`
		for _, e := range enum {
			dst = appendUnquoted(append(dst, separator...), e.Raw())
			separator = `" | "`
		}
		return append(dst, '"')
	case name == "number" || name == "integer":
		return append(dst, "number"...)
	case name == "boolean":
		return append(dst, "boolean"...)
	case name == "object":
		return appendTSObject(dst, spec)
	}
	return append(dst, "any"...)
}

func appendTSArray(dst []byte, spec *tree.Value) []byte {
	items := spec.Get("items")
	if len(items.Raw()) <= len("{}") {
		return append(dst, "any[]"...)
	}
	// The template falls back to any where a type gets long.
	const longest = 50
	inner := appendTSType(nil, items)
	if string(inner) == "object | object" || len([]rune(string(inner))) > longest && !plainItems(items) {
		return append(dst, "any[]"...)
	}
	if plainItems(items) { // an enum or null of plain items is not shown
		inner = []byte(text(items, "type"))
		if string(inner) == "integer" {
			inner = []byte("number")
		}
	}
	return append(append(dst, inner...), "[]"...)
}

func plainItems(items *tree.Value) bool {
	return slices.Contains([]string{"string", "number", "integer", "boolean"}, text(items, "type"))
}

func appendTSUnion(dst []byte, list []*tree.Value) []byte {
	if len(list) > 1 && slices.ContainsFunc(list, func(v *tree.Value) bool { return text(v, "type") == "object" }) {
		return append(dst, "any"...)
	}
	for i, variant := range list {
		dst = appendTSType(dst, variant)
		if description := text(variant, "description"); description != "" {
			dst = append(append(dst, "// "...), description...)
		}
		if value := variant.Get("default").Raw(); value != nil {
			dst = append(dst, "                    // default: "...)
			dst = append(rawjson.AppendSpaced(dst, value), '\n')
		}
		if i < len(list)-1 {
			dst = append(dst, " | \n"...)
		}
	}
	return dst
}

func appendTSObject(dst []byte, spec *tree.Value) []byte {
	properties := spec.Get("properties")
	if len(properties.Raw()) <= len("{}") {
		return append(dst, "object"...)
	}
	required, _ := spec.Get("required").Strings()
	separator := "{\n"
	for _, property := range properties.Members {
		dst = append(append(dst, separator...), property.Name...)
		separator = ", "
		if !slices.Contains(required, property.Name) {
			dst = append(dst, '?')
		}
		dst = append(dst, ": \n                "...)
		dst = appendTSType(dst, property.Value)
	}
	return append(dst, '}')
}

func appendNullable(dst []byte, spec *tree.Value) []byte {
	if spec.Get("nullable").Kind == 't' {
		return append(dst, " | null"...)
	}
	return dst
}

// text returns the text of a member, "" if that is not a string.
func text(v *tree.Value, name string) string {
	s, _ := v.Get(name).Text()
	return s
}
