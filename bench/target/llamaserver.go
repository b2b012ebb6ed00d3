package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"agentd/bench/workload"
)

// LlamaServer is llama.cpp's llama-server, asked through /completion with the
// tokens of the prompt that agentd gives to the model. The fields of requests and
// answers are those of its sources (server-schema.cpp, server-task.cpp).
type LlamaServer struct {
	*remote
	mode Mode
}

// NewLlamaServer makes a target of the llama-server at a URL such as
// http://127.0.0.1:8080. For ModeN it needs as many slots (-np) as an input has
// candidates; for counters --metrics.
func NewLlamaServer(baseURL string, mode Mode, opts ...Option) (*LlamaServer, error) {
	if err := mode.validate(); err != nil {
		return nil, err
	}
	r, err := newRemote(baseURL, opts)
	if err != nil {
		return nil, err
	}
	return &LlamaServer{r, mode}, nil
}

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
	Stream      bool     `json:"stream"`
	// Fields of the answer: without the list it repeats the prompt as text and all
	// settings, which costs both sides time.
	Fields []string `json:"response_fields"`
}

// answerFields are what is read of an answer.
var answerFields = []string{"index", "content", "stop", "stop_type", "tokens_predicted", "tokens_evaluated", "timings"}

// completion is one answer of /completion, or a part of it in a stream.
type completion struct {
	Index     int             `json:"index"`
	Content   string          `json:"content"`
	Stop      bool            `json:"stop"`
	StopType  string          `json:"stop_type"`
	Predicted *int            `json:"tokens_predicted"`
	Evaluated *int            `json:"tokens_evaluated"` // all tokens of the prompt, cached ones too
	Timings   *timings        `json:"timings"`
	Error     json.RawMessage `json:"error"` // of a stream that broke
}

// timings of one candidate, as the server measured them.
type timings struct {
	Computed    int     `json:"prompt_n"`
	PromptMS    float64 `json:"prompt_ms"`    // from the beginning of the prompt's computation to its end
	PredictedMS float64 `json:"predicted_ms"` // from then, when the first token is there, to the last token
}

// seedRange keeps seeds and what is added to them below the one that stands for
// "any" (4294967295).
const seedRange = 1 << 31

// llamaRequest is the request of a turn for n candidates from the index first on.
func llamaRequest(t *workload.Turn, o Options, first, n int) ([]byte, error) {
	switch {
	case len(t.Tokens) == 0:
		return nil, fmt.Errorf("agent %d, turn %d has no tokens; render the trace with the model file first", t.Agent, t.Turn)
	case t.Candidates < 1:
		return nil, fmt.Errorf("agent %d, turn %d asks for %d candidates; at least 1 is needed", t.Agent, t.Turn, t.Candidates)
	case o.FixedTokens <= 0 && o.MaxTokens <= 0:
		return nil, errors.New("answers need a limit: max tokens or fixed tokens")
	}
	r := completionRequest{
		Prompt: t.Tokens, N: n, CachePrompt: true, Stream: o.Stream, Fields: answerFields,
		NPredict: o.MaxTokens, Grammar: t.Grammar,
		// Its cheapest chains of the same meaning. A child of n_cmpl gets the seed
		// plus its index, so that both modes draw the same answers.
		Samplers: []string{"temperature"}, Temperature: 1, TopP: 1,
		Seed: uint32(o.Seed%seedRange) + uint32(first),
	}
	if o.greedy(t) {
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
	if s.mode == ModeN || t.Candidates == 1 {
		return s.request(ctx, t, o, 0, t.Candidates, start)
	}
	return separate(ctx, t.Candidates, func(ctx context.Context, i int) (Answer, error) {
		return s.request(ctx, t, o, i, 1, start)
	})
}

// separate asks for each candidate by itself, all at once, and makes one answer of
// theirs. The first failure is the turn's and ends the others.
func separate(ctx context.Context, n int, ask func(ctx context.Context, i int) (Answer, error)) (Answer, error) {
	answers := make([]Answer, n)
	group, all := errgroup.WithContext(ctx)
	for i := range answers {
		group.Go(func() (err error) {
			answers[i], err = ask(all, i)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return Answer{}, ctx.Err()
		}
		return Answer{}, err
	}
	if n == 0 {
		return Answer{}, errors.New("no candidates are asked for; at least 1 is needed")
	}
	sum := answers[0]
	for _, a := range answers[1:] {
		sum.Candidates = append(sum.Candidates, a.Candidates...)
		sum.Gaps = append(sum.Gaps, a.Gaps...)
		sum.ComputedTokens = plus(sum.ComputedTokens, a.ComputedTokens)
		sum.OutputTokens = plus(sum.OutputTokens, a.OutputTokens)
		sum.Queue = earlier(sum.Queue, a.Queue)
		sum.First = earlier(sum.First, a.First)
	}
	return sum, nil
}

// plus is the sum of two counts, unknown if one of them is.
func plus(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// earlier is the shorter of two durations, or the known one.
func earlier(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// request sends one request for n candidates.
func (s *LlamaServer) request(ctx context.Context, t *workload.Turn, o Options, first, n int, start time.Time) (Answer, error) {
	body, err := llamaRequest(t, o, first, n)
	if err != nil {
		return Answer{}, err
	}
	parts := newCompletions(len(t.Tokens), n)
	if o.Stream {
		err = s.stream(ctx, body, parts)
	} else {
		var text []byte
		if text, _, err = s.exchange(ctx, http.MethodPost, "/completion", body, maxAnswer); err == nil {
			err = parts.read(text)
		}
	}
	if err != nil {
		return Answer{}, err
	}
	return parts.answer(o, start, time.Now())
}

func (s *LlamaServer) stream(ctx context.Context, body []byte, parts *completions) error {
	res, err := s.send(ctx, http.MethodPost, "/completion", body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	err = events(res.Body, func(data []byte) error { return parts.event(data, time.Now()) })
	return streamError(ctx, err)
}

// streamError keeps failures, and makes one of what broke a stream.
func streamError(ctx context.Context, err error) error {
	var f *Failure
	if err == nil || errors.As(err, &f) {
		return err
	}
	return transport(ctx, err)
}

// Counters implements [Target]. Rows are the prompt tokens and, for each step, the
// slots that were at work, of which those that computed a prompt count once too
// often; the server prints six digits of each number. CellsUsed are the tokens of
// all slots, where slots that share cells of a unified cache count each for
// itself; -1 with --no-slots. It tells neither evictions nor the size of the cache.
func (s *LlamaServer) Counters(ctx context.Context) (Counters, error) {
	m, err := s.metrics(ctx)
	if err != nil {
		return Counters{}, err
	}
	c := Counters{
		Prefilled: m.number("llamacpp:prompt_tokens_total"),
		Cached:    m.number("llamacpp:prompt_tokens_cached_total"),
		Generated: m.number("llamacpp:tokens_predicted_total"),
		Steps:     m.number("llamacpp:n_decode_total"),
		Running:   m.number("llamacpp:requests_processing"),
		Waiting:   m.number("llamacpp:requests_deferred"),
		Rows:      -1, Evicted: -1, Cells: -1, CellsUsed: -1,
	}
	if c.Steps < 0 || c.Prefilled < 0 {
		return Counters{}, fmt.Errorf("%w: /metrics has no llamacpp:n_decode_total; is it llama-server?", ErrNoCounters)
	}
	if busy := m.number("llamacpp:n_busy_slots_per_decode"); busy >= 0 {
		c.Rows = c.Prefilled + busy*c.Steps
	}
	var slots []struct {
		Tokens int `json:"n_prompt_tokens"`
	}
	err = s.getJSON(ctx, "/slots", &slots)
	if missing(err) {
		return c, nil
	}
	if err != nil {
		return Counters{}, err
	}
	c.CellsUsed = 0
	for _, slot := range slots {
		c.CellsUsed += float64(slot.Tokens)
	}
	return c, nil
}

// Describe implements [Target].
func (s *LlamaServer) Describe(ctx context.Context) (map[string]string, error) {
	var props struct {
		Build    string `json:"build_info"`
		Model    string `json:"model_path"`
		Type     string `json:"model_ftype"`
		Slots    int    `json:"total_slots"`
		Defaults struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err := s.getJSON(ctx, "/props", &props); err != nil {
		return nil, err
	}
	return map[string]string{
		"server": "llama-server", "mode": string(s.mode), "version": props.Build, "model": props.Model, "model_type": props.Type,
		"slots": strconv.Itoa(props.Slots), "slot_context": strconv.Itoa(props.Defaults.Context),
	}, nil
}
