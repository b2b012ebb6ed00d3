package target

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// completions gathers the candidates of one request to llama-server, which come
// as an object or a list, or in parts as a stream.
type completions struct {
	prompt int // tokens that were sent
	parts  []completion
	came   []arrivals // of a stream
	stream bool
}

var llamaHints = hints{
	fixed: "is the context of a slot large enough (-c, -np)?",
	limit: "the server does not keep n_predict",
}

func newCompletions(prompt, n int) *completions {
	return &completions{prompt: prompt, parts: make([]completion, n), came: make([]arrivals, n)}
}

// read reads a whole answer: one object for one candidate, else a list.
func (c *completions) read(body []byte) error {
	var list []completion
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '[' {
		if err := json.Unmarshal(body, &list); err != nil {
			return contract("the answer can't be read: %w", err)
		}
	} else {
		list = make([]completion, 1)
		if err := json.Unmarshal(body, &list[0]); err != nil {
			return contract("the answer can't be read: %w", err)
		}
	}
	if len(list) != len(c.parts) {
		return contract("the answer has %d candidates where %d were asked for", len(list), len(c.parts))
	}
	for i := range list {
		part, err := c.check(&list[i])
		if err != nil {
			return err
		}
		if part.Stop {
			return contract("the answer has candidate %d twice", list[i].Index)
		}
		if !list[i].Stop {
			return contract("candidate %d has not ended", list[i].Index)
		}
		*part = list[i]
	}
	return nil
}

// event reads a part of a stream that came at some time.
func (c *completions) event(data []byte, now time.Time) error {
	c.stream = true
	var e completion
	if err := json.Unmarshal(data, &e); err != nil {
		return contract("a part of the stream can't be read: %w", err)
	}
	if e.Error != nil {
		return &Failure{Kind: Status, Err: fmt.Errorf("the stream broke: %s", serverError(e.Error))}
	}
	part, err := c.check(&e)
	if err != nil {
		return err
	}
	if part.Stop {
		return contract("candidate %d goes on after its end", e.Index)
	}
	came := &c.came[e.Index]
	came.add(now, *e.Predicted-came.tokens)
	e.Content = part.Content + e.Content
	*part = e
	return nil
}

// check is the candidate that an answer is about.
func (c *completions) check(e *completion) (*completion, error) {
	if e.Index < 0 || e.Index >= len(c.parts) {
		return nil, contract("there is a candidate %d where %d were asked for", e.Index, len(c.parts))
	}
	if e.Predicted == nil || *e.Predicted < 0 || e.Evaluated == nil {
		return nil, contract("candidate %d lacks tokens_predicted or tokens_evaluated; is it llama-server?", e.Index)
	}
	if *e.Evaluated != c.prompt {
		return nil, contract("the prompt of candidate %d has %d tokens at the server; %d were sent", e.Index, *e.Evaluated, c.prompt)
	}
	if e.Stop && e.Timings == nil {
		return nil, contract("candidate %d lacks timings", e.Index)
	}
	return &c.parts[e.Index], nil
}

// answer makes one answer of the candidates. Without a stream the time of the
// first token is found from the server's timings: all candidates of a request
// start from the end of its prompt, and the one that took longest has just ended.
// The first candidate's slot computed the prompt; what the others say of it is a
// copy.
func (c *completions) answer(o Options, start, now time.Time) (Answer, error) {
	a := Answer{PromptTokens: c.prompt, Queue: -1, First: -1, Candidates: make([]Candidate, len(c.parts))}
	longest := 0.0
	for i := range c.parts {
		part := &c.parts[i]
		if !part.Stop {
			return Answer{}, &Failure{Kind: Transport, Err: fmt.Errorf("the stream ended before candidate %d did", i)}
		}
		candidate := Candidate{Text: part.Content, Tokens: *part.Predicted}
		if part.StopType == "limit" && o.FixedTokens == 0 {
			candidate.Failure = codeTruncated
		}
		if err := candidate.checkLength(i, o, llamaHints); err != nil {
			return Answer{}, err
		}
		a.Candidates[i] = candidate
		a.OutputTokens += candidate.Tokens
		longest = max(longest, part.Timings.PredictedMS)
	}
	prompt := c.parts[0].Timings
	if bad(prompt.PromptMS) || bad(longest) || prompt.Computed < 0 {
		return Answer{}, contract("the timings are no times: prompt_ms %v, predicted_ms %v, prompt_n %d", prompt.PromptMS, longest, prompt.Computed)
	}
	a.ComputedTokens = prompt.Computed
	if c.stream {
		a.merge(start, c.came)
	} else if a.OutputTokens > 0 {
		a.First = max(0, now.Sub(start)-millis(longest))
	}
	if a.First >= 0 {
		a.Queue = max(0, a.First-millis(prompt.PromptMS))
	}
	return a, nil
}

func bad(ms float64) bool { return !(ms >= 0 && ms <= maxMillis) }
