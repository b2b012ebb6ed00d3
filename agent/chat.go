package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// ChatReader parses the answers in a chat.
type ChatReader struct {
	format format.Format
	chat   *format.Chat
}

// Chat makes the request of a conversation, such as one of OpenAI's API: prompt and grammar. It sets c.Catalog and
// c.Shown. The error is a [*format.UnusableError] for unusable functions or schemas, and a [*format.TemplateError]
// for messages that the model's template refuses.
func (a *Agent) Chat(ctx context.Context, c *format.Chat) (*generation.Request, *ChatReader, error) {
	r, reader, prompt, err := a.chat(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return r, reader, a.tokenize(ctx, r, prompt)
}

// chat is Chat without the tokens of the prompt.
func (a *Agent) chat(ctx context.Context, c *format.Chat) (*generation.Request, *ChatReader, *format.Prompt, error) {
	r := &generation.Request{Params: generation.Params{N: 1, SuppressControl: a.format.SuppressControl()}}
	if n, limit := len(c.Messages), a.cfg.ContextLength; limit > 0 && n >= limit { // each is at least a token
		return nil, nil, nil, &generation.OverflowError{Prompt: n, Limit: limit, AtLeast: true}
	}
	var err error
	if c.Schema != nil {
		if c.Catalog, err = a.catalogs.answer(c.Schema); err != nil {
			return nil, nil, nil, &format.UnusableError{Err: err, Schema: true}
		}
	}
	if f := c.Functions; len(f.Raw) > 0 {
		n := len(c.Messages) // 0: there is a system message only
		f.MayEnd = !f.MustCall && n > 0 && c.Messages[n-1].Of != ""
		made, answer, rules := &c.Catalog, c.Catalog, []string{fmt.Sprintf("%q %t %t %t", f.Only, f.MustCall, f.OneCall, f.MayEnd)}
		switch {
		case f.NoCall:
			made, answer = &c.Shown, nil
		case f.MustCall:
			answer = nil
		case answer != nil:
			rules = append(rules, string(c.Schema))
		}
		*made, err = a.catalogs.get(ofFunctions, f.Raw, rules, func(raw []protocol.Raw) (*tools.Set, error) {
			f.Raw = raw
			set, err := tools.NormaliseFunctions(&f)
			if err == nil && answer != nil {
				set.Answer = answer.Set.Answer
			}
			return set, err
		})
	}
	if err != nil {
		return nil, nil, nil, &format.UnusableError{Err: err}
	}
	if c.Catalog != nil {
		if r.Grammar, err = c.Catalog.Grammar(); err != nil {
			return nil, nil, nil, &format.UnusableError{Err: err, Schema: !c.Calls()}
		}
	}
	if err := ctx.Err(); err != nil { // a template can't be interrupted
		return nil, nil, nil, err
	}
	prompt, err := a.format.Render(&format.Input{Chat: c})
	if err != nil {
		return nil, nil, nil, err
	}
	return r, &ChatReader{a.format, c}, prompt, nil
}

// Read implements [format.Reader]. It drops reasoning.
func (r *ChatReader) Read(text string) (say string, calls []tools.Call, err error) {
	if !r.chat.Calls() {
		if say, err = r.format.ParseChat(text); err == nil && r.chat.Catalog != nil {
			err = r.chat.Catalog.Set.CheckAnswer(say)
		}
		return say, nil, err
	}
	d, err := r.format.Parse(text, r.chat.Catalog)
	switch f := &r.chat.Functions; {
	case len(d.ToolCalls) == 0 && !f.MustCall && r.chat.Schema != nil: // which may have the form of an incomplete call
		if d.Say, err = r.format.ParseChat(text); err == nil {
			err = r.chat.Catalog.Set.CheckAnswer(d.Say)
		}
	case err != nil:
	case f.MustCall && len(d.ToolCalls) == 0:
		err = errors.New("the answer has no tool call, and one is required")
	case f.OneCall && len(d.ToolCalls) > 1:
		err = errors.New("the answer has several tool calls, and one is allowed")
	}
	return d.Say, d.ToolCalls, err
}

// Cut implements [format.Reader].
func (r *ChatReader) Cut(text string) (say string, calls []tools.Call) {
	if r.chat.Calls() {
		calls = format.Complete(r.format, text, r.chat.Catalog)
	}
	return r.SoFar(text), calls
}

// SoFar implements [format.Reader]. It is "" also while the answer may still begin with reasoning.
func (r *ChatReader) SoFar(text string) string {
	say, err := r.format.ParseChat(text)
	switch {
	case err != nil || strings.HasPrefix("<think>", say):
		return ""
	case !r.chat.Calls():
		return say
	case r.chat.Catalog.MayBeCall(say):
		return ""
	}
	return r.chat.Catalog.Before(say)
}

// Question is a conversation without functions, for coaching by the local model.
type Question struct {
	format.Chat
	MaxTokens int // of the answer, including reasoning
	Adapter   generation.AdapterID
}

// Answer is the model's answer to a Question.
type Answer struct {
	Text         string // without reasoning
	PromptTokens int
	Tokens       int      // generated, including reasoning
	Latency      *Latency // nil if the answer did not end with an end token
}

// TruncatedError reports an answer that reached its token limit or repeated itself.
type TruncatedError struct {
	Limit    int
	Repeated string // the repeated text; "": Limit was reached
}

func (e *TruncatedError) Error() string {
	if e.Repeated != "" {
		return "the answer was ended since it repeated itself: " + e.Repeated
	}
	return fmt.Sprintf("the answer reached the limit of %d new tokens before it ended", e.Limit)
}

func (a *Agent) stopsRepeats() bool { return !a.cfg.KeepRepeating && !a.cfg.IgnoreEnd }

func repeatedError(what string) error {
	return fmt.Errorf("%w; the debug option repetition-stop=off of the server lets such answers continue", &TruncatedError{Repeated: what})
}

var anyObject = protocol.Raw(`{"type":"object"}`)

// valueGrammar is the grammar of an answer that is a JSON value of a schema.
func (a *Agent) valueGrammar(source protocol.Raw) (string, error) {
	catalog, err := a.catalogs.answer(source)
	if err != nil {
		return "", err
	}
	return catalog.Grammar()
}

// Ask returns one answer, decoded greedily. Errors are a Generator's, a [*TruncatedError], or the reason
// why the output is not an answer. If no grammar can express the schema, the grammar admits any object.
func (a *Agent) Ask(ctx context.Context, q Question, g Generator) (answer Answer, err error) {
	defer func() {
		if p := recover(); p != nil { // a defect must not end the server
			err = fmt.Errorf("the agent failed: %v", p)
		}
	}()
	prompt, err := a.format.Render(&format.Input{Chat: &q.Chat})
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
	if err = complete(result, 1, err); err != nil {
		return answer, err
	}
	c := &result.Completions[0]
	answer = Answer{PromptTokens: result.PromptTokens, Tokens: len(c.Tokens)}
	if ctx.Err() == nil {
		answer.Latency = new(latencyOf(result))
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
