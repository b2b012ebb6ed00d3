package decide

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/decide"
	"agentd/agent/format"
	"agentd/protocol"
	"agentd/server/openai"
)

// systemOneRequest is the body of POST /v1/systemone, as in vLLM 0.32. orders and min_label_mass are our additions.
type systemOneRequest struct {
	openai.Strict
	asking
	Model        string         `json:"model"`
	State        jsontext.Value `json:"state"`
	Questions    jsontext.Value `json:"questions"`
	Instructions string         `json:"instructions"`
	Images       []string       `json:"images"`
	Audio        []string       `json:"audio"`
	Videos       []string       `json:"videos"`
	Template     map[string]any `json:"chat_template_kwargs"`
	CacheSalt    string         `json:"cache_salt"`
	Priority     int            `json:"priority"`
	RequestID    string         `json:"request_id"`
}

type systemQuestion struct {
	openai.Strict
	Type         string         `json:"type"`
	Instructions jsontext.Value `json:"instructions"`
	Criteria     jsontext.Value `json:"criteria"`

	name string
}

type systemUsage struct {
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
}

type diagnostics struct {
	LabelMass     float64 `json:"label_mass"`
	ArgmaxIsLabel bool    `json:"argmax_is_label"`
}

// SystemOne answers POST /v1/systemone.
func SystemOne(ctx context.Context, m Model, id string, body []byte) ([]byte, error) {
	var r systemOneRequest
	if err := openai.Decode(body, &r); err != nil {
		return nil, err
	}
	c := &call{asking: r.asking, model: m, served: m.Served()}
	var err error
	if c.params.Adapter, err = openai.Choose(m, &c.served, r.Model); err != nil {
		return nil, err
	}
	c.params.Salt = r.CacheSalt
	c.params.Priority = -max(-openai.MaxPriority, min(openai.MaxPriority, r.Priority)) // vLLM's lower ones come first
	if err := r.check(); err != nil {
		return nil, err
	}
	var asked []systemQuestion
	var questions []question
	for name, raw := range protocol.Members(r.Questions) {
		if len(asked) == decide.MaxQuestions {
			return nil, openai.Refuse("questions", "has more than %d questions; ask fewer", decide.MaxQuestions)
		}
		q := systemQuestion{name: name}
		path := "questions." + name
		if err := at(path, openai.Decode(raw, &q)); err != nil {
			return nil, err
		}
		if name == "" {
			return nil, openai.Refuse("questions", "has a question without a name")
		}
		checked, err := q.question(path)
		if err != nil {
			return nil, err
		}
		asked, questions = append(asked, q), append(questions, checked)
	}
	chat := &format.Chat{System: strings.TrimSpace(r.Instructions), Messages: []format.ChatMessage{{Text: plain(r.State)}}}
	answers, err := c.ask(ctx, chat, "state", questions)
	if err != nil {
		return nil, err
	}
	var usage systemUsage
	told, about := map[string]any{}, map[string]diagnostics{}
	for i := range answers {
		a, q := &answers[i], &asked[i]
		usage.Input, usage.Output = usage.Input+a.Input, usage.Output+a.Output
		about[q.name] = diagnostics{a.Mass, a.Best}
		told[q.name] = q.answer(a, questions[i].Options)
	}
	return openai.Marshal(map[string]any{
		"id": "decision-" + cmp.Or(r.RequestID, id), "object": "structured_decision", "created": time.Now().Unix(), "model": c.served.Name,
		"answers": told, "usage": usage, "diagnostics": about,
	})
}

// check refuses fields that are not supported.
func (r *systemOneRequest) check() error {
	for _, media := range []struct {
		name string
		list []string
	}{{"images", r.Images}, {"audio", r.Audio}, {"videos", r.Videos}} {
		if len(media.list) > 0 {
			return openai.Refuse(media.name, "can't be read: this server takes text only; remove %s", media.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Template)) {
		if r.Template[name] != false || name != "enable_thinking" {
			return openai.Refuse("chat_template_kwargs."+name, "is not supported; only enable_thinking: false is, since the answer comes first")
		}
	}
	switch {
	case len(r.CacheSalt) > openai.MaxSalt:
		return openai.Refuse("cache_salt", "has %d bytes, at most %d are allowed", len(r.CacheSalt), openai.MaxSalt)
	case !openai.Present(r.State):
		return openai.Refuse("state", "is missing; give what the questions are about")
	case r.Questions.Kind() != '{':
		return openai.Refuse("questions", "must be an object with a question under each name")
	}
	return nil
}

// plain returns a string's text, or JSON with the spacing of prompts.
func plain(v jsontext.Value) string {
	if text, ok := protocol.Text(v); ok {
		return text
	}
	if !openai.Present(v) {
		return ""
	}
	return format.SpacedJSON(v)
}

// question checks and converts a question. path is its path in the body.
func (q *systemQuestion) question(path string) (checked question, err error) {
	checked.path, checked.Instructions = path, plain(q.Instructions)
	criteria := q.Criteria
	field := path + ".criteria"
	switch q.Type {
	case "choice":
		if criteria.Kind() != '{' {
			return checked, openai.Refuse(field, "must map the names of options to a description or null")
		}
		checked.Kind = decide.Letters
		for name, description := range protocol.Members(criteria) {
			checked.Options = append(checked.Options, decide.Option{Name: name, Description: plain(description)})
		}
		err = checked.checkOptions("criteria", 1, name)
	case "noul":
		checked.Kind, checked.Options = decide.YesNo, make([]decide.Option, 2)
		if openai.Present(criteria) && criteria.Kind() != '{' {
			return checked, openai.Refuse(field, "must be an object with true and false")
		}
		for name, description := range protocol.Members(criteria) {
			i := slices.Index([]string{"true", "false"}, name)
			if i < 0 {
				return checked, openai.Refuse(field, "has %q; there are only true and false", name)
			}
			checked.Options[i].Description = plain(description)
		}
	case "score":
		if criteria.Kind() != '[' {
			return checked, openai.Refuse(field, "must be an ordered list of levels")
		}
		checked.Kind = decide.Levels
		for level := range protocol.Elements(criteria) {
			checked.Options = append(checked.Options, decide.Option{Name: plain(level)})
		}
		err = checked.checkOptions("criteria", 2, name)
	default:
		err = openai.Refuse(path+".type", "is %q; want choice, noul or score", q.Type)
	}
	return checked, err
}

// answer returns the answer to the question. Without probabilities its type is refusal.
func (q *systemQuestion) answer(a *decide.Answer, options []decide.Option) map[string]any {
	p := a.Probabilities
	if p == nil {
		return map[string]any{"type": "refusal"}
	}
	top := a.Top()
	probabilities, legend := map[string]float64{}, map[string]string{}
	out := map[string]any{"type": q.Type, "probabilities": probabilities, "confidence": p[top] * a.Mass}
	switch q.Type {
	case "choice":
		out["choice"] = options[top].Name
		for i := range p {
			probabilities[options[i].Name] = p[i]
		}
	case "noul":
		out["noul"], probabilities["yes"], probabilities["no"] = p[0], p[0], p[1]
	case "score":
		out["score"], out["legend"] = expected(p), legend
		for i := range p {
			key := strconv.Itoa(i)
			probabilities[key], legend[key] = p[i], options[i].Name
		}
	}
	return out
}
