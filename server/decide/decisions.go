package decide

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/decide"
	"agentd/server/openai"
)

// decisionsRequest is the body of POST /v1/decisions, as in OpenAI's package 3.51.0. tools, orders and min_label_mass
// are our additions.
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
	StrictCalls *bool          `json:"strict"` // ignored: calls always fit the schema
}

// decisionAnswer is an answer of any type. label_mass is our addition.
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
	if c.params.Salt = r.CacheKey; len(r.CacheKey) > openai.MaxSalt {
		return nil, openai.Refuse("prompt_cache_key", "has %d bytes, at most %d are allowed", len(r.CacheKey), openai.MaxSalt)
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

// answer returns the answer to the question.
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

// expected returns the mean index of the levels, weighted by their probabilities.
func expected(p []float64) (sum float64) {
	for i, x := range p {
		sum += float64(i) * x
	}
	return sum
}
