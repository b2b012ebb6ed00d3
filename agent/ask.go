package agent

import (
	"context"
	"fmt"

	"agentd/agent/format"
	"agentd/protocol"
)

// Question is a plain conversation that the model shall continue, apart from the
// agent's own: coaching asks the model so.
type Question struct {
	format.Chat
	// Schema of the JSON value that the answer shall be; nil leaves it free.
	Schema    protocol.Raw
	MaxTokens int // of the answer, thoughts included
}

// Answer is the model's, without its thoughts.
type Answer struct {
	Text         string
	PromptTokens int
	CachedTokens int
	Tokens       int // generated, thoughts included
}

// TruncatedError says that an answer reached its token limit before it ended, or that
// it was ended since it repeated itself.
type TruncatedError struct {
	Limit    int
	Repeated string // what came how often; "": nothing did
}

func (e *TruncatedError) Error() string {
	if e.Repeated != "" {
		return repeatedError(e.Repeated).Error()
	}
	return fmt.Sprintf("the answer reached the limit of %d new tokens before it ended", e.Limit)
}

// stopsRepeats says whether answers that repeat themselves end.
func (a *Agent) stopsRepeats() bool { return !a.cfg.KeepRepeating && !a.cfg.IgnoreEnd }

// repeatedError says why an answer was ended that repeated itself.
func repeatedError(what string) error {
	return fmt.Errorf("the answer was ended since it repeated itself: %s; --repetition-stop off lets such an answer go on", what)
}

// Ask puts a question to the model and returns its one deterministic answer. The
// errors are those of a [Generator], a *[TruncatedError], or what keeps the
// output from being an answer. A schema that is no grammar in some part holds
// the answer only where it is one.
func (a *Agent) Ask(ctx context.Context, q Question, g Generator) (answer Answer, err error) {
	defer func() {
		if p := recover(); p != nil { // costs this question, not the server
			err = &ModelError{fmt.Errorf("the agent failed: %v", p)}
		}
	}()
	prompt, err := a.format.RenderChat(&q.Chat)
	if err != nil {
		return answer, &ModelError{err}
	}
	generation := Generation{
		Prompt: prompt.Segments, N: 1, MaxTokens: q.MaxTokens, Greedy: true,
		Seeds: []uint32{0}, SuppressControl: a.format.SuppressControl(),
		StopRepeats: a.stopsRepeats(),
	}
	if q.Schema != nil && a.cfg.Constrain == ConstrainOn {
		if generation.Grammar, err = a.format.ChatGrammar(q.Schema); err != nil {
			return answer, &GrammarError{err}
		}
	}
	var result Result
	g.Generate(ctx, []Generation{generation}, func(_ int, r Result, failed error) { result, err = r, failed })
	if err == nil && len(result.Completions) != 1 {
		err = &ModelError{fmt.Errorf("%d completions came back where 1 was asked for", len(result.Completions))}
	}
	if err != nil {
		return answer, err
	}
	c := &result.Completions[0]
	answer = Answer{PromptTokens: result.PromptTokens, CachedTokens: result.CachedTokens, Tokens: c.Tokens}
	switch {
	case c.Err != nil:
		return answer, c.Err
	case c.Finish == FinishLength:
		err = &TruncatedError{Limit: q.MaxTokens}
	case c.Finish == FinishRepeat:
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
