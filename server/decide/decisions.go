package decide

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/decide"
	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
	"agentd/server/openai"
)

// decisionsRequest is the body of POST /v1/decisions, as in OpenAI's package 3.51.0. Tools, Orders and MinMass are ours.
type decisionsRequest struct {
	openai.Strict
	asking
	Model     string         `json:"model"`
	Input     jsontext.Value `json:"input"`
	Questions []asked        `json:"questions"`
	Tools     []function     `json:"tools"`
	CacheKey  string         `json:"prompt_cache_key"`

	// These change nothing here.
	CacheOptions jsontext.Value `json:"prompt_cache_options"`
	SafetyID     string         `json:"safety_identifier"`
}

type function struct {
	openai.Strict
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  jsontext.Value `json:"parameters"`
	StrictCalls *bool          `json:"strict"` // calls always fit
}

type asked struct {
	openai.Strict
	Type         string         `json:"type"`
	Name         *string        `json:"name"`
	Instructions jsontext.Value `json:"instructions"`
	Choices      []choice       `json:"choices"`
	Levels       []level        `json:"levels"`
}

type choice struct {
	openai.Strict
	Value       jsontext.Value `json:"value"`
	Description string         `json:"description"`
}

// functionCall is a call as the value of a choice.
type functionCall struct {
	openai.Strict
	Type      string `json:"type"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type level struct {
	openai.Strict
	Label       string `json:"label"`
	Description string `json:"description"`
}

// item is an element of the input.
type item struct {
	openai.Strict
	Type      string         `json:"type"`
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	Name      string         `json:"name"`
	Arguments string         `json:"arguments"`
	Input     string         `json:"input"`
	CallID    string         `json:"call_id"`
	Output    jsontext.Value `json:"output"`

	// These change nothing here.
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Status    string `json:"status"`
	Phase     string `json:"phase"`
}

type part struct {
	openai.Strict
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	Refusal  string         `json:"refusal"`
	Data     jsontext.Value `json:"data"`
	ImageURL string         `json:"image_url"`
	Detail   string         `json:"detail"`

	Breakpoint jsontext.Value `json:"prompt_cache_breakpoint"` // changes nothing here
}

const maxJSON = 256 << 10 // bytes of a part, as OpenAI has it

// decisionAnswer is an answer of any type. Label mass is ours.
type decisionAnswer struct {
	Type          string   `json:"type"`
	Name          *string  `json:"name"`
	Probability   *float64 `json:"probability,omitzero"`
	Choice        any      `json:"choice,omitzero"`
	Score         *float64 `json:"score,omitzero"`
	Confidence    *float64 `json:"confidence,omitzero"`
	Probabilities []chance `json:"probabilities,omitzero"`
	LabelMass     float64  `json:"label_mass"`
}

type chance struct {
	Label       *string `json:"label,omitzero"`
	Value       any     `json:"value"`
	Probability float64 `json:"probability"`
}

type decisionsUsage struct {
	Input        int `json:"input_tokens"`
	InputDetails struct {
		CacheWrite int `json:"cache_write_tokens"`
		Cached     int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output        int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

// Decisions answers POST /v1/decisions.
func Decisions(ctx context.Context, m Model, body []byte) ([]byte, error) {
	var r decisionsRequest
	if err := openai.Decode(body, &r); err != nil {
		return nil, err
	}
	c := &call{asking: r.asking, model: m, served: m.Served()}
	var err error
	if c.params.Adapter, err = openai.Choose(m, &c.served, r.Model); err != nil {
		return nil, err
	}
	if r.CacheKey != "" {
		return nil, openai.Refuse("prompt_cache_key", "is not supported: all requests share the prefix cache; remove it")
	}
	chat, err := r.chat(ctx)
	if err != nil {
		return nil, err
	}
	questions := make([]question, 0, min(len(r.Questions), decide.MaxQuestions))
	for i := range r.Questions[:cap(questions)] {
		q, err := r.Questions[i].question(fmt.Sprintf("questions[%d]", i), len(r.Tools) > 0)
		if err != nil {
			return nil, err
		}
		questions = append(questions, q)
	}
	if len(r.Questions) > len(questions) {
		return nil, openai.Refuse("questions", "has %d questions, want 1 to %d", len(r.Questions), decide.MaxQuestions)
	}
	answers, err := c.ask(ctx, chat, "input", questions)
	if err != nil {
		return nil, err
	}
	var usage decisionsUsage
	list := make([]decisionAnswer, len(answers))
	for i := range answers {
		a := &answers[i]
		usage.Input, usage.Output = usage.Input+a.Input, usage.Output+a.Output
		usage.InputDetails.Cached += a.Cached
		list[i] = r.Questions[i].answer(a)
	}
	usage.InputDetails.CacheWrite, usage.Total = usage.Input-usage.InputDetails.Cached, usage.Input+usage.Output
	return openai.Marshal(map[string]any{"answers": list, "model": c.served.Name, "usage": &usage})
}

// chat makes the state of the input.
func (r *decisionsRequest) chat(ctx context.Context) (*format.Chat, error) {
	chat := &format.Chat{Functions: tools.Functions{OneCall: true}}
	for i := range r.Tools {
		f := &r.Tools[i]
		if f.Type != "function" {
			return nil, openai.Refuse(fmt.Sprintf("tools[%d].type", i), "is %q; only function is supported", f.Type)
		}
		raw, err := openai.Marshal(struct {
			Name        string         `json:"name"`
			Description string         `json:"description,omitzero"`
			Parameters  jsontext.Value `json:"parameters,omitzero"`
		}{f.Name, f.Description, f.Parameters})
		if err != nil {
			return nil, err
		}
		chat.Functions.Raw = append(chat.Functions.Raw, raw)
	}
	if text, ok := protocol.Text(r.Input); ok {
		if strings.TrimSpace(text) == "" {
			return nil, openai.Refuse("input", "is empty; give the text that the questions are about")
		}
		chat.Messages = []format.ChatMessage{{Text: text}}
		return chat, nil
	}
	if r.Input.Kind() != '[' {
		return nil, openai.Refuse("input", "must be a text, or a list of messages, calls and outputs")
	}
	t := turns{system: &chat.System}
	for e := range protocol.Elements(r.Input) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := t.add(e); err != nil {
			return nil, err
		}
	}
	if err := t.flush(); err != nil {
		return nil, err
	}
	if len(t.List) == 0 {
		return nil, openai.Refuse("input", "has no message to the model")
	}
	chat.Messages = t.List
	return chat, nil
}

// turns collect the items of an input.
type turns struct {
	openai.Turns
	system *string
	calls  []openai.ToolCall // of one turn of the model
	n      int
}

// flush adds the turn of the model whose calls came last.
func (t *turns) flush() error {
	if len(t.calls) == 0 {
		return nil
	}
	m := openai.Message{Role: "assistant", ToolCalls: t.calls}
	t.calls = nil
	return t.Model(&m, fmt.Sprintf("input[%d]", t.n-1))
}

func (t *turns) add(raw protocol.Raw) error {
	field := fmt.Sprintf("input[%d]", t.n)
	var it item
	if err := at(field, openai.Decode(raw, &it)); err != nil {
		return err
	}
	called := it.Type == "function_call" || it.Type == "custom_tool_call"
	if !called {
		if err := t.flush(); err != nil {
			return err
		}
	}
	t.n++
	if called {
		arguments := it.Arguments
		if it.Type == "custom_tool_call" {
			arguments = `{"input":` + string(protocol.String(it.Input)) + "}"
		}
		if raw := protocol.Raw(strings.TrimSpace(arguments)); raw.Kind() != '{' || !raw.IsValid() {
			return openai.Refuse(field+".arguments", "must be the text of a JSON object")
		}
		if it.Name == "" || it.CallID == "" {
			return openai.Refuse(field, "needs a name and a call_id")
		}
		t.calls = append(t.calls, openai.ToolCall{ID: it.CallID, Function: openai.Called{Name: it.Name, Arguments: arguments}})
		return nil
	}
	content, name := it.Content, "content"
	if it.Type == "function_call_output" || it.Type == "custom_tool_call_output" {
		content, name = it.Output, "output"
	}
	text, err := textOf(content, field+"."+name)
	switch {
	case err != nil:
		return err
	case name == "output":
		if !t.Result(it.CallID, text) {
			return openai.Refuse(field+".call_id", "%q is the id of no call before it that has no output", it.CallID)
		}
	case it.Type != "" && it.Type != "message":
		return openai.Refuse(field+".type", "is %q; want message, function_call, function_call_output, custom_tool_call or custom_tool_call_output", it.Type)
	case it.Role == "user":
		t.Add(format.ChatMessage{Text: text})
	case it.Role == "assistant":
		t.Add(format.ChatMessage{Model: true, Text: text})
	case it.Role != "system" && it.Role != "developer":
		return openai.Refuse(field+".role", "is %q; want system, developer, user or assistant", it.Role)
	case len(t.List) > 0:
		return openai.Refuse(field, "is a %s message after others; put it first", it.Role)
	default:
		*t.system = strings.TrimSpace(*t.system + "\n\n" + text)
	}
	return nil
}

// at puts a field before that of an error.
func at(field string, err error) error {
	refused, ok := errors.AsType[*openai.Error](err)
	switch {
	case !ok:
		return err
	case refused.Param != "body":
		field += "." + refused.Param
	}
	return openai.Refuse(field, "%s", refused.Message)
}

// textOf reads a text, or parts of one.
func textOf(v jsontext.Value, field string) (string, error) {
	raw := v
	if text, ok := protocol.Text(raw); ok {
		return text, nil
	}
	if raw.Kind() != '[' {
		return "", openai.Refuse(field, "must be a text or a list of parts")
	}
	var texts []string
	for e := range protocol.Elements(raw) {
		field := fmt.Sprintf("%s[%d]", field, len(texts))
		var p part
		if err := at(field, openai.Decode(e, &p)); err != nil {
			return "", err
		}
		switch p.Type {
		case "input_text", "output_text":
			texts = append(texts, p.Text)
		case "refusal":
			texts = append(texts, p.Refusal)
		case "input_json":
			if !isJSON(p.Data) || len(p.Data) > maxJSON {
				return "", openai.Refuse(field+".data", "must be an object or a list of objects, of at most %d bytes", maxJSON)
			}
			texts = append(texts, string(p.Data))
		case "input_image":
			return "", openai.Refuse(field, "is an image, and images can't be read; remove the part")
		default:
			return "", openai.Refuse(field+".type", "is %q; want input_text or input_json", p.Type)
		}
	}
	return strings.Join(texts, "\n"), nil
}

// isJSON reports whether v is an object or a list of objects.
func isJSON(v protocol.Raw) bool {
	for e := range protocol.Elements(v) {
		if e.Kind() != '{' {
			return false
		}
	}
	return v.Kind() == '{' || v.Kind() == '['
}

// question checks a question. path is its field.
func (a *asked) question(path string, hasTools bool) (q question, err error) {
	q.path = path
	if q.Instructions, err = textOf(a.Instructions, path+".instructions"); err != nil {
		return q, err
	}
	if a.Choices != nil && a.Type != "choice" || a.Levels != nil && a.Type != "score" {
		return q, openai.Refuse(path, "is a %s; choices are for a choice and levels for a score", a.Type)
	}
	switch a.Type {
	case "predicate":
		q.Kind, q.Options = decide.YesNo, make([]decide.Option, 2)
	case "choice":
		err = a.choices(&q, hasTools)
	case "score":
		q.Kind = decide.Levels
		for _, l := range a.Levels {
			q.Options = append(q.Options, decide.Option{Name: l.Label, Description: l.Description})
		}
		err = q.checkOptions("levels", 2, name)
	default:
		return q, openai.Refuse(path+".type", "is %q; want predicate, choice or score", a.Type)
	}
	if err == nil && q.Kind != decide.Whole && strings.TrimSpace(q.Instructions) == "" {
		err = openai.Refuse(path+".instructions", "are empty; give a text")
	}
	return q, err
}

// choices reads the choices: texts and booleans, or calls and replies.
func (a *asked) choices(q *question, hasTools bool) error {
	q.Kind = decide.Letters
	keys := map[*decide.Option]string{}
	q.Options = make([]decide.Option, len(a.Choices))
	for i := range a.Choices {
		c, o, field := &a.Choices[i], &q.Options[i], fmt.Sprintf("%s.choices[%d].value", q.path, i)
		raw := c.Value
		o.Description = c.Description
		switch raw.Kind() {
		case '"':
			o.Name, _ = protocol.Text(raw)
			keys[o], o.Decision.Say = o.Name, o.Name
		case 't', 'f':
			o.Name = string(raw)
			keys[o] = "\x00" + o.Name // not the text
		case '{':
			var v functionCall
			if err := at(field, openai.Decode(raw, &v)); err != nil {
				return err
			}
			arguments := protocol.Raw(v.Arguments).Clone()
			switch {
			case v.Type != "function_call":
				return openai.Refuse(field+".type", "is %q; want function_call", v.Type)
			case arguments.Kind() != '{' || !arguments.IsValid():
				return openai.Refuse(field+".arguments", "must be the text of a JSON object")
			case !hasTools:
				return openai.Refuse(field, "is a call, and there are no tools; give the function in tools")
			}
			q.Kind = decide.Whole
			o.Decision.ToolCalls = []tools.Call{{Name: v.Name, Arguments: arguments.Clone()}}
			_ = arguments.Canonicalize()
			keys[o] = "\x00" + strconv.Quote(v.Name) + string(arguments)
		default:
			return openai.Refuse(field, "must be a text, a boolean or a function_call")
		}
	}
	for i := range q.Options {
		if o := &q.Options[i]; q.Kind == decide.Whole && (o.Description != "" || o.Decision.Say == "" && o.Decision.ToolCalls == nil) {
			return openai.Refuse(fmt.Sprintf("%s.choices[%d]", q.path, i), "must be a call or a reply without a description: beside calls the model is shown the tools only")
		}
	}
	return q.checkOptions("choices", 2, func(o *decide.Option) string { return keys[o] })
}

// answer is the answer of the question.
func (a *asked) answer(given *decide.Answer) decisionAnswer {
	out := decisionAnswer{Type: a.Type, Name: a.Name, LabelMass: given.Mass}
	p := given.Probabilities
	if p == nil {
		out.Type = "refusal"
		return out
	}
	top := given.Top()
	switch a.Type {
	case "predicate":
		out.Probability = &p[0]
	case "choice":
		out.Choice, out.Confidence = a.Choices[top].Value, &p[top]
		for i := range p {
			out.Probabilities = append(out.Probabilities, chance{Value: a.Choices[i].Value, Probability: p[i]})
		}
	case "score":
		out.Confidence, out.Score = &p[top], new(expected(p))
		for i := range p {
			out.Probabilities = append(out.Probabilities, chance{Label: &a.Levels[i].Label, Value: i, Probability: p[i]})
		}
	}
	return out
}

// expected is the mean level.
func expected(p []float64) (sum float64) {
	for i, x := range p {
		sum += float64(i) * x
	}
	return sum
}
