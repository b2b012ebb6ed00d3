package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/agent/format"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// ChoiceError reports an answer whose probability can't be computed.
type ChoiceError struct {
	Index int // of the answer, from 0
	Err   error
}

func (e *ChoiceError) Error() string { return fmt.Sprintf("option %d: %v", e.Index, e.Err) }
func (e *ChoiceError) Unwrap() error { return e.Err }

// ErrNoChoice is wrapped where the engine can't compute probabilities of given answers.
var ErrNoChoice = errors.New("probabilities of given answers are not possible here")

// Choice makes the request for the probability of each answer, a reply or calls, to a conversation. With whole that is
// the probability that the model writes the answer and ends; else, that its text begins with the answer. Errors are a
// *ChoiceError, ErrNoChoice, format.ErrThinks, and the errors of Chat.
func (a *Agent) Choice(ctx context.Context, c *format.Chat, answers []protocol.AgentDecision, whole bool) (*generation.Request, error) {
	r, reader, prompt, err := a.chat(ctx, c)
	if err != nil {
		return nil, err
	}
	read := func(text string) (d format.Decision, err error) {
		d.Say, d.ToolCalls, err = reader.Read(text)
		return d, err
	}
	if !whole { // a label begins an answer, and is not read
		read = nil
	}
	if err := a.choose(ctx, r, prompt, c.Catalog, answers, whole, read); err != nil {
		return nil, err
	}
	return r, a.tokenize(ctx, r, prompt)
}

// choose makes r a request for the probabilities of answers. read parses the text of an answer, to check that it is the
// answer. Without whole, a beginning that all answers share moves to the prompt, up to its last special token: a model
// writes these tokens before any reply.
func (a *Agent) choose(ctx context.Context, r *generation.Request, prompt *format.Prompt, c *format.Catalog,
	answers []protocol.AgentDecision, whole bool, read func(text string) (format.Decision, error),
) error {
	if a.cfg.NoDistinct != "" {
		return fmt.Errorf("%w: %s", ErrNoChoice, a.cfg.NoDistinct)
	}
	written := make([][][]format.Segment, len(answers))
	for i := range answers {
		var err error
		if written[i], err = format.Written(a.format, c, &answers[i]); err != nil {
			return err
		}
		for k := 0; read != nil && k < len(written[i]); k++ {
			d, err := read(textOf(written[i][k]))
			if err != nil {
				return &ChoiceError{i, err}
			}
			if DecisionKey(&d.AgentDecision) != DecisionKey(&answers[i]) {
				err = errors.New("the model's form can't express it")
				for _, call := range answers[i].ToolCalls { // a call of an unknown tool reads as a reply
					if _, wrong := c.Set.Accept(call.Name, call.Arguments, nil); wrong != nil {
						err = wrong
					}
				}
				return &ChoiceError{i, err}
			}
		}
	}
	if n := sharedMarks(written); !whole && n > 0 {
		prompt.Segments = append(prompt.Segments, written[0][0][:n]...)
		prompt.Text += textOf(written[0][0][:n])
		for i := range written {
			written[i][0] = written[i][0][n:]
		}
	}
	choice := &generation.Choice{Answers: make([][][]generation.Token, len(answers)), Whole: whole}
	end := tail(prompt.Segments)
	before, err := a.tokenizer.Tokens(ctx, end)
	if err != nil {
		return err
	}
	for i := range written {
		for _, text := range written[i] {
			tokens, err := a.tokenizer.Tokens(ctx, join(end, text))
			switch n := len(before); {
			case err != nil:
				return err
			case len(tokens) <= n || !slices.Equal(tokens[:n], before):
				return &ChoiceError{i, errors.New("it has no tokens of its own after this model's prompt")}
			default:
				choice.Answers[i] = append(choice.Answers[i], tokens[n:])
			}
		}
	}
	r.Choice, r.MaxTokens, r.N, r.Seeds = choice, choice.MaxTokens(), 1, []uint32{0}
	r.Grammar, r.SuppressControl, r.StopRepeats, r.Scores, r.Sampling = "", false, false, false, generation.Sampling{}
	return nil
}

func textOf(segments []format.Segment) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString(s.Text)
	}
	return b.String()
}

// sharedMarks returns how many segments all labels begin with, up to the last special one.
func sharedMarks(labels [][][]format.Segment) (n int) {
	for i, s := range labels[0][0] {
		for _, other := range labels {
			if i >= len(other[0]) || other[0][i] != s {
				return n
			}
		}
		if s.Special {
			n = i + 1
		}
	}
	return n
}

// tail returns the end of a prompt that may share a token with the text that follows: its last segment, shortened to
// about maxTail bytes unless it is special.
func tail(segments []format.Segment) []format.Segment {
	if len(segments) == 0 {
		return nil
	}
	last := segments[len(segments)-1]
	if !last.Special && len(last.Text) > maxTail {
		last.Text = strings.ToValidUTF8(last.Text[len(last.Text)-maxTail:], "")
	}
	return []format.Segment{last}
}

// join concatenates segments. Plain text at the seam becomes one segment, since it is tokenized as one.
func join(a, b []format.Segment) []format.Segment {
	list := slices.Concat(a, b)
	if n := len(a); n > 0 && len(b) > 0 && !a[n-1].Special && !b[0].Special {
		list[n].Text = list[n-1].Text + list[n].Text
		list = slices.Delete(list, n-1, n)
	}
	return list
}
