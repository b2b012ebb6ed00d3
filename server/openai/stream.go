package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

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

var errRestarted = errors.New("the generation started again on another device; send the request again")

// streamTo sends the events of a chat. Text goes out as it is generated; a chat with tools is
// sent once it is known whether it is a call.
func (c *chat) streamTo(ctx context.Context, emit func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &streaming{chat: c, feed: newFeed(c.request.N), emit: emit, sent: make([]string, c.request.N), begun: make([]bool, c.request.N)}
	c.request.Progress = s.feed.add
	type outcome struct {
		result *generation.Result
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		result, err := c.model.Generate(ctx, c.request)
		ended <- outcome{result, err}
	}()
	var end outcome
	var failed error
	for open := true; open; {
		select {
		case <-s.feed.more:
			if failed == nil {
				if failed = s.progress(); failed != nil {
					cancel()
				}
			}
		case end = <-ended:
			open = false
		}
	}
	err := failed
	if err == nil {
		err = end.err
	}
	if err == nil {
		err = s.finish(end.result)
	}
	if err != nil && s.open && ctx.Err() == nil {
		// The status is sent already.
		if s.event(AppendError(http.StatusInternalServerError, err.Error(), "")) == nil {
			return nil
		}
	}
	return err
}

// streaming is a stream that is being sent.
type streaming struct {
	*chat
	feed  *feed
	emit  func([]byte) error
	open  bool     // an event was sent
	sent  []string // by completion
	begun []bool
}

func (s *streaming) event(body []byte) error {
	s.open = true
	return s.emit(append(append([]byte("data: "), body...), "\n\n"...))
}

// send sends a part of one completion.
func (s *streaming) send(i int, part said, reason *string) error {
	if !s.begun[i] {
		s.begun[i], part.Role = true, "assistant"
	}
	a := s.answer("chat.completion.chunk")
	a.Choices = append(a.Choices, chatChoice{Index: i, Delta: &part, FinishReason: reason})
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return s.event(body)
}

// progress sends what is certain of each text.
func (s *streaming) progress() error {
	for i := range s.sent {
		ids, restarted := s.feed.read(i)
		if restarted && s.open {
			return errRestarted
		}
		if s.tools != nil || restarted {
			continue
		}
		text, err := s.model.Answer(s.model.Detokenize(ids[:min(len(ids), s.request.MaxTokens)]))
		if err != nil {
			continue // thoughts, or nothing yet
		}
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
	return s.send(i, said{Content: &rest}, nil)
}

// finish sends the ends of all completions.
func (s *streaming) finish(result *generation.Result) error {
	for i := range result.Completions {
		done := &result.Completions[i]
		if done.Err != nil {
			return done.Err
		}
		message, reason := s.read(done.Text, done.Finish != generation.FinishLength)
		if message.Content != nil {
			if err := s.text(i, *message.Content); err != nil {
				return err
			}
		}
		for k := range message.ToolCalls {
			message.ToolCalls[k].Index = &k
		}
		if err := s.send(i, said{ToolCalls: message.ToolCalls}, &reason); err != nil {
			return err
		}
	}
	if s.usage {
		a := s.answer("chat.completion.chunk")
		a.Usage = usageOf(result)
		body, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if err := s.event(body); err != nil {
			return err
		}
	}
	return s.event([]byte("[DONE]"))
}
