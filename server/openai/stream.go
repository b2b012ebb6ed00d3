package openai

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/scheduler/generation"
)

// feed collects tokens from the engine until they are sent. It never blocks the engine.
type feed struct {
	mu        sync.Mutex
	tokens    [][]generation.Token // by completion
	restarted bool
	more      chan struct{} // holds at most one
}

func newFeed(n int) *feed {
	return &feed{tokens: make([][]generation.Token, n), more: make(chan struct{}, 1)}
}

// add is the Progress of a request.
func (f *feed) add(completion int, ids []generation.Token) {
	f.mu.Lock()
	if completion < 0 {
		f.restarted = true
	} else {
		f.tokens[completion] = append(f.tokens[completion], ids...)
	}
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

func (f *feed) read(completion int) (ids []generation.Token, restarted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tokens[completion], f.restarted
}

var errRestarted = &Error{Param: "stream", Message: "the generation started again on another device; send the request again", Answer: true}

// Stream is where the events of an answer go.
type Stream struct {
	// Send sends a part of the body, and the status before the first one. It may be empty.
	Send func(part []byte) error
	// Quiet asks for a comment, so that a client and what is between see that the answer goes on.
	Quiet <-chan time.Time
}

// streamTo sends the events of a chat. Text goes out as it is generated, a call once it is
// complete and checked.
func (c *chat) streamTo(ctx context.Context, to Stream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &streaming{chat: c, feed: newFeed(c.request.N), send: to.Send, sent: make([]string, c.request.N), begun: make([]bool, c.request.N)}
	c.request.Progress = s.feed.add
	var result *generation.Result
	var err, failed error
	admitted, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		result, err = c.model.Generate(ctx, c.request, func() { close(admitted) })
	}()
	for open := true; open; {
		var now error
		select {
		case <-admitted:
			admitted = nil
			now = s.send(nil)
		case <-to.Quiet:
			now = s.send([]byte(": keep-alive\n\n"))
		case <-s.feed.more:
			now = s.progress()
		case <-ended:
			open = false
		}
		if now != nil && failed == nil {
			failed = now
			s.send = func([]byte) error { return failed }
			cancel()
		}
	}
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return err
	}
	return s.finish(result)
}

// streaming is a stream that is being sent.
type streaming struct {
	*chat
	feed  *feed
	send  func([]byte) error
	sent  []string // by completion
	begun []bool
}

// event sends a part of an answer.
func (s *streaming) event(change func(*chatAnswer)) error {
	a := s.answer("chat.completion.chunk")
	change(a)
	body, err := marshal(a)
	if err != nil {
		return err
	}
	return s.send(append(append([]byte("data: "), body...), "\n\n"...))
}

// part sends a part of one completion.
func (s *streaming) part(i int, part delta, reason *string) error {
	if !s.begun[i] {
		s.begun[i], part.Role = true, "assistant"
	}
	return s.event(func(a *chatAnswer) { a.Choices = []chatChoice{{Index: i, Delta: &part, FinishReason: reason}} })
}

// progress sends what is certain of each text.
func (s *streaming) progress() error {
	for i := range s.sent {
		ids, restarted := s.feed.read(i)
		if restarted && slices.Contains(s.begun, true) {
			return errRestarted
		}
		if restarted {
			continue
		}
		text := s.answers.SoFar(s.model.Detokenize(ids[:min(len(ids), s.request.MaxTokens)]))
		text, stopped := s.stop.cut(text)
		if !stopped {
			text = s.certain(text)
		}
		if err := s.text(i, text); err != nil {
			return err
		}
	}
	return nil
}

// certain cuts a text before what may be the beginning of a stop text, or of a character.
func (s *streaming) certain(text string) string {
	for i := range 4 { // a cut character shows as U+FFFD, or as bytes that are not UTF-8
		if i < len(text) && text[len(text)-1-i] >= 0xc0 {
			text = text[:len(text)-1-i]
			break
		}
	}
	text = strings.TrimRight(text, "\uFFFD")
	hold := 0
	for _, stop := range s.stop {
		for n := min(len(stop)-1, len(text)); n > hold; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				hold = n
			}
		}
	}
	return text[:len(text)-hold]
}

// text sends what was not sent yet of a text.
func (s *streaming) text(i int, text string) error {
	rest, ok := strings.CutPrefix(text, s.sent[i])
	if !ok || rest == "" {
		return nil
	}
	s.sent[i] = text
	return s.part(i, delta{Content: &rest}, nil)
}

// calls sends calls: the name of each, then its arguments.
func (s *streaming) calls(i int, calls []toolCall) error {
	for k := range calls {
		name, arguments := calls[k], toolCall{Index: &k, Function: called{Arguments: calls[k].Function.Arguments}}
		name.Index, name.Function.Arguments = &k, ""
		for _, part := range []toolCall{name, arguments} {
			if err := s.part(i, delta{ToolCalls: []toolCall{part}}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish sends the ends of all completions. An answer that is no valid one is its error, which
// comes after the ends of the others.
func (s *streaming) finish(result *generation.Result) error {
	var invalid error
	for i := range result.Completions {
		message, reason, err := s.read(i, &result.Completions[i])
		if err != nil {
			invalid = cmp.Or(invalid, err)
			continue
		}
		if message.Content != nil {
			err = s.text(i, *message.Content)
		}
		if err == nil {
			err = s.calls(i, message.ToolCalls)
		}
		if err == nil {
			err = s.part(i, delta{}, &reason)
		}
		if err != nil {
			return err
		}
	}
	if invalid != nil {
		return invalid
	}
	if s.usage {
		if err := s.event(func(a *chatAnswer) { a.Usage = usageOf(result) }); err != nil {
			return err
		}
	}
	return s.send([]byte("data: [DONE]\n\n"))
}
