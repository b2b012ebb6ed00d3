package openai

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/scheduler/generation"
)

// Stream is where the events of an answer go.
type Stream struct {
	Send func(part []byte) error // sends a part of the body, and the status before the first one. It may be empty.
	// Quiet asks for a comment, so that a client and what is between see that the answer goes on.
	Quiet <-chan time.Time
}

// streaming is a stream that is being sent. After an error nothing more is sent.
type streaming struct {
	*chat
	send  func([]byte) error
	sent  []string // by completion
	begun []bool
	err   error

	more      chan struct{} // there are tokens; holds at most one
	mu        sync.Mutex
	tokens    [][]generation.Token // by completion; guarded by mu, as restarted is
	restarted bool
}

// add is the Progress of the request. It never blocks the engine.
func (s *streaming) add(completion int, ids []generation.Token, _ []generation.Score) {
	s.mu.Lock()
	if completion < 0 {
		s.restarted = true
	} else {
		s.tokens[completion] = append(s.tokens[completion], ids...)
	}
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// streamTo sends the events of a chat: text as it is generated, a call once it is checked.
func (c *chat) streamTo(ctx context.Context, to Stream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := c.request.N
	s := &streaming{chat: c, send: to.Send, sent: make([]string, n), begun: make([]bool, n), tokens: make([][]generation.Token, n), more: make(chan struct{}, 1)}
	c.request.Progress = s.add
	var result *generation.Result
	var err error
	admitted, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		result, err = c.model.Generate(ctx, c.request, func() { close(admitted) })
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
				s.finish(result)
			}
			return cmp.Or(err, s.err)
		}
	}
	cancel()
	<-ended
	return s.err
}

func (s *streaming) write(part []byte) {
	if s.err == nil {
		s.err = s.send(part)
	}
}

func (s *streaming) event(u *usage, choices ...chatChoice) {
	body, err := marshal(s.answer("chat.completion.chunk", u, choices))
	s.err = cmp.Or(s.err, err)
	s.write(fmt.Appendf(nil, "data: %s\n\n", body))
}

func (s *streaming) part(i int, part delta, reason *string) {
	if !s.begun[i] {
		s.begun[i], part.Role = true, "assistant"
	}
	s.event(nil, chatChoice{Index: i, Delta: &part, FinishReason: reason})
}

// progress sends what is certain of each text.
func (s *streaming) progress() {
	s.mu.Lock()
	tokens, restarted := slices.Clone(s.tokens), s.restarted
	s.mu.Unlock()
	if restarted {
		if slices.Contains(s.begun, true) {
			s.err = &Error{Param: "stream", Message: "the generation started again on another device; send the request again", Answer: true}
		}
		return
	}
	for i, ids := range tokens {
		text, reason := s.Stop.cut(s.answers.SoFar(s.model.Detokenize(ids[:min(len(ids), s.request.MaxTokens)])), "")
		if reason == "" {
			text = s.Stop.certain(text)
		}
		s.text(i, text)
	}
}

// certain cuts a text before what may be the beginning of a stop text, or of a character.
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
		message, reason, err := s.read(i, &result.Completions[i])
		if err != nil {
			invalid = cmp.Or(invalid, err)
			continue
		}
		if message.Content != nil {
			s.text(i, *message.Content)
		}
		s.calls(i, message.ToolCalls)
		s.part(i, delta{}, &reason)
	}
	s.err = cmp.Or(s.err, invalid)
	if s.StreamOptions != nil && s.StreamOptions.IncludeUsage {
		s.event(usageOf(result))
	}
	s.write([]byte("data: [DONE]\n\n"))
}
