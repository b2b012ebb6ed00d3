package target

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// chatAnswer is an answer of /chat/completions, or a part of it in a stream.
type chatAnswer struct {
	Choices []chatChoice    `json:"choices"`
	Usage   *chatUsage      `json:"usage"`
	Timings json.RawMessage `json:"timings"` // llama-server's
	Error   json.RawMessage `json:"error"`   // of a stream that broke
}

type chatChoice struct {
	Index   int      `json:"index"`
	Message chatText `json:"message"`
	Delta   chatText `json:"delta"`
	Finish  *string  `json:"finish_reason"`
}

// chatText is what a message says. Servers name the reasoning in two ways.
type chatText struct {
	Content   *string `json:"content"`
	Reasoning *string `json:"reasoning_content"`
	Thoughts  *string `json:"reasoning"`
	Calls     []struct {
		Index    *int `json:"index"` // of the call, in a stream
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// append appends all that is said, which is what candidates are told apart by.
func (t *chatText) append(dst []byte) []byte {
	for _, s := range []*string{t.Reasoning, t.Thoughts, t.Content} {
		if s != nil {
			dst = append(dst, *s...)
		}
	}
	for i := range t.Calls {
		dst = append(append(dst, t.Calls[i].Function.Name...), t.Calls[i].Function.Arguments...)
	}
	return dst
}

type chatUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// saying is what a candidate says beside its reasoning.
type saying struct {
	content []byte
	calls   []calling
}

// calling is a call, which a stream brings in parts.
type calling struct {
	index     int
	name      string
	arguments []byte
}

// add adds what a message or a part of one says. A part without an index is a call
// of its own.
func (s *saying) add(t *chatText) {
	if t.Content != nil {
		s.content = append(s.content, *t.Content...)
	}
	for i := range t.Calls {
		part, k := &t.Calls[i], -1
		if part.Index != nil {
			k = slices.IndexFunc(s.calls, func(c calling) bool { return c.index == *part.Index })
		}
		if k < 0 {
			k = len(s.calls)
			s.calls = append(s.calls, calling{index: k})
			if part.Index != nil {
				s.calls[k].index = *part.Index
			}
		}
		s.calls[k].name += part.Function.Name
		s.calls[k].arguments = append(s.calls[k].arguments, part.Function.Arguments...)
	}
}

// choices gathers the candidates of one request to a chat API.
type choices struct {
	texts  [][]byte
	said   []saying
	finish []string // "" until a candidate has ended
	came   []arrivals
	usage  *chatUsage
	// decides tells whether what a candidate says is a decision. It is not asked about
	// texts of a fixed length.
	decides func(*saying) bool
	// shared: the usage is of all candidates. llama-server's, which is known by its
	// timings, is of the first one only.
	shared bool
	stream bool
}

var chatHints = hints{
	fixed: "does the server know ignore_eos and min_tokens, and is its context large enough?",
	limit: "the server does not keep max_tokens",
}

// maxReason bounds a finish_reason, which becomes the code of a failure, in bytes.
const maxReason = 40

func newChoices(n int) *choices {
	return &choices{texts: make([][]byte, n), said: make([]saying, n), finish: make([]string, n), came: make([]arrivals, n), shared: true}
}

// read reads a whole answer.
func (c *choices) read(body []byte) error {
	var a chatAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return contract("the answer can't be read: %w", err)
	}
	return c.take(&a, func(choice *chatChoice) *chatText { return &choice.Message }, time.Time{})
}

// event reads a part of a stream that came at some time.
func (c *choices) event(data []byte, now time.Time) error {
	c.stream = true
	if string(bytes.TrimSpace(data)) == "[DONE]" {
		return nil
	}
	var a chatAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return contract("a part of the stream can't be read: %w", err)
	}
	if a.Error != nil && string(a.Error) != "null" {
		return &Failure{Kind: Status, Err: fmt.Errorf("the stream broke: %s", serverError(a.Error))}
	}
	return c.take(&a, func(choice *chatChoice) *chatText { return &choice.Delta }, now)
}

// take adds what an answer or a part of one says. Each part that says something
// counts as one token, for the times between them only.
func (c *choices) take(a *chatAnswer, text func(*chatChoice) *chatText, now time.Time) error {
	if a.Usage != nil {
		if a.Usage.Prompt < 0 || a.Usage.Completion < 0 {
			return contract("usage has negative counts")
		}
		c.usage = a.Usage
	}
	if len(a.Timings) > 0 {
		c.shared = false
	}
	for i := range a.Choices {
		choice := &a.Choices[i]
		if choice.Index < 0 || choice.Index >= len(c.texts) {
			return contract("there is a choice %d where %d were asked for", choice.Index, len(c.texts))
		}
		before := len(c.texts[choice.Index])
		c.texts[choice.Index] = text(choice).append(c.texts[choice.Index])
		c.said[choice.Index].add(text(choice))
		if len(c.texts[choice.Index]) > before {
			c.came[choice.Index].add(now, 1)
		}
		if choice.Finish != nil && *choice.Finish != "" {
			c.finish[choice.Index] = (*choice.Finish)[:min(len(*choice.Finish), maxReason)]
		}
	}
	return nil
}

// answer makes one answer of the candidates.
func (c *choices) answer(o Options, start time.Time) (Answer, error) {
	n := len(c.texts)
	a := Answer{Candidates: make([]Candidate, n), PromptTokens: -1, ComputedTokens: -1, OutputTokens: -1, Queue: -1, First: -1}
	if c.usage != nil {
		a.PromptTokens = c.usage.Prompt
		if d := c.usage.Details; d != nil && d.Cached >= 0 && d.Cached <= c.usage.Prompt {
			a.ComputedTokens = c.usage.Prompt - d.Cached
		}
		if n == 1 || c.shared {
			a.OutputTokens = c.usage.Completion
		}
	}
	for i := range a.Candidates {
		candidate := Candidate{Text: string(c.texts[i]), Tokens: -1}
		if n == 1 {
			candidate.Tokens = a.OutputTokens
		}
		switch c.finish[i] {
		case "":
			if c.stream {
				return Answer{}, &Failure{Kind: Transport, Err: fmt.Errorf("the stream ended before choice %d did", i)}
			}
			return Answer{}, contract("choice %d is missing or has no finish_reason; a server without n needs separate requests", i)
		case "stop", "tool_calls":
			if o.FixedTokens == 0 && c.decides != nil && !c.decides(&c.said[i]) {
				candidate.Failure = codeInvalidOutput
			}
		case "length":
			if o.FixedTokens == 0 {
				candidate.Failure = codeTruncated
			}
		default: // content_filter, and what servers have beside that
			candidate.Failure = c.finish[i]
		}
		if err := candidate.checkLength(i, o, chatHints); err != nil {
			return Answer{}, err
		}
		a.Candidates[i] = candidate
	}
	if o.FixedTokens > 0 && a.OutputTokens >= 0 && a.OutputTokens != n*o.FixedTokens {
		return Answer{}, contract("%d candidates have %d tokens where every one shall have %d; %s", n, a.OutputTokens, o.FixedTokens, chatHints.fixed)
	}
	if c.stream {
		a.merge(start, c.came)
	}
	return a, nil
}
