package agent

import (
	"context"
	"errors"
	"fmt"

	"agentd/agent/format"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

var errNotAdmitted = errors.New("a generation was not admitted")

// tokenize sets the tokens of a prompt. It refuses a prompt whose length shows that it can't fit with its answer.
func (a *Agent) tokenize(ctx context.Context, request *generation.Request, prompt *format.Prompt) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	limit := a.cfg.ContextLength
	if least := a.tokenizer.AtLeast(prompt.Text); limit > 0 && least >= limit {
		return &generation.OverflowError{Prompt: least, Limit: limit, MaxNew: request.MaxTokens, AtLeast: true}
	}
	if request.Prompt, err = a.tokenizer.Tokens(ctx, prompt.Segments); err != nil {
		return err
	}
	if n := len(request.Prompt); limit > 0 && n+request.MaxTokens > limit {
		return &generation.OverflowError{Prompt: n, Limit: limit, MaxNew: request.MaxTokens}
	}
	return nil
}

// Prompt is what the model is given for one input of the agent.
type Prompt struct {
	Text    string // with special tokens as text, as in full_prompt of internal steps
	Tokens  []generation.Token
	Grammar string // GBNF, root rule "root"; "": no constraint
}

// Prompt renders the prompt of an input. An input that needs no model is an error.
func (a *Agent) Prompt(ctx context.Context, in *protocol.AgentInput) (*Prompt, error) {
	plan, err := a.Prepare(&protocol.AgentRequest{RequestID: "prompt", Inputs: []protocol.AgentInput{*in}}, nil)
	if err != nil {
		return nil, err
	}
	run := plan.inputs[0]
	a.prepare(ctx, plan.requestID, run)
	switch {
	case run.ended != nil:
		return nil, run.ended
	case run.prompt == nil && run.out[0].Error != nil:
		return nil, fmt.Errorf("%s: %s", run.out[0].Error.Code, run.out[0].Error.Message)
	case run.prompt == nil:
		return nil, errors.New("it is a correction (extra_keys.coaching), which needs no model")
	}
	request, prompt := run.summary()
	if request == nil {
		request, prompt = run.candidates()
	}
	if err := a.tokenize(ctx, request, prompt); err != nil {
		return nil, err
	}
	return &Prompt{Text: prompt.Text, Tokens: request.Prompt, Grammar: request.Grammar}, nil
}

// Latency has the times of one generation whose candidates all ended with an end token.
type Latency struct {
	generation.Times
	LongestAnswer int // the number of tokens of the longest candidate
}

func latencyOf(r *generation.Result) Latency {
	l := Latency{Times: r.Times}
	for i := range r.Completions {
		l.LongestAnswer = max(l.LongestAnswer, len(r.Completions[i].Tokens))
	}
	return l
}
