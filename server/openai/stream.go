package openai

import (
	"cmp"
	"context"
	"strings"

	"agentd/scheduler/generation"
)

// streaming is a chat that is being sent.
type streaming struct {
	feed
	*chat
	begun []bool // by completion, like next
	next  []part // tokens for the next event
	first bool   // an event was sent
}

// streamTo sends the events of a chat: text as it is generated, a call once it is checked. With return_token_ids or
// logprobs each event has the tokens since the last one.
func (c *chat) streamTo(ctx context.Context, to Stream) error {
	n := c.request.N
	s := &streaming{chat: c, begun: make([]bool, n), next: make([]part, n)}
	s.open(to, c.request)
	generate := single(c.model, "chat", c.served.Name, c.request)
	return s.run(ctx, &s.whole, generate, s.progress, s.finish, func(u *usage) { s.chunk(u) })
}

func (s *streaming) chunk(u *usage, choices ...chatChoice) {
	a := s.answer("chat.completion.chunk", u, choices)
	if s.ReturnIDs && !s.first {
		a.PromptIDs = s.request.Prompt
	}
	s.first = true
	s.event(a)
}

func (s *streaming) part(i int, d delta, reason *string) {
	if !s.begun[i] {
		s.begun[i], d.Role = true, "assistant"
	}
	choice := chatChoice{Index: i, Delta: &d, FinishReason: reason}
	s.tokens(&choice, s.next[i])
	s.sent[i].ids = append(s.sent[i].ids, s.next[i].ids...)
	s.next[i] = part{}
	s.chunk(s.soFar(&s.whole, i, len(s.request.Prompt)), choice)
}

// progress sends the part of a completion's text that can't change any more.
func (s *streaming) progress(i int, p part) {
	s.next[i] = p.from(len(s.sent[i].ids), len(p.ids))
	s.text(i, s.Stop.settled(s.answers.SoFar(s.model.Detokenize(p.ids))))
	if (s.ReturnIDs || s.Logprobs) && len(s.next[i].ids) > 0 {
		s.part(i, delta{}, nil)
	}
}

// settled returns the part of an unfinished text that can't change any more, up to the first stop text.
func (l list) settled(text string) string {
	before, _, stop := l.cut(text, "")
	if stop == "" {
		before = l.certain(before)
	}
	return before
}

// certain cuts off an end that may be the beginning of a stop text or of a character.
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

// text sends the part of a text that was not sent yet.
func (s *streaming) text(i int, text string) {
	if rest := s.rest(i, text); rest != "" {
		s.part(i, delta{Content: &rest}, nil)
	}
}

// calls sends calls: the name of each, then its arguments.
func (s *streaming) calls(i int, calls []ToolCall) {
	for k, name := range calls {
		arguments := ToolCall{Index: &k, Function: Called{Arguments: name.Function.Arguments}}
		name.Index, name.Function.Arguments = &k, ""
		s.part(i, delta{ToolCalls: []ToolCall{name}}, nil)
		s.part(i, delta{ToolCalls: []ToolCall{arguments}}, nil)
	}
}

// finish sends the ends of all completions, and then the error of an invalid one.
func (s *streaming) finish(results []*generation.Result) {
	var invalid error
	result := results[0]
	for i := range result.Completions {
		done := &result.Completions[i]
		message, reason, err := s.read(i, done)
		if err != nil {
			invalid = cmp.Or(invalid, err)
			continue
		}
		all := wholeOf(done)
		s.next[i] = all.from(len(s.sent[i].ids), len(all.ids))
		if message.Content != nil {
			s.text(i, *message.Content)
		}
		s.calls(i, message.ToolCalls)
		s.part(i, delta{}, &reason)
	}
	s.err = cmp.Or(s.err, invalid)
}
