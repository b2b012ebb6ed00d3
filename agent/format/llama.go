package format

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/rawjson"
	"agentd/agent/tools"
)

// llama is the format of Llama 3.1, 3.2 and 3.3: messages between header tokens, calls as {"name", "parameters"}
// objects, results in the role ipython. It keeps no state in memory, since these models do not reason. The first
// implementation marks a question to the user under the key _llama; here it is a reply like any other.
type llama struct {
	common
	date string // "Today Date" of the system message
	tag  bool   // the vocabulary has pythonTag
}

// pythonTag is a control token that the models write before calls. The templates do not render it.
const pythonTag = "<|python_tag|>"

// Texts of the models' templates, with which they were trained.
const (
	llamaSystem     = "<|begin_of_text|>" + llamaLateSystem
	llamaLateSystem = "<|start_header_id|>system<|end_header_id|>\n\n"
	llamaIpython    = "Environment: ipython\n"
	llamaCutoff     = "Cutting Knowledge Date: December 2023\n"
	llamaToday      = "Today Date: "
	llamaIntro      = "Given the following functions, please respond with a JSON for a function call "
	llamaPurpose    = "with its proper arguments that best answers the given prompt.\n\n"
	llamaForm       = `Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.`
	llamaNoNames    = "Do not use variables.\n\n"
	llamaUser       = "<|start_header_id|>user<|end_header_id|>\n\n"
	llamaModel      = "<|start_header_id|>assistant<|end_header_id|>\n\n"
	llamaResult     = "<|start_header_id|>ipython<|end_header_id|>\n\n"
	llamaTurnEnd    = "<|eot_id|>"
	llamaName       = `{"name": "`
	llamaParameters = `", "parameters": ` // between a call's name and its parameters
)

const llamaNextCall = "; " // between two calls, as the models and the first implementation write it

// llamaDate is the default date in the templates of Llama 3.1 to 3.3. The
// current date, which later templates prefer, would change prompts overnight.
const llamaDate = "26 Jul 2024"

var llamaDateIn = regexp.MustCompile(`date_string = "([^"]*)"`)

// isLlama reports whether the format llama renders the same bytes as a template.
func isLlama(template string) bool {
	for _, text := range []string{
		"<|start_header_id|>", llamaIpython, llamaCutoff, llamaToday, llamaIntro, llamaPurpose, llamaForm, llamaNoNames, `"parameters": `,
		"tools_in_user_message = true",
	} {
		if !strings.Contains(template, strings.TrimSpace(text)) {
			return false
		}
	}
	return true
}

func newLlama(o Options, c common, tag bool) (*llama, error) {
	if o.EnableThinking {
		return nil, fmt.Errorf("Config.Prompt.EnableThinking: models of Config.Format %s have no thinking to switch on; leave it out", Llama)
	}
	c.next = llamaParameters
	f := &llama{common: c, date: llamaDate, tag: tag}
	if found := llamaDateIn.FindStringSubmatch(o.ChatTemplate); found != nil {
		f.date = found[1]
	}
	return f, nil
}

func (f *llama) Catalog(set *tools.Set) *Catalog {
	c := &Catalog{
		Set: set, json: functionsJSON(set.Tools), spacing: f.spacing(gbnf.DumpsSpacing), build: f.grammar,
		CallBegin: llamaName,
	}
	var b []byte
	for i := range set.Tools {
		b = rawjson.AppendIndented(b, appendFunction(nil, &set.Tools[i]))
		b = append(b, "\n\n"...)
	}
	c.text = string(b)
	return c
}

// severalCalls describes how to write several calls; the templates describe one only.
const severalCalls = "\n\nTo make several calls at once, write one JSON object for each of them, separated by semicolons."

func (f *llama) Render(in *Input) (*Prompt, error) {
	messages, c := conversation(in, false, decided), in.catalog()
	if set := c.Set; len(set.Tools) > 0 {
		if len(set.Robots) > 1 || set.Chat && !set.OneCall {
			messages[0].content += severalCalls
		}
		if len(messages) == 1 || messages[1].role != roleUser { // which has the tools
			messages = slices.Insert(messages, 1, message{role: roleUser})
		}
	}
	b := newBuilder(f.split, c, messages)
	b.markup(llamaSystem)
	if c.text != "" {
		b.markup(llamaIpython)
	}
	b.block(llamaCutoff+llamaToday, f.date+"\n\n"+trimSpace(messages[0].content), llamaTurnEnd)
	for i := 1; i < len(messages); i++ {
		m := &messages[i]
		switch m.role {
		case roleUser:
			b.markup(llamaUser)
			if i == 1 && c.text != "" {
				b.markup(llamaIntro + llamaPurpose + llamaForm + llamaNoNames)
				b.plain(c.text)
			}
			b.plain(trimSpace(m.fullContent()))
		case roleSystem:
			b.block(llamaLateSystem, trimSpace(m.content), "")
		case roleTool:
			b.markup(llamaResult)
			b.text = appendResult(b.text, m)
		case roleAssistant:
			b.markup(llamaModel)
			f.write(b, m, nil)
			b.endTurn(llamaTurnEnd)
			continue
		}
		b.markup(llamaTurnEnd)
	}
	b.markup(llamaModel)
	return b.prompt(messagesJSON(messages), c.json), nil
}

// write writes a decision. Parts that the templates do not render are written as the models write them.
func (f *llama) write(b *builder, m *message, _ *Catalog) {
	b.plain(trimSpace(m.content))
	if len(m.calls) > 1 || (len(m.calls) > 0 && m.content != "") {
		b.markup(pythonTag)
	}
	for i := range m.calls {
		if i > 0 {
			b.plain(llamaNextCall)
		}
		b.plain(llamaName)
		b.plain(m.calls[i].Name)
		b.plain(llamaParameters)
		b.text = rawjson.AppendSpaced(b.text, m.calls[i].Arguments)
		b.plain("}")
	}
}

// llamaMarks must not occur in a reply, whose meaning they would change.
var llamaMarks = []string{
	pythonTag, "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|end_of_text|>",
}

// grammar admits what Parse accepts for these tools, with the spacing of the calls in the prompt:
//
//	root ::= <|python_tag|>? call ("; " call)* | a call in another form | reply
func (f *llama) grammar(g *gbnf.Grammar, c *Catalog) error {
	set, reply := c.Set, gbnf.Text{Forbidden: llamaMarks, NonBlank: true}
	answer, tagged := "reply", ""
	if len(set.Tools) > 0 {
		objects := functions{g: g, robot: f.addRobot(g, set, jsonString), next: llamaParameters}
		end := f.unit(set, gbnf.UnitEnd)
		if err := addCall(g, "call", set, f.unit(set, gbnf.UnitBegin)+gbnf.Literal(llamaName), end+gbnf.Literal("}"), objects.add); err != nil {
			return err
		}
		calls := fmt.Sprintf("call ( %s%s call ){0,%d}", f.unit(set, gbnf.UnitNext), gbnf.Literal(llamaNextCall), f.most(set)-1)
		if f.tag { // a token of the vocabulary
			tagged = f.introduced(set, pythonTag+" "+calls)
			calls = pythonTag + "? " + calls
		}
		g.Add("calls", calls)
		answer = f.addForms(g, c, &reply, "calls", objects.forms(end))
	}
	g.Add("root", answer)
	return c.addReply(g, reply, tagged)
}

// ParseChat removes the tag before a JSON object.
func (f *llama) ParseChat(text string) (string, error) {
	return strings.TrimSpace(strings.TrimPrefix(trimSpace(trimLlama(text)), pythonTag)), nil
}

// trimLlama removes the texts of end tokens at the end of an answer.
func trimLlama(text string) string {
	for before := -1; before != len(text); {
		before, text = len(text), trimEnd(text)
		for _, end := range []string{"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"} {
			text = strings.TrimSuffix(text, end)
		}
	}
	return text
}

var llamaCall = regexp.MustCompile(`^\{\s*"name"\s*:\s*"([^"\\]+)"`)

// Parse parses calls, with or without the tag, or a reply. It accepts the separators that the models write.
func (f *llama) Parse(text string, c *Catalog) (Decision, error) {
	text = trimSpace(trimLlama(text))
	say, rest, tagged := "", text, false
	if begun := llamaCall.FindStringSubmatch(text); begun != nil {
		_, tagged = c.Set.Find(begun[1])
	}
	if calls, form, _ := recognise(text, c.Set); !tagged && len(calls) > 0 { // strings in them may have the tag
		d, err := f.decide(c.Set, text, nil, nil)
		if form == FormBare {
			d.CallForm = FormNative
		}
		return d, err
	}
	if !tagged {
		say, rest, tagged = strings.Cut(text, pythonTag)
	}
	var calls []tools.Call
	for tagged {
		value, after, err := readJSON(rest, "a tool call is")
		if err != nil {
			return Decision{}, err
		}
		if calls, err = readAction(calls, asFunction(value), c.Set); err != nil {
			return Decision{}, err
		}
		after = trimSpace(after)
		rest = trimSpace(strings.TrimPrefix(strings.TrimLeft(after, ";, \t\r\n"), pythonTag))
		if tagged = strings.HasPrefix(rest, "{"); !tagged {
			say += strings.TrimSuffix(after, ";")
		}
	}
	if err := stray(say, llamaMarks); err != nil {
		return Decision{}, err
	}
	return f.decide(c.Set, say, calls, nil)
}
