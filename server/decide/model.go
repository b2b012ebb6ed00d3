// Package decide reads and writes bodies of OpenAI's /v1/decisions and of vLLM's /v1/systemone: questions with given
// answers, each with its probability. An unknown or unsupported field is an error.
package decide

import (
	"context"
	"errors"
	"strings"

	"agentd/agent"
	"agentd/agent/decide"
	"agentd/agent/format"
	"agentd/scheduler/generation"
	"agentd/server/openai"
)

// Model is an openai.Model that answers questions.
type Model interface {
	openai.Model
	decide.Model
}

// asking has the fields that we add to both kinds of requests.
type asking struct {
	// Orders is the number of orders in which the options of each question are shown.
	Orders *int `json:"orders"`
	// MinMass is the least label_mass of a question; less is an error.
	MinMass float64 `json:"min_label_mass"`
}

// question is a question with its path in the body.
type question struct {
	decide.Question
	path string
}

// call is one request in progress.
type call struct {
	asking
	model  Model
	served generation.Served
	params generation.Params
}

// ask checks and answers the questions. state is the name of the field with the state.
func (c *call) ask(ctx context.Context, chat *format.Chat, state string, questions []question) ([]decide.Answer, error) {
	orders := 1
	if c.Orders != nil {
		orders = *c.Orders
	}
	switch n := len(questions); {
	case n == 0 || n > decide.MaxQuestions:
		return nil, openai.Refuse("questions", "has %d questions, want 1 to %d", n, decide.MaxQuestions)
	case orders < 1 || orders > decide.MaxOrders:
		return nil, openai.Refuse("orders", "is %d, want 1 to %d", orders, decide.MaxOrders)
	case c.MinMass < 0 || c.MinMass > 1:
		return nil, openai.Refuse("min_label_mass", "is %g, want 0 to 1", c.MinMass)
	}
	list := make([]decide.Question, len(questions))
	for i := range questions {
		list[i] = questions[i].Question
		list[i].Orders = orders
	}
	if n := decide.Generations(list); n > c.served.Places {
		return nil, openai.Refuse("questions", "need %d generations at once, and this server admits %d (queue_limit); ask fewer, or in fewer orders", n, c.served.Places)
	}
	answers, err := decide.Ask(ctx, c.model, chat, list, c.params)
	if err != nil {
		return nil, c.refused(err, state, questions)
	}
	for i := range answers {
		if answers[i].Mass < c.MinMass {
			answers[i].Probabilities = nil
		}
	}
	return answers, nil
}

// refused returns an openai.Error that names the field.
func (c *call) refused(err error, state string, questions []question) error {
	var overflow *generation.OverflowError
	var wrong *decide.Error
	if !errors.As(err, &wrong) {
		return err
	}
	field, reason := questions[wrong.Question].path, wrong.Err.Error()
	var option *agent.ChoiceError
	switch at, rest, _ := strings.Cut(reason, ": "); {
	case errors.As(err, &overflow):
		return openai.Refuse(state, "has, with %s, %s tokens; with an answer that is more than the model's context of %d; shorten one of them",
			field, overflow.Count(), c.served.Window)
	case errors.As(err, &option):
		return openai.Refuse(field, "option %d can't be answered: %v", option.Index, option.Err)
	case errors.As(err, new(*format.TemplateError)):
		return openai.Refuse(state, "%s", reason)
	case errors.Is(err, format.ErrThinks), errors.Is(err, agent.ErrNoChoice):
		return openai.Refuse(field, "can't be answered: %s", reason)
	case !errors.As(err, new(*format.UnusableError)):
		return wrong.Err
	case strings.HasPrefix(at, "tools["):
		return openai.Refuse(at, "%s (asked by %s)", rest, field)
	}
	return openai.Refuse("tools", "%s (asked by %s)", reason, field)
}

// checkOptions refuses fewer options than least, too many, empty or equal ones; key distinguishes options.
func (q *question) checkOptions(field string, least int, key func(o *decide.Option) string) error {
	field = q.path + "." + field
	if n := len(q.Options); n < least || n > decide.MaxOptions {
		return openai.Refuse(field, "has %d options, want %d to %d", n, least, decide.MaxOptions)
	}
	first := map[string]int{}
	for i := range q.Options {
		k := key(&q.Options[i])
		switch same, twice := first[k]; {
		case strings.TrimSpace(k) == "":
			return openai.Refuse(field, "option %d is empty; give it a text", i)
		case twice:
			return openai.Refuse(field, "options %d and %d are equal; leave one out", same, i)
		}
		first[k] = i
	}
	return nil
}

func name(o *decide.Option) string { return o.Name }
