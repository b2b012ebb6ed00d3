package target

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"agentd/bench/workload"
)

// LlamaServer is llama.cpp's llama-server. It gets the tokens of agentd's prompts
// through /completion. It needs as many slots (-np) as a turn has candidates. Counters need
// --metrics.
type LlamaServer struct{ *remote }

// completionRequest is the body of POST /completion.
type completionRequest struct {
	Prompt      []int32  `json:"prompt"`
	N           int      `json:"n_cmpl"`
	NPredict    int      `json:"n_predict"`
	IgnoreEOS   bool     `json:"ignore_eos"`
	Grammar     string   `json:"grammar,omitempty"`
	CachePrompt bool     `json:"cache_prompt"`
	Samplers    []string `json:"samplers"`
	Temperature float64  `json:"temperature"`
	TopK        int      `json:"top_k"`
	TopP        float64  `json:"top_p"`
	MinP        float64  `json:"min_p"`
	Seed        uint32   `json:"seed"`
	// Fields of the answer. Without the list it repeats the prompt and all settings.
	Fields []string `json:"response_fields"`
}

var answerFields = []string{"index", "stop", "stop_type", "tokens_predicted", "tokens_evaluated", "timings"}

// completion is one candidate of an answer.
type completion struct {
	Index     int      `json:"index"`
	Stop      bool     `json:"stop"`
	StopType  string   `json:"stop_type"`
	Predicted *int     `json:"tokens_predicted"`
	Evaluated *int     `json:"tokens_evaluated"` // all prompt tokens, cached ones too
	Timings   *timings `json:"timings"`
}

// timings of one candidate, as the server measured them.
type timings struct {
	Computed    int     `json:"prompt_n"`
	PredictedMS float64 `json:"predicted_ms"` // from the first to the last token
}

// seedRange keeps seeds below 4294967295, which stands for a random seed.
const seedRange = 1 << 31

// llamaRequest is the request for all candidates of a turn.
func llamaRequest(t *workload.Turn, o Options) ([]byte, error) {
	if err := o.check(t); err != nil {
		return nil, err
	}
	if len(t.Tokens) == 0 {
		return nil, turnError(t, "has no tokens; render the trace with the model file first")
	}
	r := completionRequest{
		Prompt: t.Tokens, N: t.Candidates, CachePrompt: true, Fields: answerFields,
		NPredict: o.MaxTokens, Grammar: t.Grammar,
		// The cheapest sampler chains of the same meaning.
		Samplers: []string{"temperature"}, Temperature: 1, TopP: 1,
		Seed: uint32(o.Seed % seedRange),
	}
	if o.Greedy {
		r.Samplers, r.TopK, r.Temperature = []string{"top_k"}, 1, 0
	}
	if o.FixedTokens > 0 {
		r.NPredict, r.IgnoreEOS, r.Grammar = o.FixedTokens, true, ""
	}
	return json.Marshal(&r)
}

// Ask implements [Target].
func (s *LlamaServer) Ask(ctx context.Context, t *workload.Turn, o Options) (Answer, error) {
	start := time.Now()
	body, err := llamaRequest(t, o)
	if err != nil {
		return Answer{}, err
	}
	text, _, err := s.exchange(ctx, http.MethodPost, "/completion", body)
	if err != nil {
		return Answer{}, err
	}
	return readCompletions(text, len(t.Tokens), t.Candidates, o, start, time.Now())
}

const llamaHint = "is the context of a slot large enough (-c, -np)?"

// readCompletions reads the answer to a prompt of so many tokens: one object for one
// candidate, else a list. The server's timings give TTFT: all candidates start at the end
// of the prompt, and the longest has just ended. The first candidate's slot computed the
// prompt; the others report a copy.
func readCompletions(body []byte, prompt, n int, o Options, start, now time.Time) (Answer, error) {
	list := make([]completion, 1)
	var into any = &list[0]
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '[' {
		into = &list
	}
	if err := json.Unmarshal(body, into); err != nil {
		return Answer{}, contract("the answer can't be read: %w", err)
	}
	if len(list) != n {
		return Answer{}, contract("the answer has %d candidates instead of %d", len(list), n)
	}
	slices.SortFunc(list, func(a, b completion) int { return a.Index - b.Index })
	a := Answer{PromptTokens: prompt, First: -1}
	longest := 0.0
	for i := range list {
		part := &list[i]
		if err := part.check(i, prompt); err != nil {
			return Answer{}, err
		}
		candidate := Candidate{Tokens: *part.Predicted}
		if part.StopType == "limit" && o.FixedTokens == 0 {
			candidate.Failure = codeTruncated
		}
		if err := candidate.checkLength(i, o, llamaHint); err != nil {
			return Answer{}, err
		}
		a.Candidates = append(a.Candidates, candidate)
		a.OutputTokens += candidate.Tokens
		longest = max(longest, part.Timings.PredictedMS)
	}
	a.ComputedTokens = list[0].Timings.Computed
	if a.OutputTokens > 0 {
		a.First = max(0, now.Sub(start)-millis(longest))
	}
	return a, nil
}

// check checks candidate i of a prompt with so many tokens.
func (c *completion) check(i, prompt int) error {
	t := c.Timings
	switch {
	case c.Index != i:
		return contract("the answer has candidate %d instead of %d", c.Index, i)
	case c.Predicted == nil || *c.Predicted < 0 || c.Evaluated == nil || t == nil || !c.Stop:
		return contract("candidate %d has not ended, or lacks tokens_predicted, tokens_evaluated or timings; is it llama-server?", i)
	case *c.Evaluated != prompt:
		return contract("the prompt of candidate %d has %d tokens at the server; %d were sent", i, *c.Evaluated, prompt)
	case bad(t.PredictedMS) || t.Computed < 0:
		return contract("the timings of candidate %d are invalid: %+v", i, *t)
	}
	return nil
}

// Counters implements [Target]. Rows are an estimate: prompt tokens plus busy slots of
// each step, where slots that computed a prompt count once too often.
func (s *LlamaServer) Counters(ctx context.Context) (Counters, error) {
	m, err := s.metrics(ctx)
	if err != nil {
		return Counters{}, err
	}
	c := Counters{
		Prefilled: m.number("llamacpp:prompt_tokens_total"),
		Steps:     m.number("llamacpp:n_decode_total"),
		Rows:      -1, CellsUsed: -1,
	}
	if c.Steps < 0 || c.Prefilled < 0 {
		return Counters{}, fmt.Errorf("%w: /metrics has no llamacpp:n_decode_total; is it llama-server?", ErrNoCounters)
	}
	if busy := m.number("llamacpp:n_busy_slots_per_decode"); busy >= 0 {
		c.Rows = c.Prefilled + busy*c.Steps
	}
	return c, nil
}

// Describe implements [Target].
func (s *LlamaServer) Describe(ctx context.Context) (map[string]string, error) {
	var props struct {
		Build string `json:"build_info"`
		Slots int    `json:"total_slots"`
	}
	body, err := s.get(ctx, "/props")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &props); err != nil {
		return nil, contract("/props: %w", err)
	}
	return map[string]string{"server": KindLlamaServer, "version": props.Build, "slots": fmt.Sprint(props.Slots)}, nil
}
