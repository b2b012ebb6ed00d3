package openai

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"agentd/scheduler/generation"
)

// streaming is a chat that is being sent.
type streaming struct {
	feed
	*chat
	sent  []string // by completion, as the others
	begun []bool
	given []int  // tokens
	next  []part // tokens for the next event
	first bool   // an event was sent
}

// streamTo sends the events of a chat: text as it is generated, a call once it is checked. With return_token_ids or
// logprobs each event has the tokens since the last one.
func (c *chat) streamTo(ctx context.Context, to Stream) error {
	n := c.request.N
	s := &streaming{chat: c, sent: make([]string, n), begun: make([]bool, n), given: make([]int, n), next: make([]part, n)}
	return s.one(ctx, c.model, c.request, to, func() bool { return slices.Contains(s.begun, true) }, s.progress, s.finish)
}

func (s *streaming) chunk(u *usage, choices ...chatChoice) {
	a := s.answer("chat.completion.chunk", u, choices)
	if s.ReturnIDs && !s.first {
		a.PromptIDs = s.request.Prompt
	}
	s.first = true
	s.event(a)
}

func (s *streaming) part(i int, part delta, reason *string) {
	if !s.begun[i] {
		s.begun[i], part.Role = true, "assistant"
	}
	choice := chatChoice{Index: i, Delta: &part, FinishReason: reason}
	s.tokens(&choice, s.next[i])
	s.given[i] += len(s.next[i].ids)
	s.next[i].ids, s.next[i].scores = nil, nil
	s.chunk(nil, choice)
}

// progress sends what is certain of each text.
func (s *streaming) progress(chosen []part) {
	for i, p := range chosen {
		s.next[i] = p.from(s.given[i], s.request.MaxTokens)
		text, reason := s.Stop.cut(s.answers.SoFar(s.model.Detokenize(p.ids[:min(len(p.ids), s.request.MaxTokens)])), "")
		if reason == "" {
			text = s.Stop.certain(text)
		}
		s.text(i, text)
		if (s.ReturnIDs || s.Logprobs) && len(s.next[i].ids) > 0 {
			s.part(i, delta{}, nil)
		}
	}
}

// certain cuts a text before what may be the beginning of one of the others, or of a character.
func (l list) certain(text string) string {
	text = strings.TrimRight(text, "\uFFFD") // a part of a character
	hold := 0
	for _, stop := range l {
		for n := min(len(stop)-1, len(text)); n > hold; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				hold = n
			}
		}
	}
	return text[:len(text)-hold]
}

// text sends what was not sent yet of a text.
func (s *streaming) text(i int, text string) {
	if rest, ok := strings.CutPrefix(text, s.sent[i]); ok && rest != "" {
		s.sent[i] = text
		s.part(i, delta{Content: &rest}, nil)
	}
}

// calls sends calls: the name of each, then its arguments.
func (s *streaming) calls(i int, calls []toolCall) {
	for k, name := range calls {
		arguments := toolCall{Index: &k, Function: called{Arguments: name.Function.Arguments}}
		name.Index, name.Function.Arguments = &k, ""
		s.part(i, delta{ToolCalls: []toolCall{name}}, nil)
		s.part(i, delta{ToolCalls: []toolCall{arguments}}, nil)
	}
}

// finish sends the ends of all completions, and then the error of an invalid one.
func (s *streaming) finish(result *generation.Result) {
	var invalid error
	for i := range result.Completions {
		done := &result.Completions[i]
		message, reason, err := s.read(i, done)
		if err != nil {
			invalid = cmp.Or(invalid, err)
			continue
		}
		all := wholeOf(done)
		s.next[i] = all.from(s.given[i], len(all.ids))
		if message.Content != nil {
			s.text(i, *message.Content)
		}
		s.calls(i, message.ToolCalls)
		s.part(i, delta{}, &reason)
	}
	s.err = cmp.Or(s.err, invalid)
	if s.StreamOptions != nil && s.StreamOptions.IncludeUsage {
		s.chunk(usageOf(result))
	}
	s.done()
}
