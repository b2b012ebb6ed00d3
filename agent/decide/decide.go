// Package decide asks a model several questions about one state. The result for each question is the probability of
// each of its given answers. Every prompt begins with the state, so that questions share its prefill. All run together.
package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"agentd/agent/format"
	"agentd/internal/base/budget"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Limits of a request.
const (
	MaxQuestions = 400
	MaxOptions   = 255
	MaxOrders    = 16

	// To estimate memory: the most bytes of tokens for a byte of a prompt, and the copies of its text in rendering.
	tokenBytes = 4
	textCopies = 8
)

// Model is the agent and its engine.
type Model interface {
	// Choice makes the request for the probability of each answer to a conversation, see agent.Agent.Choice.
	Choice(ctx context.Context, c *format.Chat, answers []protocol.AgentDecision, whole bool) (*generation.Request, error)
	// GenerateAll generates all requests together. It admits all or none, and calls admitted after that.
	GenerateAll(ctx context.Context, list []generation.Request, admitted func()) ([]*generation.Result, error)
}

// Kind is the form of a question's answers.
type Kind int

// Kinds of questions.
const (
	YesNo   Kind = iota // yes or no, the first and the second option
	Letters             // one letter for each option, two if there are more than 26
	Levels              // the number of a level, from 0
	Whole               // the decision itself, as the model writes it
)

// Option is a possible answer.
type Option struct {
	Name, Description string                 // shown to the model
	Decision          protocol.AgentDecision // the answer of the kind Whole
}

// Question is one question about the state.
type Question struct {
	Kind         Kind
	Instructions string
	Options      []Option
	// Orders is how many orders of the options are computed; probabilities are the mean over them, since models
	// prefer some places. The prompt does not list options of the kind Whole.
	Orders int
}

// Answer has the probabilities of a question's options.
type Answer struct {
	// Probabilities has one for each option; they add up to 1. nil if all options have the probability 0.
	Probabilities []float64
	// Mass is the probability that the model writes any of the options, from 0 to 1.
	Mass    float64
	Omitted float64 // the most that rare spellings, which are not computed, could add to Mass
	// Best is true if in every order the most probable first token begins an option.
	Best                  bool
	Input, Cached, Output int // tokens
}

// Top returns the index of the most probable option, the first of equal ones.
func (a *Answer) Top() (top int) {
	for i, p := range a.Probabilities {
		if p > a.Probabilities[top] {
			top = i
		}
	}
	return top
}

// Error is the reason why a question can't be asked.
type Error struct {
	Question int // counts from 0
	Err      error
}

func (e *Error) Error() string { return fmt.Sprintf("question %d: %v", e.Question, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// variant is a question with its options in one order.
type variant struct {
	question int
	order    []int // of the options, as shown
	request  *generation.Request
}

// Generations returns how many generations the questions need.
func Generations(questions []Question) (n int) {
	for i := range questions {
		n += len(questions[i].orders())
	}
	return n
}

// Ask answers all questions about a state, with the adapter, priority and salt of p. Errors are an *Error for a
// question that can't be asked, the model's, and ctx's.
func Ask(ctx context.Context, m Model, state *format.Chat, questions []Question, p generation.Params) ([]Answer, error) {
	var list []variant
	for i := range questions {
		for _, order := range questions[i].orders() {
			list = append(list, variant{question: i, order: order})
		}
	}
	if err := budget.Add(ctx, int64(size(state))*int64(textCopies*runtime.GOMAXPROCS(0)+tokenBytes*len(list))); err != nil {
		return nil, err
	}
	var preparing errgroup.Group
	preparing.SetLimit(runtime.GOMAXPROCS(0))
	errs := make([]error, len(list))
	for k := range list {
		preparing.Go(func() error {
			if errs[k] = ctx.Err(); errs[k] == nil {
				errs[k] = list[k].prepare(ctx, m, state, &questions[list[k].question])
			}
			return nil
		})
	}
	_ = preparing.Wait() // errors are in errs
	requests := make([]generation.Request, len(list))
	for k := range list {
		if err := errs[k]; err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, &Error{list[k].question, err}
		}
		requests[k] = *list[k].request
		requests[k].Adapter, requests[k].Priority, requests[k].Salt = p.Adapter, p.Priority, p.Salt
	}
	results, err := m.GenerateAll(ctx, requests, nil)
	if err != nil {
		return nil, err
	}
	answers := make([]Answer, len(questions))
	for k := range list {
		q := &questions[list[k].question]
		if err := answers[list[k].question].add(q, list[k].order, results[k]); err != nil {
			return nil, err
		}
	}
	for i := range answers { // the sums become means
		a, n := &answers[i], float64(len(questions[i].orders()))
		for k := range a.Probabilities {
			a.Probabilities[k] /= n
		}
		a.Mass, a.Omitted = a.Mass/n, a.Omitted/n
	}
	return answers, nil
}

// size estimates the bytes of a prompt.
func size(c *format.Chat) int {
	n := len(c.System)
	for i := range c.Messages {
		m := &c.Messages[i]
		n += len(m.Text) + len(m.Reasoning)
		for _, call := range m.Calls {
			n += len(call.Name) + len(call.Arguments)
		}
	}
	for _, f := range c.Functions.Raw {
		n += len(f)
	}
	return n
}

// prepare makes the request of the variant.
func (a *variant) prepare(ctx context.Context, m Model, state *format.Chat, q *Question) (err error) {
	defer func() {
		if p := recover(); p != nil { // a defect must not end the server
			err = fmt.Errorf("the agent failed: %v", p)
		}
	}()
	answers := make([]protocol.AgentDecision, len(a.order))
	text := q.Instructions
	if q.Kind != Whole {
		text = q.prompt(a.order)
	}
	for at, i := range a.order {
		if answers[at] = q.Options[i].Decision; q.Kind != Whole {
			answers[at] = protocol.AgentDecision{Say: q.label(at, i)}
		}
	}
	chat := *state
	chat.Messages = withText(state.Messages, text)
	if len(chat.Messages) == 0 || chat.Messages[len(chat.Messages)-1].Model {
		return errors.New("the state ends with a message of the model; give instructions")
	}
	a.request, err = m.Choice(ctx, &chat, answers, q.Kind == Whole)
	return err
}

// withText appends a text to the last message if it is a user's, else as a new message.
func withText(messages []format.ChatMessage, text string) []format.ChatMessage {
	n := len(messages)
	list := append(make([]format.ChatMessage, 0, n+1), messages...)
	switch {
	case text == "":
	case n > 0 && !list[n-1].Model && !list[n-1].System && list[n-1].Of == "":
		list[n-1].Text += "\n\n" + text
	default:
		list = append(list, format.ChatMessage{Text: text})
	}
	return list
}

// add adds the result of one variant to the sums over all orders.
func (a *Answer) add(q *Question, order []int, r *generation.Result) error {
	c := &r.Completions[0]
	if c.Err != nil {
		return c.Err
	}
	if a.Input == 0 {
		a.Probabilities, a.Best = make([]float64, len(q.Options)), true
	}
	a.Input, a.Cached, a.Output = a.Input+r.PromptTokens, a.Cached+r.CachedTokens, a.Output+c.Chances.Rows
	a.Best = a.Best && c.Chances.Best
	a.Omitted += c.Chances.Omitted
	options := c.Chances.Options()
	if options == nil {
		a.Probabilities = nil
		return nil
	}
	for _, o := range options {
		if a.Probabilities != nil {
			a.Probabilities[order[o.Index]] += o.Probability
		}
	}
	a.Mass += options[0].Mass
	return nil
}

// orders returns the orders in which the options are shown: evenly spaced rotations; for levels, both directions.
func (q *Question) orders() (list [][]int) {
	n := len(q.Options)
	most := map[Kind]int{Levels: 2, Whole: 1}[q.Kind]
	count := min(max(q.Orders, 1), cmp.Or(most, n))
	for k := range count {
		order := make([]int, n)
		for at := range order {
			order[at] = (at + k*n/count) % n
			if q.Kind == Levels && k == 1 {
				order[at] = n - 1 - at
			}
		}
		list = append(list, order)
	}
	return list
}

// label returns the model's answer for option i when it is shown in place at.
func (q *Question) label(at, i int) string {
	switch n := len(q.Options); {
	case q.Kind == YesNo:
		return [...]string{"yes", "no"}[i]
	case q.Kind == Levels:
		return fmt.Sprintf("%0*d", len(fmt.Sprint(n-1)), i)
	case n > letters:
		return string([]byte{'A' + byte(at/letters), 'A' + byte(at%letters)})
	}
	return string([]byte{'A' + byte(at)})
}

const letters = 26

// prompt returns a question with labelled options, as vLLM's /v1/systemone, so that options get equal probabilities.
func (q *Question) prompt(order []int) string {
	var lines []string
	if q.Instructions != "" {
		lines = append(lines, "Question: "+q.Instructions)
	}
	for at, i := range order {
		o, line := &q.Options[i], q.label(at, i)
		if o.Name != "" {
			line += ": " + o.Name
		}
		switch {
		case o.Description == "":
		case o.Name != "":
			line += " - " + o.Description
		default:
			line += ": " + o.Description
		}
		lines = append(lines, line)
	}
	ask := "Answer with the letter of one option only."
	switch {
	case q.Kind == YesNo:
		ask = "Answer with yes or no only."
	case q.Kind == Levels:
		ask = "Answer with the number of one level only."
	case len(q.Options) > letters:
		ask = "Answer with the two letters of one option only."
	}
	return strings.Join(append(lines, ask), "\n")
}
