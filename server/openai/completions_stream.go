package openai

import (
	"cmp"
	"context"
	"slices"

	"agentd/scheduler/generation"
)

// completionStream is a stream of completions that is being sent.
type completionStream struct {
	feed
	*completion
}

// streamTo sends the events of completions: tokens as they are chosen.
func (c *completion) streamTo(ctx context.Context, to Stream) error {
	s := &completionStream{completion: c}
	for i := range c.requests {
		r := &c.requests[i]
		s.open(to, r)
		for k := range r.N {
			if r.Resume != nil {
				i, ids := i*r.N+k, r.Resume.Completions[k].Tokens
				s.chosen[i] = part{slices.Clone(ids), make([]generation.Score, len(ids))}
				s.count(i, ids)
				s.rest(i, c.Stop.certain(c.model.Detokenize(ids)))
			}
		}
	}
	return s.run(ctx, &s.whole, c.generate, s.progress, s.finish, func(u *usage) { s.event(u) })
}

// count counts tokens as sent.
func (s *completionStream) count(i int, ids []generation.Token) {
	s.sent[i].ids = append(s.sent[i].ids, ids...)
	for _, id := range ids {
		s.sent[i].bytes += len(s.model.Piece(id))
	}
}

func (s *completionStream) event(u *usage, choices ...completionChoice) {
	a := s.answer(u)
	a.Choices = append([]completionChoice{}, choices...)
	s.feed.event(a, withNulls...)
}

// progress sends the new tokens of a choice, and the part of its text that can't change any more.
func (s *completionStream) progress(i int, p part) {
	s.part(i, p, s.Stop.settled(s.model.Detokenize(p.ids)), nil)
}

// part sends the new part of a choice.
func (s *completionStream) part(i int, p part, text string, reason *string) {
	first := len(s.sent[i].ids) == 0
	p = p.from(len(s.sent[i].ids), len(p.ids))
	choice := completionChoice{Index: i, Text: s.rest(i, text), FinishReason: reason}
	if s.Logprobs != nil && len(p.ids) > 0 {
		choice.Logprobs = &completionScores{end: s.sent[i].bytes, named: s.NamedTokens}
	}
	s.tokens(&choice, p, first)
	s.count(i, p.ids)
	s.event(s.soFar(&s.whole, i, len(s.requests[i/s.requests[0].N].Prompt)), choice)
}

// finish sends the ends of all choices, and then the error of a failed one.
func (s *completionStream) finish(results []*generation.Result) {
	var failed error
	for i, r := range results {
		for k := range r.Completions {
			done := &r.Completions[k]
			if done.Err != nil && (done.Finish != generation.FinishPaused || !aborted(&s.requests[i])) {
				failed = cmp.Or(failed, done.Err)
				continue
			}
			text, reason, _ := s.Stop.cut(done.Text, finish(done.Finish))
			s.part(i*len(r.Completions)+k, wholeOf(done), text, &reason)
		}
	}
	s.err = cmp.Or(s.err, failed)
}
