package format

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/rawjson"
	"agentd/agent/memory"
	"agentd/agent/tools"
	"agentd/protocol"
)

// template renders the model's own Jinja template.
//
// A template that uses permanent_rules or task_attributes was written for this agent: it gets tools, rules, summary and
// attributes as variables, and instructs the model itself. Any other template gets messages only; the system message
// has the instructions and the tools. If the template refuses a system message, its text begins the first user message.
type template struct {
	common
	made    bool // written for this agent
	joined  bool // there is no system message
	turns   bool // the roles of messages must alternate
	jsonOut bool // StyleJSON
	source  string
	kit     ModelAPI
}

// TemplateError says why the chat template can't render: an error that it raises, a limit, or a mistake in it.
type TemplateError struct{ Err error }

func (e *TemplateError) Error() string {
	return "the chat template can't render these messages: " + e.Err.Error()
}
func (e *TemplateError) Unwrap() error { return e.Err }

func newTemplate(o Options, c common) (*template, error) {
	if o.ChatTemplate == "" {
		return nil, fmt.Errorf("model_format %s: the model has no chat template; set Config.Prompt.ChatTemplate", Template)
	}
	style := o.OutputStyle
	if style != "" && style != StyleBlocks && style != StyleJSON {
		return nil, fmt.Errorf("output_style %q is unknown; use %s or %s", style, StyleBlocks, StyleJSON)
	}
	var specials []string
	for _, s := range o.ModelAPI.SpecialTokens() {
		if len([]rune(s)) > 1 { // a mark can't break up one character
			specials = append(specials, s)
		}
	}
	c.split, c.showsResults = newSplitter(specials), false
	t := &template{
		common:  c,
		made:    madeForAgent(o.ChatTemplate),
		jsonOut: style == StyleJSON,
		source:  o.ChatTemplate,
		kit:     o.ModelAPI,
	}
	// A template made for this agent takes reports of the environment as system messages.
	hello := message{role: roleUser, content: "Hello"}
	if _, err := t.try(hello); err != nil {
		return nil, fmt.Errorf("%w, which are one user message", err)
	}
	// Some templates raise an error for a system message, or leave it out; some for two messages of one side in a row.
	const sample = "Answer in one word."
	t.joined = t.made || !strings.Contains(t.shown(message{role: roleSystem, content: sample}, hello), sample)
	t.turns = t.shown(hello, hello) == ""
	return t, nil
}

// try renders messages without tools and attributes.
func (t *template) try(list ...message) (string, error) {
	p, err := t.render(inputOf(nil), messagesJSON(list))
	if err != nil {
		return "", err
	}
	return p.Text, nil
}

// shown is try, with "" where the template fails.
func (t *template) shown(list ...message) string {
	text, _ := t.try(list...)
	return text
}

// inTurns joins adjacent messages of one role, if the template needs alternating roles.
func (t *template) inTurns(list []message) []message {
	if !t.turns {
		return list
	}
	var out []message
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].role == list[0].role {
			n++
		}
		m := list[n-1] // only the last message has attributes
		if n > 1 {
			texts := make([]string, n)
			for i := range texts {
				texts[i] = list[i].content
			}
			m.content = strings.Join(texts, "\n\n")
		}
		out, list = append(out, m), list[n:]
	}
	return out
}

// inputOf returns an input that has tools only, to render messages without an input.
func inputOf(raw []protocol.Raw) *Input {
	return &Input{Request: &protocol.AgentInput{Attributes: protocol.Raw("{}"), Tools: raw}, Memory: new(memory.Memory)}
}

// join prepends the system text to the first user message. Before a model's message it becomes a user message.
func join(list []message) []message {
	if len(list) > 1 && list[1].role == roleUser {
		list[1].content = list[0].content + "\n\n" + list[1].content
		return list[1:]
	}
	list[0].role = roleUser
	return list
}

func madeForAgent(template string) bool {
	return strings.Contains(template, "permanent_rules") || strings.Contains(template, "task_attributes")
}

func (t *template) Catalog(set *tools.Set) *Catalog {
	c := &Catalog{Set: set, CallBegin: callOpen, spacing: t.spacing(gbnf.AnySpacing), build: t.grammar}
	if t.jsonOut {
		c.CallBegin = `"action":`
	}
	if t.made {
		return c
	}
	form, action := "A reply is plain text; tool calls are <tool_call>\nACTION\n</tool_call>.", `{robot: {"name": tool, "arguments": {...}}}`
	if t.jsonOut {
		form = `A reply is {"say": "the text", "action": {}}; tool calls are {"say": "", "action": ACTION}.`
	}
	if set.Chat {
		action = `{"name": tool, "arguments": {...}}`
	}
	if !set.OneCall {
		action += ", or a list of such objects for several calls"
	}
	text := []byte("\n\n# Output\n" + form + " ACTION is " + action + ".")
	if len(set.Tools) > 0 {
		text = append(text, "\n\n# Tools"...)
	}
	for i := range set.Tools {
		tool := &set.Tools[i]
		text = rawjson.AppendSpaced(append(text, '\n'), appendDescription(nil, tool, tool.Schema))
	}
	c.text = string(text)
	return c
}

const turnMark = "\uF8FE\uF8FF\uF8FE" // marks the end of the model's last turn in a trial rendering

func (t *template) Render(in *Input) (*Prompt, error) {
	if in.Chat != nil {
		return t.renderChat(in.Chat, in.catalog())
	}
	p, err := t.render(in, t.messages(in, ""))
	if err != nil || !in.FindTurn || strings.Contains(p.Text, turnMark) {
		return p, err
	}
	marked, err := t.render(in, t.messages(in, turnMark))
	if err != nil {
		return p, nil //nolint:nilerr // the prompt is whole without the place
	}
	if at := strings.LastIndex(marked.Text, turnMark); at > 0 && marked.Text[:at]+marked.Text[at+len(turnMark):] == p.Text {
		p.LastTurn = at
	}
	return p, nil
}

// renderChat renders a chat. Calls and results are written into the texts of its messages.
func (t *template) renderChat(c *Chat, catalog *Catalog) (*Prompt, error) {
	list := c.messages()
	if catalog.text != "" {
		list[0].content = trimSpace(list[0].content + catalog.text)
	}
	for i := range c.Messages {
		said, m := &c.Messages[i], &list[i+1]
		switch {
		case said.System && t.joined:
			m.role = roleUser
		case said.Of != "":
			m.role, m.content = roleUser, "Result of "+said.Of+":\n"+said.Text
		case said.Model && (len(catalog.Set.Tools) > 0 || len(said.Calls) > 0):
			m.content, m.calls = t.answer(said.Text, said.Calls), nil
		}
	}
	switch {
	case list[0].content == "":
		list = list[1:] // or the template's own is left out
	case t.joined || len(c.Messages) == 0: // some templates need a message of a user
		list = join(list)
	}
	return t.render(inputOf(c.Functions.Raw), messagesJSON(t.inTurns(list)))
}

// render runs the template with messages and the other variables of an input.
func (t *template) render(in *Input, messages protocol.Raw) (*Prompt, error) {
	rawTools := protocol.AppendElements(nil, in.Request.Tools...)
	vars := append([]byte(`{"messages":`), messages...)
	if t.made {
		vars = append(append(vars, `,"tools":`...), rawTools...)
		vars = append(vars, `,"permanent_rules":`...)
		vars = rawjson.AppendStrings(vars, in.Memory.Rules)
		vars = append(vars, `,"summary":`...)
		vars = rawjson.AppendString(vars, in.Memory.Summary)
		vars = append(append(vars, `,"task_attributes":`...), in.Request.Attributes...)
	}
	vars = fmt.Appendf(vars, `,"add_generation_prompt":true,"enable_thinking":%t}`, t.think)

	m := newMarker(vars, t.source)
	text, err := t.kit.RenderTemplate(m.mark(vars, t.split))
	if err != nil {
		return nil, &TemplateError{err}
	}
	if text == "" {
		return nil, &TemplateError{errors.New("the prompt is empty")}
	}
	b := &builder{split: t.split}
	for _, p := range t.split.split(text) {
		if p.Special {
			b.markup(p.Text)
		} else {
			b.plain(m.removal.Replace(p.Text))
		}
	}
	return b.prompt(messages, rawTools), nil
}

// messages returns the chat messages of an input. mark is appended to the model's last one.
func (t *template) messages(in *Input, mark string) protocol.Raw {
	list := conversation(in, t.made, func(_ *Input, entry *memory.Entry, _ memory.Turn) message {
		return message{role: roleAssistant, content: t.answer(entry.Say, entry.Calls)}
	})
	if !t.made {
		list[0].content += in.Catalog.text
	}
	for i := range slices.Backward(list) {
		if list[i].role == roleAssistant {
			list[i].content += mark
			break
		}
	}
	if t.made {
		return messagesJSON(list)
	}
	if t.joined {
		list = join(list)
	}
	return messagesJSON(t.inTurns(list))
}

func (t *template) write(b *builder, m *message, c *Catalog) {
	if len(c.Set.Tools) == 0 && (c == noTools || !t.jsonOut) {
		b.plain(m.content)
		return
	}
	calls := make([]tools.Call, len(m.calls))
	for i, call := range m.calls {
		calls[i] = call.Call
		if call.robotParam != "" {
			calls[i].Arguments = protocol.DeleteMember(call.Arguments, call.robotParam)
		}
	}
	if t.jsonOut {
		list := len(calls) > 1 && t.unit(c.Set, gbnf.UnitBegin) != "" // else as prompts show it, see addAction
		b.plain(string(memory.WriteDecision(m.content, calls, list)))
		return
	}
	b.plain(t.answer(m.content, calls))
}

func (t *template) answer(say string, calls []tools.Call) string {
	if t.jsonOut {
		return string(memory.WriteDecision(say, calls, false))
	}
	if len(calls) == 0 {
		return say
	}
	action, _ := protocol.Get(memory.WriteDecision("", calls, len(calls) > 1), "action")
	return say + callOpen + "\n" + string(action) + "\n" + callClose
}

// marker distinguishes special tokens of the template from the same texts in a user's strings.
// Before rendering it inserts a unique character into the latter, and removes it afterwards.
type marker struct {
	sentinel rune
	removal  *strings.Replacer
}

// The private use area of the Basic Multilingual Plane.
const (
	firstPrivate = '\uE000'
	lastPrivate  = '\uF8FF'
)

// newMarker chooses a character that neither text contains, not even escaped.
func newMarker(vars []byte, template string) *marker {
	var taken [lastPrivate - firstPrivate + 1]bool
	note(&taken, string(vars))
	note(&taken, template)
	m := &marker{sentinel: lastPrivate}
	if free := slices.Index(taken[:], false); free >= 0 {
		m.sentinel = firstPrivate + rune(free)
	}
	m.removal = strings.NewReplacer(string(m.sentinel), "",
		fmt.Sprintf(`\u%04x`, m.sentinel), "", fmt.Sprintf(`\u%04X`, m.sentinel), "")
	return m
}

// note sets taken for the private characters of a text, literal or escaped, in one pass.
func note(taken *[lastPrivate - firstPrivate + 1]bool, text string) {
	for i, r := range text {
		if (r == 'u' || r == 'U') && i+4 < len(text) {
			n, err := strconv.ParseUint(text[i+1:i+5], 16, 16)
			if err != nil {
				continue
			}
			r = rune(n)
		}
		if r >= firstPrivate && r <= lastPrivate {
			taken[r-firstPrivate] = true
		}
	}
}

// mark inserts the character into texts of special tokens within the strings of a JSON text.
func (m *marker) mark(vars protocol.Raw, split *splitter) []byte {
	// Fewest escapes: a token's text stands in a string as it is.
	text := string(rawjson.AppendSpaced(nil, vars))
	out := make([]byte, 0, len(text)+64)
	quoted := false
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
			i++
			out = append(out, c)
		case quoted && c == '\\':
			out = append(out, text[i:i+2]...)
			i += 2
		case quoted && split.at(text, i) != "":
			_, size := utf8.DecodeRuneInString(text[i:])
			out = append(out, text[i:i+size]...)
			out = utf8.AppendRune(out, m.sentinel)
			i += size
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}
