package openai

import (
	"cmp"
	"context"
	"slices"
	"time"

	"agentd/scheduler/generation"
)

// generateRequest is the body of POST /inference/v1/generate of vLLM 0.32: token ids in, token ids out.
type generateRequest struct {
	Strict
	whole

	TokenIDs []generation.Token `json:"token_ids"`
	Sampling *generateParams    `json:"sampling_params"`
	Mode     string             `json:"output_mode"` // tokens (or "") or text
	// ReturnMask asks for sampling_mask, which an option of the server turns on in vLLM.
	ReturnMask bool `json:"return_sampling_mask"`
}

// generateParams has vLLM's defaults, not the server's settings.
type generateParams struct {
	Strict
	sampling

	Logprobs    *int  `json:"logprobs"`
	Prompt      *int  `json:"prompt_logprobs"`
	IncludeStop bool  `json:"include_stop_str_in_output"`
	OutputKind  int   `json:"output_kind"` // of vLLM's engine; its server has its own, too
	Detokenize  *bool `json:"detokenize"`
	// ExpertsFrom is ignored: answers have no routed experts.
	ExpertsFrom int `json:"routed_experts_prompt_start"`
	Structured  *struct {
		Strict
		Grammar string `json:"grammar"`
	} `json:"structured_outputs"`
}

// generateAnswer is an answer, or an event of a stream.
type generateAnswer struct {
	ID        string              `json:"request_id"`
	Mode      string              `json:"output_mode"`
	Model     string              `json:"model,omitzero"`
	Created   int64               `json:"created,omitzero"`
	Choices   []generateChoice    `json:"choices"`
	PromptIDs []generation.Token  `json:"prompt_token_ids,omitempty"`
	Prompt    []map[string]ranked `json:"prompt_logprobs,omitempty"` // null: not known, as of the first token
	Usage     *usage              `json:"usage"`
}

type generateChoice struct {
	Index        int                  `json:"index"`
	Text         *string              `json:"text,omitzero"`
	IDs          []generation.Token   `json:"token_ids"`
	Logprobs     any                  `json:"logprobs"`
	SamplingMask [][]generation.Token `json:"sampling_mask,omitempty"` // null: too many tokens
	FinishReason *string              `json:"finish_reason"`
	// StopReason is the stop text or stop token of the request that ended the completion, null if it ended otherwise.
	StopReason any             `json:"stop_reason"`
	Versions   []weightVersion `json:"weight_versions,omitempty"` // at the end of a completion
}

// weightVersion names the weights of the tokens in [Start, End): the model's version, then + and the adapter's.
type weightVersion struct {
	Version string `json:"version"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
}

func versionsOf(done *generation.Completion) (list []weightVersion) {
	for i, p := range done.Parts {
		v := weightVersion{Version: p.Version, Start: p.From, End: len(done.All())}
		if p.Adapter != "" {
			v.Version += "+" + p.Adapter
		}
		if i+1 < len(done.Parts) {
			v.End = done.Parts[i+1].From
		}
		list = append(list, v)
	}
	return list
}

type generating struct {
	generateRequest
	feed
	model   Model
	served  generation.Served
	request *generation.Request
	id      string
	created int64
	top     int
	first   bool // an event was sent
}

// Generate answers POST /inference/v1/generate. With stream it sends the answer to s and returns nil.
func Generate(ctx context.Context, m Model, id string, body []byte, s Stream) ([]byte, error) {
	g := &generating{model: m, served: m.Served(), created: time.Now().Unix()}
	if err := Decode(body, &g.generateRequest); err != nil {
		return nil, err
	}
	g.id = "generate-tokens-" + cmp.Or(g.RequestID, id)
	if err := g.prepare(); err != nil {
		return nil, err
	}
	defer begin(ctx, g.request, g.id, g.RequestID)()
	generate := single(m, "text_completion", g.served.Name, g.request)
	if g.Stream {
		g.open(s, g.request)
		return nil, g.run(ctx, &g.whole, generate, g.progress, g.finish, func(u *usage) { g.chunk(u) })
	}
	results, err := generate(ctx, nil)
	if err != nil {
		return nil, err
	}
	result := results[0]
	a := g.answer(usageOf(result))
	a.Model, a.Created = g.served.Name, g.created
	if g.ReturnIDs {
		a.PromptIDs = g.request.Prompt
	}
	if c := g.Sampling; c.Prompt != nil {
		a.Prompt = rankedOf(g.model, g.TokenIDs, promptScores(len(g.TokenIDs), 1, result), *c.Prompt)
	}
	for i := range result.Completions {
		c, err := g.ended(i, &result.Completions[i], 0)
		if err != nil {
			return nil, err
		}
		a.Choices = append(a.Choices, c)
	}
	return Marshal(a, withNulls...)
}

// prepare makes the request.
func (g *generating) prepare() (err error) {
	c, s := g.Sampling, &g.served
	switch {
	case len(g.TokenIDs) == 0:
		return Refuse("token_ids", "is missing or empty; give the token ids of the prompt")
	case c == nil:
		return Refuse("sampling_params", "is missing; {} has vLLM's defaults")
	case g.Mode != "" && g.Mode != "tokens" && g.Mode != "text":
		return Refuse("output_mode", "is %q; want tokens or text", g.Mode)
	case g.Mode == "text" && c.Detokenize != nil && !*c.Detokenize:
		return Refuse("sampling_params.detokenize", "is false, and output_mode is text; remove one of the two")
	case g.Mode == "text" && c.SkipSpecial != nil && !*c.SkipSpecial:
		return Refuse("sampling_params.skip_special_tokens", "is false, but text never has special tokens; use output_mode tokens")
	case c.Structured != nil && c.Structured.Grammar == "":
		return Refuse("sampling_params.structured_outputs", "has no grammar, which alone is supported")
	case c.Prompt != nil && (*c.Prompt < 0 || *c.Prompt > maxPromptTop || len(g.TokenIDs)*(1+*c.Prompt) > maxScored):
		return Refuse("sampling_params.prompt_logprobs", "is %d; want 0 to %d, and at most %d logprobs of all tokens", *c.Prompt, maxPromptTop, maxScored)
	case c.Prompt != nil && g.Stream:
		return Refuse("sampling_params.prompt_logprobs", "excludes stream; remove one of the two")
	}
	if err := known("token_ids", g.TokenIDs, s); err != nil {
		return err
	}
	left := s.Window - len(g.TokenIDs)
	if left < 1 {
		return Refuse("token_ids", "has %d tokens; the model's context of %d holds 1 to %d and an answer", len(g.TokenIDs), s.Window, s.Window-1)
	}
	p, err := c.params(g.model, s, &g.whole, generation.Params{N: 1, MaxTokens: left, Sampling: generation.Sampling{Temperature: 1, TopP: 1}})
	if err == nil {
		err = c.fits(&p, "max_tokens", "token_ids", len(g.TokenIDs), s)
	}
	if c.Structured != nil {
		p.Grammar = c.Structured.Grammar
	}
	if err == nil {
		err = c.stopAt(&p, s)
	}
	if err == nil && c.Logprobs != nil {
		g.top = *c.Logprobs
		if err = scored(&p, "logprobs", g.top); g.top == 1 {
			p.Top = 0 // the token itself is the one
		}
	}
	if e, ok := err.(*Error); ok && !slices.Contains(ofWhole, e.Param) { //nolint:errorlint // ours, not wrapped
		e.Param = "sampling_params." + e.Param
	}
	if err != nil {
		return err
	}
	if g.ReturnMask {
		p.Scores, p.Masks = true, true
	}
	if c.Prompt != nil && len(g.TokenIDs) > 1 {
		p.ScoreFrom, p.Top = 1, max(p.Top, *c.Prompt)
	}
	g.request = &generation.Request{Prompt: g.TokenIDs, Params: p}
	return nil
}

// ofWhole has the members outside of sampling_params that params reads, for paths in errors.
var ofWhole = []string{"model", "stream_options", "priority", "cache_salt", "request_id"}

func (g *generating) answer(u *usage) *generateAnswer {
	return &generateAnswer{ID: g.id, Mode: cmp.Or(g.Mode, "tokens"), Choices: []generateChoice{}, Usage: u}
}

// choice returns the choice for a part of completion i.
func (g *generating) choice(i int, p part) generateChoice {
	c := generateChoice{Index: i, IDs: append([]generation.Token{}, p.ids...)}
	switch {
	case g.Sampling.Logprobs == nil:
	case g.Mode == "text":
		c.Logprobs = chatScoresOf(g.model, p.ids, p.scores, max(g.top, 1), false)
	default:
		c.Logprobs = tokenScoresOf(p.ids, p.scores, g.top)
	}
	if g.ReturnMask {
		c.SamplingMask = masksOf(p.scores)
	}
	return c
}

// ended returns the choice for the end of completion i, from token n on.
func (g *generating) ended(i int, done *generation.Completion, n int) (generateChoice, error) {
	if done.Err != nil && done.Finish != generation.FinishPaused {
		return generateChoice{}, done.Err
	}
	all := wholeOf(done)
	c := g.choice(i, all.from(n, len(all.ids)))
	reason := finish(done.Finish)
	c.FinishReason, c.Versions = &reason, versionsOf(done)
	text, stop := g.cut(done.Text)
	switch last := len(done.Tokens) - 1; {
	case reason != "stop" || done.Stop != "" && stop == "":
	case stop != "":
		c.StopReason = stop
	case g.request.Stop != nil && last >= 0 && slices.Contains(g.request.Stop.Tokens, done.Tokens[last]):
		c.StopReason = done.Tokens[last]
	}
	if g.Mode == "text" {
		c.Text = &text
	}
	return c, nil
}

// cut cuts a text at the first stop text: before it, or after it if the request asks for that.
func (g *generating) cut(text string) (before, stop string) {
	before, _, stop = g.Sampling.Stop.cut(text, "")
	if g.Sampling.IncludeStop {
		before += stop
	}
	return before, stop
}

func (g *generating) chunk(u *usage, choices ...generateChoice) {
	a := g.answer(u)
	if a.Choices = append(a.Choices, choices...); g.ReturnIDs && !g.first {
		a.PromptIDs = g.request.Prompt
	}
	g.first = true
	g.event(a, withNulls...)
}

// progress sends the new tokens of completion i, and the part of their text that can't change any more.
func (g *generating) progress(i int, p part) {
	c := g.choice(i, p.from(len(g.sent[i].ids), len(p.ids)))
	g.sent[i].ids = p.ids
	if g.Mode == "text" {
		text, stop := g.cut(g.model.Detokenize(p.ids))
		if stop == "" {
			text = g.Sampling.Stop.certain(text)
		}
		c.Text = new(g.rest(i, text))
	}
	g.chunk(g.soFar(&g.whole, i, len(g.TokenIDs)), c)
}

// finish sends the ends of all completions.
func (g *generating) finish(results []*generation.Result) {
	result := results[0]
	for i := range result.Completions {
		c, err := g.ended(i, &result.Completions[i], len(g.sent[i].ids))
		if err != nil {
			g.err = cmp.Or(g.err, err)
			return
		}
		if c.Text != nil {
			c.Text = new(g.rest(i, *c.Text))
		}
		g.sent[i].ids = result.Completions[i].All()
		g.chunk(g.soFar(&g.whole, i, len(g.TokenIDs)), c)
	}
}

// Detokenize answers POST /detokenize.
func Detokenize(m Model, body []byte) ([]byte, error) {
	var r struct {
		Strict
		Model  string             `json:"model"`
		Tokens []generation.Token `json:"tokens"`
	}
	if err := Decode(body, &r); err != nil {
		return nil, err
	}
	served := m.Served()
	if _, err := Choose(m, &served, r.Model); err != nil {
		return nil, err
	}
	if err := known("tokens", r.Tokens, &served); err != nil {
		return nil, err
	}
	return Marshal(map[string]any{"prompt": m.Detokenize(r.Tokens)})
}
