package openai

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/scheduler/generation"
)

type completionRequest struct {
	common

	Prompt     jsontext.Value `json:"prompt"`
	Structured *struct {
		Strict
		Grammar string `json:"grammar"`
	} `json:"structured_outputs"`
	ReturnMask bool  `json:"return_sampling_mask"`
	AddSpecial *bool `json:"add_special_tokens"` // adds BOS to a text if the model needs it

	Echo           bool `json:"echo"`
	Logprobs       *int `json:"logprobs"`
	PromptLogprobs *int `json:"prompt_logprobs"`
	// PromptStart is the index of the first token of the prompt with a logprob, as in vLLM's sampling parameters.
	PromptStart int `json:"prompt_logprob_start"`
	// Continue has the token ids with which each choice begins, from an incomplete answer.
	Continue [][]generation.Token `json:"continue"`
}

type completionChoice struct {
	Index          int                  `json:"index"`
	Text           string               `json:"text"`
	FinishReason   *string              `json:"finish_reason"`
	Logprobs       *completionScores    `json:"logprobs"`
	PromptLogprobs []map[string]ranked  `json:"prompt_logprobs,omitempty"`
	TokenIDs       []generation.Token   `json:"token_ids,omitempty"`
	PromptIDs      []generation.Token   `json:"prompt_token_ids,omitempty"` // in the first choice of each prompt
	SamplingMask   [][]generation.Token `json:"sampling_mask,omitempty"`    // null: too many tokens
}

// completion is a request with its answer.
type completion struct {
	completionRequest
	model    Model
	served   generation.Served
	texts    []string // of the prompts
	requests []generation.Request
	copies   []copied // of scores, by request
	order    []int    // the order in which the engine gets the requests
	id       string
	created  int64 // Unix time, equal in all parts of a stream
}

// Complete answers POST /v1/completions. With stream it sends the answer to s and returns nil.
func Complete(ctx context.Context, m Model, id string, body []byte, s Stream) ([]byte, error) {
	c := &completion{model: m, served: m.Served(), id: "cmpl-" + id, created: time.Now().Unix()}
	if err := Decode(body, &c.completionRequest); err != nil {
		return nil, err
	}
	if err := c.read(); err != nil {
		return nil, err
	}
	defer begin(ctx, &c.requests[0], c.id, c.RequestID)()
	for i := range c.requests {
		c.requests[i].Abort = c.requests[0].Abort
	}
	if c.Stream {
		return nil, c.streamTo(ctx, s)
	}
	results, err := c.generate(ctx, nil)
	if err != nil {
		return nil, err
	}
	a := c.answer(usageOf(results...))
	for i, r := range results {
		for k := range r.Completions {
			choice, err := c.choice(i, k, r)
			if err != nil {
				return nil, err
			}
			a.Choices = append(a.Choices, *choice)
		}
	}
	return Marshal(a, withNulls...)
}

// withNulls are the options to write null for nil slices and maps.
var withNulls = []json.Options{json.FormatNilSliceAsNull(true), json.FormatNilMapAsNull(true)}

func (c *completion) generate(ctx context.Context, admitted func()) ([]*generation.Result, error) {
	ordered, results := make([]generation.Request, len(c.order)), make([]*generation.Result, len(c.order))
	for k, i := range c.order {
		ordered[k] = c.requests[i]
	}
	got, err := traced(ctx, c.model, "text_completion", c.served.Name, ordered, admitted)
	if errors.Is(err, generation.ErrResume) {
		err = Refuse("continue", "%s", err)
	}
	if err != nil {
		return nil, err
	}
	for k, i := range c.order {
		results[i] = got[k]
	}
	c.copyScores(results)
	return results, nil
}

func (c *completion) answer(u *usage) *answer[completionChoice] {
	return &answer[completionChoice]{ID: c.id, Object: "text_completion", Created: c.created, Model: c.served.Name, Usage: u}
}

// choice makes the whole choice for completion k of request i.
func (c *completion) choice(i, k int, r *generation.Result) (*completionChoice, error) {
	done, request := &r.Completions[k], &c.requests[i]
	if done.Err != nil && (done.Finish != generation.FinishPaused || !aborted(request)) {
		return nil, done.Err
	}
	text, reason, _ := c.Stop.cut(done.Text, finish(done.Finish))
	choice := &completionChoice{Index: i*request.N + k, Text: text, FinishReason: &reason}
	if c.Logprobs != nil {
		choice.Logprobs = &completionScores{named: c.NamedTokens}
	}
	if c.Echo {
		choice.Text = c.texts[i] + text
	}
	if c.Echo && c.Logprobs != nil {
		choice.Logprobs.add(c.model, request.Prompt, promptScores(len(request.Prompt), c.PromptStart+1, r), *c.Logprobs)
	}
	c.tokens(choice, wholeOf(done), true)
	if c.PromptLogprobs != nil {
		choice.PromptLogprobs = rankedOf(c.model, request.Prompt, promptScores(len(request.Prompt), c.PromptStart+1, r), *c.PromptLogprobs)
	}
	return choice, nil
}

// tokens adds the ids, masks and logprobs of a part to a choice, if the request asks for them. first: the part is the
// first of the choice.
func (c *completion) tokens(choice *completionChoice, p part, first bool) {
	if c.ReturnIDs {
		choice.TokenIDs = p.ids
		if r := &c.requests[choice.Index/c.requests[0].N]; first && choice.Index%r.N == 0 {
			choice.PromptIDs = r.Prompt
		}
	}
	if c.ReturnMask {
		choice.SamplingMask = masksOf(p.scores)
	}
	if choice.Logprobs != nil {
		choice.Logprobs.add(c.model, p.ids, p.scores, *c.Logprobs)
	}
}

// read checks the request, and makes the requests to the engine.
func (c *completion) read() error {
	s := &c.served
	empty := c.MaxTokens != nil && *c.MaxTokens == 0 && (c.Echo || c.PromptLogprobs != nil)
	if empty {
		c.MaxTokens = nil
	}
	p, err := c.params(c.model, s)
	if err != nil {
		return err
	}
	switch {
	case c.Logprobs != nil && (*c.Logprobs < 0 || *c.Logprobs > maxTop):
		return Refuse("logprobs", "is %d, want 0 to %d: the tokens beside the chosen one", *c.Logprobs, maxTop)
	case c.PromptLogprobs != nil && (*c.PromptLogprobs < 0 || *c.PromptLogprobs > maxPromptTop):
		return Refuse("prompt_logprobs", "is %d, want 0 to %d: the tokens beside that of the prompt", *c.PromptLogprobs, maxPromptTop)
	case c.Stream && (c.Echo || c.PromptLogprobs != nil):
		return Refuse("stream", "excludes echo and prompt_logprobs; remove one of them")
	case c.PromptStart < 0 || c.PromptStart > 0 && !c.scores():
		return Refuse("prompt_logprob_start", "is %d; it must be at least 0, and needs prompt_logprobs, or echo with logprobs", c.PromptStart)
	case c.Structured != nil && c.Structured.Grammar == "":
		return Refuse("structured_outputs", "has no grammar, which alone is supported")
	case c.Structured != nil:
		p.Grammar = c.Structured.Grammar
	}
	if err := c.stopAt(&p, s); err != nil {
		return err
	}
	p.Scores, p.Masks = c.Logprobs != nil || c.ReturnMask, c.ReturnMask
	if c.Logprobs != nil {
		p.Top = *c.Logprobs
		p.Sample = c.NamedTokens // its readers, as trainers' clients, expect a logprob of each token
	}
	if c.PromptLogprobs != nil {
		p.Top = max(p.Top, *c.PromptLogprobs)
	}
	prompts, err := c.prompts()
	if err != nil {
		return err
	}
	if most := min(maxN, s.Places); p.N*len(prompts) > most {
		return Refuse("prompt", "has %d prompts of %d choices each; at most %d choices are allowed together (queue_limit: %d)", len(prompts), p.N, most, s.Places)
	}
	if c.Continue != nil && len(c.Continue) != p.N*len(prompts) {
		return Refuse("continue", "has %d lists of token ids, want one for each of the %d choices", len(c.Continue), p.N*len(prompts))
	}
	for i, ids := range prompts {
		r := generation.Request{Params: p, Prompt: ids}
		if r.Resume, err = c.resume(i, p.N); err != nil {
			return err
		}
		if n := len(ids); n == 0 || n+1 > s.Window {
			return Refuse(c.path(i), "has %d tokens; the model's context of %d holds 1 to %d and an answer", n, s.Window, s.Window-1)
		}
		if err := c.fits(&r.Params, "max_tokens", "the prompt", len(ids), s); err != nil {
			return err
		}
		if empty {
			r.MaxTokens, r.ScoreFrom = 0, len(ids)-1
		}
		if c.scores() && c.PromptStart+1 < len(ids) {
			r.ScoreFrom = c.PromptStart + 1
		}
		if empty && r.ScoreFrom == 0 {
			return Refuse(c.path(i), "has one token, of which nothing is computed; use max_tokens above 0")
		}
		c.requests = append(c.requests, r)
	}
	return c.share()
}

// scores reports whether the request asks for logprobs of the prompt.
func (c *completion) scores() bool {
	return c.PromptLogprobs != nil || c.Echo && c.Logprobs != nil
}

// path returns the path of prompt i in the body.
func (c *completion) path(i int) string {
	if len(c.texts) == 1 {
		return "prompt"
	}
	return path("prompt", i)
}

// resume returns the tokens with which the n choices of prompt i begin, as a result to resume; nil without any.
func (c *completion) resume(i, n int) (*generation.Result, error) {
	if c.Continue == nil {
		return nil, nil
	}
	r := new(generation.Result)
	for k := i * n; k < (i+1)*n; k++ {
		if err := known(path("continue", k), c.Continue[k], &c.served); err != nil {
			return nil, err
		}
		r.Completions = append(r.Completions, generation.Completion{Finish: generation.FinishPaused, Tokens: c.Continue[k]})
	}
	return r, nil
}

// prompts reads the prompts: a text or token ids, or a list of either. It sets their texts.
func (c *completion) prompts() (prompts [][]generation.Token, err error) {
	var ids []generation.Token
	texts := list{""}
	switch {
	case !Present(c.Prompt):
		return nil, Refuse("prompt", "is missing")
	case json.Unmarshal(c.Prompt, &texts[0]) == nil:
	case json.Unmarshal(c.Prompt, &ids) == nil:
		prompts, texts = [][]generation.Token{ids}, nil
	case json.Unmarshal(c.Prompt, (*[]string)(&texts)) == nil:
	case json.Unmarshal(c.Prompt, &prompts) == nil:
		texts = nil
	default:
		return nil, Refuse("prompt", "must be a text, a list of token ids, or a list of several of these")
	}
	n := max(len(texts), len(prompts))
	if n == 0 || n > maxN {
		return nil, Refuse("prompt", "has %d prompts, want 1 to %d", n, maxN)
	}
	c.texts = make([]string, n)
	for i, ids := range prompts {
		if err := known(c.path(i), ids, &c.served); err != nil {
			return nil, err
		}
		c.texts[i] = c.model.Detokenize(ids)
	}
	for i, text := range texts {
		if ids, err = c.model.Tokenize(text, c.AddSpecial == nil || *c.AddSpecial); err != nil {
			return nil, err
		}
		prompts, c.texts[i] = append(prompts, ids), text
	}
	return prompts, nil
}

// modelEntry is an entry of /v1/models. As in vLLM, the parent of an adapter is the model.
type modelEntry struct {
	ID      string  `json:"id"`
	Object  string  `json:"object"`
	Created int64   `json:"created"`
	Owner   string  `json:"owned_by"`
	Root    string  `json:"root"`
	Parent  *string `json:"parent"`
	Window  int     `json:"max_model_len"`
}

// Models answers GET /v1/models: the model, and the adapters.
func Models(m Model) ([]byte, error) {
	s := m.Served()
	list := []modelEntry{{s.Name, "model", s.Created, "agentd", s.Name, nil, s.Window}}
	for _, name := range m.Adapters() {
		list = append(list, modelEntry{name, "model", s.Created, "agentd", s.Name, &s.Name, s.Window})
	}
	return Marshal(map[string]any{"object": "list", "data": list})
}
