package agent

import (
	"context"
	"fmt"

	"agentd/agent/format"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Question is a plain conversation that the model continues. Coaching asks the local model with
// it.
type Question struct {
	format.Chat     // without functions
	MaxTokens   int // of the answer, including reasoning
	Adapter     generation.AdapterID
}

// Answer is the model's, without its reasoning.
type Answer struct {
	Text         string
	PromptTokens int
	CachedTokens int
	Tokens       int      // generated, including reasoning
	Latency      *Latency // nil: the answer did not end by itself
}

// TruncatedError is the error of an answer that reached its token limit or repeated itself.
type TruncatedError struct {
	Limit    int
	Repeated string // what was repeated; "": nothing was
}

func (e *TruncatedError) Error() string {
	if e.Repeated != "" {
		return repeatedError(e.Repeated).Error()
	}
	return fmt.Sprintf("the answer reached the limit of %d new tokens before it ended", e.Limit)
}

// stopsRepeats reports whether answers that repeat themselves are ended.
func (a *Agent) stopsRepeats() bool { return !a.cfg.KeepRepeating && !a.cfg.IgnoreEnd }

func repeatedError(what string) error {
	return fmt.Errorf("the answer was ended since it repeated itself: %s; with repetition-stop=off in debug on the server such answers continue", what)
}

// anyObject is the schema of all objects.
var anyObject = protocol.Raw(`{"type":"object"}`)

// valueGrammar is the grammar of an answer that is a JSON value of a schema.
func (a *Agent) valueGrammar(source protocol.Raw) (string, error) {
	catalog, err := a.catalogs.answer(source)
	if err != nil {
		return "", err
	}
	return catalog.Grammar()
}

// Ask puts a question to the model and returns one deterministic answer. Errors are a Generator's,
// a [*TruncatedError], or the reason why the output is not an answer. For a schema that
// no grammar can express, any object is an answer: the caller checks it.
func (a *Agent) Ask(ctx context.Context, q Question, g Generator) (answer Answer, err error) {
	defer func() {
		if p := recover(); p != nil { // a defect must not end the server
			err = fmt.Errorf("the agent failed: %v", p)
		}
	}()
	prompt, err := a.format.RenderChat(&q.Chat)
	if err != nil {
		return answer, err
	}
	request := generation.Request{Params: generation.Params{
		N: 1, MaxTokens: q.MaxTokens, Sampling: a.sampling(true), Seeds: []uint32{0},
		SuppressControl: a.format.SuppressControl(), StopRepeats: a.stopsRepeats(),
		Adapter: q.Adapter,
	}}
	if q.Schema != nil && a.cfg.Constrain == ConstrainOn {
		if request.Grammar, err = a.valueGrammar(q.Schema); err != nil {
			request.Grammar, err = a.valueGrammar(anyObject)
		}
		if err != nil {
			return answer, fmt.Errorf("%w: %w", generation.ErrGrammar, err)
		}
	}
	if err := a.tokenize(ctx, &request, prompt); err != nil {
		return answer, err
	}
	var result *generation.Result
	g.GenerateAll(ctx, []generation.Request{request}, func(_ int, r *generation.Result, failed error) { result, err = r, failed })
	if err == nil {
		err = complete(result, 1)
	}
	if err != nil {
		return answer, err
	}
	c := &result.Completions[0]
	answer = Answer{PromptTokens: result.PromptTokens, CachedTokens: result.CachedTokens, Tokens: len(c.Tokens)}
	if ctx.Err() == nil {
		l := latencyOf(result)
		answer.Latency = &l
	}
	switch {
	case c.Err != nil:
		return answer, c.Err
	case c.Finish == generation.FinishLength:
		err = &TruncatedError{Limit: q.MaxTokens}
	case c.Finish == generation.FinishRepeat:
		err = &TruncatedError{Limit: q.MaxTokens, Repeated: c.Repeated}
	default:
		answer.Text, err = a.format.ParseChat(c.Text)
	}
	if err != nil {
		answer.Text = ""
	}
	a.log.write(ComponentCommander, prompt.Text, c.Text+c.Stop, err)
	return answer, err
}
