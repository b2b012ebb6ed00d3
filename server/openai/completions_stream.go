package openai

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"agentd/scheduler/generation"
)

// completionStream is a stream of completions that is being sent. After an error nothing more is sent.
type completionStream struct {
	*completion
	send func([]byte) error
	err  error
	sent []sentChoice

	more chan struct{} // there are tokens; holds at most one
	mu   sync.Mutex
	now  []tokensSoFar // by choice; guarded by mu
}

type tokensSoFar struct {
	ids    []generation.Token
	scores []generation.Score
}

// sentChoice is what was sent of a choice. A choice that continues another answer begins with that.
type sentChoice struct {
	ids   []generation.Token
	text  string
	bytes int // of ids
}

// streamTo sends the events of completions: tokens as they are chosen.
func (c *completion) streamTo(ctx context.Context, to Stream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &completionStream{completion: c, send: to.Send, more: make(chan struct{}, 1)}
	for i := range c.requests {
		r := &c.requests[i]
		first := i * r.N
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
			s.now = append(s.now, tokensSoFar{slices.Clone(begun.ids), make([]generation.Score, len(begun.ids))})
		}
		r.Stream, r.Watch = true, func(e generation.Event) { s.add(first, r.N, e) }
	}
	var results []*generation.Result
	var err error
	admitted, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		results, err = c.generate(ctx, func() { close(admitted) })
	}()
	for s.err == nil {
		select {
		case <-admitted:
			admitted = nil
			s.write(nil)
		case <-to.Quiet:
			s.write([]byte(": keep-alive\n\n"))
		case <-s.more:
			s.progress()
		case <-ended:
			if err == nil {
				s.finish(results)
			}
			return cmp.Or(err, s.err)
		}
	}
	cancel()
	<-ended
	return s.err
}

// add watches a request with n choices, of which first is the first one of the stream.
func (s *completionStream) add(first, n int, e generation.Event) {
	s.mu.Lock()
	if e.Kind == generation.Restarted { // another device computes the request again
		clear(s.now[first : first+n])
	}
	t := &s.now[first+e.Completion]
	t.ids, t.scores = append(t.ids, e.Tokens...), append(t.scores, e.Scores...)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *completionStream) write(part []byte) {
	if s.err == nil {
		s.err = s.send(part)
	}
}

func (s *completionStream) event(u *usage, choices []completionChoice) {
	a := s.answer(u)
	a.Choices = choices
	body, err := marshal(a, withNulls...)
	s.err = cmp.Or(s.err, err)
	s.write(fmt.Appendf(nil, "data: %s\n\n", body))
}

// progress sends the new tokens, and what is certain of their texts.
func (s *completionStream) progress() {
	s.mu.Lock()
	now := slices.Clone(s.now)
	s.mu.Unlock()
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
		s.err = cmp.Or[error](s.err, &Error{Param: "stream", Message: "the generation started again on another device; send the request again", Answer: true})
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
	s.event(nil, []completionChoice{choice})
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
		s.event(s.usage(results), []completionChoice{})
	}
	s.write([]byte("data: [DONE]\n\n"))
}
