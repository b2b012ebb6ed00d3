package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"agentd/agent/format"
	"agentd/bench/workload"
)

// OpenAI is a server of OpenAI's chat completions: vLLM, SGLang, Ollama,
// llama-server.
type OpenAI struct {
	*remote
	model string
	mode  Mode
	chats *chats
}

// NewOpenAI makes a target of a chat API. The URL is what OpenAI's clients call
// the base URL, such as http://127.0.0.1:8000/v1; without a path it gets /v1. The
// key may be "". ModeSeparate is for servers without n (Ollama). vLLM takes tools
// only when started with --enable-auto-tool-choice and a --tool-call-parser.
func NewOpenAI(baseURL, model, key string, mode Mode, opts ...Option) (*OpenAI, error) {
	if err := mode.validate(); err != nil {
		return nil, err
	}
	if model == "" {
		return nil, errors.New("a chat API needs the name of a model")
	}
	r, err := newRemote(baseURL, append([]Option{WithBearerToken(key)}, opts...))
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(r.base); err == nil && u.Path == "" {
		r.base += "/v1"
	}
	c, err := newChats()
	if err != nil {
		return nil, err
	}
	return &OpenAI{r, model, mode, c}, nil
}

// chatRequest is the body of POST /chat/completions. The fields below Seed are
// not OpenAI's: vLLM, SGLang and llama-server know them, Ollama ignores them.
type chatRequest struct {
	Model       string          `json:"model"`
	Messages    []chatMessage   `json:"messages"`
	Tools       json.RawMessage `json:"tools,omitempty"`
	N           int             `json:"n,omitempty"`
	MaxTokens   int             `json:"max_tokens"`
	Temperature float64         `json:"temperature"`
	TopP        float64         `json:"top_p"`
	Seed        int64           `json:"seed"`
	Stream      bool            `json:"stream,omitempty"`
	StreamOpts  *streamOptions  `json:"stream_options,omitempty"`

	TopK      int     `json:"top_k"` // -1 is off: the model's own defaults would hold otherwise
	MinP      float64 `json:"min_p"`
	IgnoreEOS bool    `json:"ignore_eos,omitempty"`
	MinTokens int     `json:"min_tokens,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// request is the request of a turn for n candidates from the index first on, and the
// tools that it has.
func (a *OpenAI) request(t *workload.Turn, o Options, first, n int) ([]byte, *format.Catalog, error) {
	switch {
	case t.Candidates < 1:
		return nil, nil, fmt.Errorf("agent %d, turn %d asks for %d candidates; at least 1 is needed", t.Agent, t.Turn, t.Candidates)
	case o.FixedTokens <= 0 && o.MaxTokens <= 0:
		return nil, nil, errors.New("answers need a limit: max tokens or fixed tokens")
	}
	chat, err := a.chats.of(t)
	if err != nil {
		return nil, nil, err
	}
	r := chatRequest{
		Model: a.model, Messages: chat.messages, Tools: chat.functions, MaxTokens: o.MaxTokens,
		Temperature: 1, TopP: 1, TopK: -1, Seed: int64(o.Seed%seedRange) + int64(first), Stream: o.Stream,
	}
	if n > 1 {
		r.N = n
	}
	if o.greedy(t) {
		r.Temperature = 0
	}
	if o.FixedTokens > 0 {
		r.MaxTokens, r.MinTokens, r.IgnoreEOS = o.FixedTokens, o.FixedTokens, true
	}
	if o.Stream {
		r.StreamOpts = &streamOptions{IncludeUsage: true}
	}
	body, err := json.Marshal(&r)
	return body, chat.catalog, err
}

// Ask implements [Target].
func (a *OpenAI) Ask(ctx context.Context, t *workload.Turn, o Options) (Answer, error) {
	start := time.Now()
	if a.mode == ModeN || t.Candidates == 1 {
		return a.ask(ctx, t, o, 0, t.Candidates, start)
	}
	return separate(ctx, t.Candidates, func(ctx context.Context, i int) (Answer, error) {
		return a.ask(ctx, t, o, i, 1, start)
	})
}

func (a *OpenAI) ask(ctx context.Context, t *workload.Turn, o Options, first, n int, start time.Time) (Answer, error) {
	body, catalog, err := a.request(t, o, first, n)
	if err != nil {
		return Answer{}, err
	}
	c := newChoices(n)
	c.decides = func(said *saying) bool { return a.chats.decides(said, catalog) }
	if o.Stream {
		err = a.stream(ctx, body, c)
	} else {
		var text []byte
		if text, _, err = a.exchange(ctx, http.MethodPost, "/chat/completions", body, maxAnswer); err == nil {
			err = c.read(text)
		}
	}
	if err != nil {
		return Answer{}, err
	}
	return c.answer(o, start)
}

func (a *OpenAI) stream(ctx context.Context, body []byte, c *choices) error {
	res, err := a.send(ctx, http.MethodPost, "/chat/completions", body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	err = events(res.Body, func(data []byte) error { return c.event(data, time.Now()) })
	return streamError(ctx, err)
}

// Counters implements [Target]: the API has none.
func (a *OpenAI) Counters(context.Context) (Counters, error) { return Counters{}, ErrNoCounters }

// Describe implements [Target].
func (a *OpenAI) Describe(ctx context.Context) (map[string]string, error) {
	var list struct {
		Data []struct {
			ID    string `json:"id"`
			Owner string `json:"owned_by"`
		} `json:"data"`
	}
	if err := a.getJSON(ctx, "/models", &list); err != nil {
		return nil, err
	}
	facts := map[string]string{"server": "openai", "mode": string(a.mode), "model": a.model}
	var names []string
	for _, m := range list.Data {
		if m.ID == a.model {
			facts["owned_by"] = m.Owner
			return facts, nil
		}
		names = append(names, m.ID)
	}
	return nil, fmt.Errorf("the server has no model %q; it has %q", a.model, names)
}
