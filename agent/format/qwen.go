package format

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/rawjson"
	"agentd/agent/internal/tree"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// qwen is ChatML with calls as JSON in <tool_call> blocks (Hermes;
// Qwen 2.5 and 3) or with tagged parameters (Qwen 3.5, Qwen3-Coder).
type qwen struct {
	common
	qwenVariant
	intro, outro string // around the tools in the system message
	opening      string // the prompt's part of the answer
	system       string // for a chat without a system message
}

// qwenVariant describes how the chat templates of the family differ.
type qwenVariant struct {
	xml        bool // calls with tagged parameters
	coder      bool // Qwen3-Coder's wording and line breaks; else, with xml, Qwen 3.5's
	thinks     bool // turns after the last user message have a block of reasoning; with xml, an empty one too
	emptyThink bool // an empty block in the prompt switches thinking off
	openThink  bool // the prompt ends with <think> if the model thinks
}

// qwenVariantOf chooses by the chat template, without one by the architecture.
func qwenVariantOf(architecture, template string) qwenVariant {
	if template == "" {
		switch {
		case strings.HasPrefix(architecture, "qwen2"):
			return qwenVariant{}
		case strings.HasPrefix(architecture, "qwen35"):
			return qwenVariant{xml: true, thinks: true, emptyThink: true, openThink: true}
		}
		return qwenVariant{thinks: true, emptyThink: true}
	}
	v := qwenVariant{
		xml:        strings.Contains(template, "<function="),
		thinks:     strings.Contains(template, "</think>"),
		emptyThink: strings.Contains(template, "enable_thinking"),
	}
	v.coder = v.xml && strings.Contains(template, "<parameters>")
	if at := strings.LastIndex(template, "add_generation_prompt"); at >= 0 {
		tail := template[at:]
		v.openThink = strings.Contains(tail, `'<think>\n'`) || strings.Contains(tail, `"<think>\n"`) ||
			strings.Contains(tail, `assistant\n<think>\n'`)
	}
	return v
}

// qwenSystemIn finds the system message that templates of Qwen 2.5 give a chat without one.
var qwenSystemIn = regexp.MustCompile(`<\|im_start\|>system\\n([^{}<'"]+)<\|im_end\|>`)

func newQwen(o Options, c common) (*qwen, error) {
	c.stateKey = memory.QwenKey
	q := &qwen{common: c, qwenVariant: qwenVariantOf(o.Architecture, o.ChatTemplate)}
	if q.think && !q.emptyThink && !q.openThink {
		return nil, fmt.Errorf("Config.Prompt.EnableThinking: this model's chat template has no thinking to switch on; leave it out")
	}
	q.think = q.think || q.openThink && !q.emptyThink // nothing switches it off
	q.inThoughts = q.think && q.openThink
	switch {
	case q.coder:
		q.intro, q.outro = coderIntro, coderOutro
	case q.xml:
		q.intro, q.outro = qwen35Intro, qwen35Outro
	default:
		q.intro, q.outro = hermesIntro, hermesOutro
	}
	if found := qwenSystemIn.FindStringSubmatch(o.ChatTemplate); found != nil {
		q.system = found[1]
	}
	switch q.opening = "<|im_start|>assistant\n"; {
	case q.emptyThink && !q.think:
		q.opening += "<think>\n\n</think>\n\n"
	case q.openThink:
		q.opening += "<think>\n"
	}
	return q, nil
}

func (q *qwen) Catalog(set *tools.Set) *Catalog {
	c := &Catalog{
		Set: set, json: functionsJSON(set.Tools), spacing: q.spacing(gbnf.DumpsSpacing), build: q.grammar,
		CallBegin: callOpen,
	}
	var b []byte
	for i := range set.Tools {
		b = append(b, '\n')
		if q.coder {
			b = appendCoderTool(b, &set.Tools[i])
		} else {
			b = rawjson.AppendSpaced(b, appendFunction(nil, &set.Tools[i]))
		}
	}
	c.text = string(b)
	return c
}

// The texts around the tools are the texts of the models' templates, with which they were trained.
const (
	hermesIntro = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
	hermesOutro = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within " +
		"<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"

	qwen35Intro = "# Tools\n\nYou have access to the following functions:\n\n<tools>"
	coderIntro  = "# Tools\n\nYou have access to the following tools:\n\n<tools>"

	xmlExample = " ONLY reply in the following format with NO suffix:\n\n" +
		"<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n" +
		"<parameter=example_parameter_2>\n"
	xmlReminder = "\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n" +
		"- Function calls MUST follow the specified format: "
	xmlRest = "\n- Required parameters MUST be specified\n" +
		"- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after\n" +
		"- If there is no function call available, answer the question like normal with your current knowledge " +
		"and do not tell the user about function calls\n</IMPORTANT>"

	qwen35Outro = "\n</tools>\n\nIf you choose to call a function" + xmlExample +
		"This is the value for the second parameter\nthat can span\nmultiple lines" + xmlReminder +
		"an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags" + xmlRest
	coderOutro = "\n</tools>\n\nIf you choose to call a tool" + xmlExample + "value_2" + xmlReminder +
		"the tool calling block MUST begin with an opening <tool_call> tag and end with a closing </tool_call> tag." + xmlRest
)

func (q *qwen) Render(in *Input) (*Prompt, error) {
	messages, c := conversation(in, false, decided), in.catalog()
	b := newBuilder(q.split, c, messages)

	toolsFirst := q.xml && !q.coder // Qwen 3.5
	system := messages[0].content
	if in.Chat != nil {
		system = cmp.Or(system, q.system)
	}
	switch {
	case len(c.Set.Tools) > 0:
		b.markup("<|im_start|>system\n")
		if system != "" && !toolsFirst {
			b.plain(system + "\n\n")
		}
		b.block(q.intro, c.text, q.outro)
		if system != "" && toolsFirst {
			b.plain("\n\n" + q.trim(system))
		}
		b.markup("<|im_end|>\n")
	case system != "":
		b.block("<|im_start|>system\n", q.trim(system), "<|im_end|>\n")
	}

	lastQuery := len(messages) - 1 // the last user message that is not a tool result: reasoning before it is not shown
	for i := lastQuery; i > 0; i-- {
		m := &messages[i]
		isResult := m.attributes == nil && strings.HasPrefix(m.content, "<tool_response>") && strings.HasSuffix(m.content, "</tool_response>")
		if m.role == roleUser && !m.aside && !isResult {
			lastQuery = i
			break
		}
	}
	for i := 1; i < len(messages); i++ {
		m := &messages[i]
		switch m.role {
		case roleUser, roleSystem:
			b.block("<|im_start|>"+m.role+"\n", q.trim(m.fullContent()), "<|im_end|>\n")
		case roleTool: // which shares a turn with results beside it
			if messages[i-1].role != roleTool {
				b.markup("<|im_start|>user")
			}
			b.block("\n<tool_response>\n", q.trim(m.fullContent()), "\n</tool_response>")
			if last := i+1 == len(messages) || messages[i+1].role != roleTool; last && q.coder {
				b.markup("\n<|im_end|>\n")
			} else if last {
				b.markup("<|im_end|>\n")
			}
		case roleAssistant:
			q.renderAssistant(b, m, i > lastQuery, i+1 == len(messages))
		}
	}
	b.markup(q.opening)
	return b.prompt(messagesJSON(messages), c.json), nil
}

func (q *qwen) trim(s string) string {
	if q.xml && !q.coder {
		return trimSpace(s)
	}
	return s
}

func (q *qwen) renderAssistant(b *builder, m *message, current, last bool) {
	b.markup("<|im_start|>assistant\n")
	content := q.trim(m.content)
	reasoning := strings.Join(m.reasoning, "\n\n")
	if q.xml {
		reasoning = trimSpace(reasoning)
	}
	if q.thinks && current && (q.xml || reasoning != "" || last) {
		b.block("<think>\n", strings.Trim(reasoning, "\n"), "\n</think>\n\n")
		content = strings.TrimLeft(content, "\n")
	}
	q.said(b, m, content)
	b.endTurn("<|im_end|>\n")
}

// said appends what the model wrote after its reasoning.
func (q *qwen) said(b *builder, m *message, content string) {
	if q.coder && len(m.calls) > 0 {
		if content = trimSpace(content); content != "" {
			content += "\n"
		}
	}
	b.plain(content)
	for j := range m.calls {
		switch {
		case j == 0 && content == "":
		case j == 0 && q.xml && !q.coder:
			b.plain("\n\n")
		default:
			b.plain("\n")
		}
		call := &m.calls[j].Call
		if q.xml {
			renderTagged(b, call)
			continue
		}
		b.markup("<tool_call>\n{\"name\": \"")
		b.plain(call.Name + "\", \"arguments\": ")
		b.text = rawjson.AppendSpaced(b.text, call.Arguments)
		b.markup("}\n</tool_call>")
	}
}

func (q *qwen) write(b *builder, m *message, _ *Catalog) { q.said(b, m, q.trim(m.content)) }

func renderTagged(b *builder, call *tools.Call) {
	b.markup("<tool_call>\n<function=")
	b.plain(call.Name + ">\n")
	for name, value := range protocol.Members(call.Arguments) {
		b.plain("<parameter=" + name + ">\n")
		b.text = appendUnquoted(b.text, value)
		b.plain("\n</parameter>\n")
	}
	b.markup("</function>\n</tool_call>")
}

// appendUnquoted appends strings without quotes, constants as Python writes them, and other values as JSON.
func appendUnquoted(dst []byte, value protocol.Raw) []byte {
	switch value.Kind() {
	case '"':
		s, _ := protocol.Text(value)
		return append(dst, s...)
	case 't':
		return append(dst, "True"...)
	case 'f':
		return append(dst, "False"...)
	case 'n':
		return append(dst, "None"...)
	}
	return rawjson.AppendSpaced(dst, value)
}

func appendCoderTool(dst []byte, t *tools.Tool) []byte {
	dst = fmt.Appendf(dst, "<function>\n<name>%s</name>\n<description>%s</description>\n<parameters>", t.Name, trimSpace(t.Description))
	properties := t.Prompted.Get("properties") // the tool's may be more: some are only required
	for i := range t.Properties {
		p := &t.Properties[i]
		dst = fmt.Appendf(dst, "\n<parameter>\n<name>%s</name>", p.Name)
		spec := properties.Get(p.Name)
		if spec.Has("type") {
			dst = append(appendUnquoted(append(dst, "\n<type>"...), spec.Get("type").Raw()), "</type>"...)
		}
		if spec.Has("description") {
			dst = fmt.Appendf(dst, "\n<description>%s</description>", trimSpace(text(spec, "description")))
		}
		dst = appendExtraKeys(dst, spec, "name", "type", "description")
		dst = append(dst, "\n</parameter>"...)
	}
	dst = appendExtraKeys(dst, t.Prompted, "type", "properties")
	return append(dst, "\n</parameters>\n</function>"...)
}

// appendExtraKeys appends the members of a schema that are not in handled, each as a tag of its name.
func appendExtraKeys(dst []byte, schema *tree.Value, handled ...string) []byte {
	for _, m := range schema.Members {
		if !slices.Contains(handled, m.Name) {
			dst = appendUnquoted(fmt.Appendf(dst, "\n<%s>", m.Name), m.Raw())
			dst = fmt.Appendf(dst, "</%s>", m.Name)
		}
	}
	return dst
}
