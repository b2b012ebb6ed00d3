package openai

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"agentd/scheduler/generation"
)

// completionStream is a stream of completions that is being sent.
type completionStream struct {
	feed
	*completion
	sent []sentChoice
}

// sentChoice is what was sent of a choice. A choice that continues another answer begins with that.
type sentChoice struct {
	ids   []generation.Token
	text  string
	bytes int // of ids
}

// streamTo sends the events of completions: tokens as they are chosen.
func (c *completion) streamTo(ctx context.Context, to Stream) error {
	s := &completionStream{completion: c}
	for i := range c.requests {
		r := &c.requests[i]
		for k := range r.N {
			var begun sentChoice
			if r.Resume != nil {
				begun.ids = r.Resume.Completions[k].Tokens
				begun.text = c.Stop.certain(c.model.Detokenize(begun.ids))
				for _, id := range begun.ids {
					begun.bytes += len(c.model.Piece(id))
				}
			}
			s.sent = append(s.sent, begun)
		}
		s.watch(r)
	}
	return s.run(ctx, to, func(ctx context.Context, admitted func()) (func(), error) {
		results, err := c.generate(ctx, admitted)
		return func() { s.finish(results) }, err
	}, s.progress)
}

func (s *completionStream) chunk(u *usage, choices []completionChoice) {
	a := s.answer(u)
	a.Choices = choices
	s.event(a, withNulls...)
}

// progress sends the new tokens, and what is certain of their texts. After a restart they are compared with what was sent.
func (s *completionStream) progress(now []part, _ bool) {
	for i, t := range now {
		most := s.requests[i/s.requests[0].N].MaxTokens
		ids := t.ids[:min(len(t.ids), most)] // forced tokens may be beyond it
		text, reason := s.Stop.cut(s.model.Detokenize(ids), "")
		if reason == "" {
			text = s.Stop.certain(text)
		}
		s.part(i, ids, t.scores, text, nil)
	}
}

// part sends what was not sent yet of a choice.
func (s *completionStream) part(i int, ids []generation.Token, scores []generation.Score, text string, reason *string) {
	was := &s.sent[i]
	from := len(was.ids)
	switch {
	case reason == nil && len(ids) <= from:
		return
	case len(ids) < from || !slices.Equal(ids[:from], was.ids): // other kernels round differently
		s.err = cmp.Or[error](s.err, errRestarted)
		return
	}
	choice := completionChoice{Index: i, FinishReason: reason}
	if rest, ok := strings.CutPrefix(text, was.text); ok {
		choice.Text, was.text = rest, text
	}
	if s.ReturnIDs {
		choice.TokenIDs = ids[from:]
		if from == 0 && i%s.requests[0].N == 0 {
			choice.PromptIDs = s.requests[i/s.requests[0].N].Prompt
		}
	}
	scores = scores[min(from, len(scores)):min(len(ids), len(scores))]
	if s.ReturnMask {
		choice.SamplingMask = masksOf(scores)
	}
	if s.Logprobs != nil && len(ids) > from {
		choice.Logprobs = &completionScores{end: was.bytes, named: s.NamedTokens}
		choice.Logprobs.add(s.model, ids[from:], scores, *s.Logprobs)
	}
	for _, id := range ids[from:] {
		was.bytes += len(s.model.Piece(id))
	}
	was.ids = ids
	s.chunk(nil, []completionChoice{choice})
}

// finish sends the ends of all choices, and then the error of one that failed.
func (s *completionStream) finish(results []*generation.Result) {
	var failed error
	for i, r := range results {
		for k := range r.Completions {
			done := &r.Completions[k]
			if done.Err != nil {
				failed = cmp.Or(failed, done.Err)
				continue
			}
			text, reason := s.Stop.cut(done.Text, finish(done.Finish))
			s.part(i*len(r.Completions)+k, done.All(), done.Scores, text, &reason)
		}
	}
	if s.err = cmp.Or(s.err, failed); s.err != nil {
		return
	}
	if s.StreamOptions != nil && s.StreamOptions.IncludeUsage {
		s.chunk(s.usage(results), []completionChoice{})
	}
	s.done()
}
