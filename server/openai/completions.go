package openai

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/scheduler/generation"
)

type completionRequest struct {
	common

	Prompt       jsontext.Value     `json:"prompt"`
	StopTokenIDs []generation.Token `json:"stop_token_ids"`
	IgnoreEOS    bool               `json:"ignore_eos"`
	Structured   *struct {
		strict
		Grammar string `json:"grammar"`
	} `json:"structured_outputs"`
	AddSpecial  *bool `json:"add_special_tokens"`  // adds BOS to a text where the model wants it
	SkipSpecial *bool `json:"skip_special_tokens"` // text never has special tokens; token ids always do

	Echo     bool `json:"echo"`
	Logprobs *int `json:"logprobs"`
	BestOf   *int `json:"best_of"`
}

type completionChoice struct {
	Index        int                `json:"index"`
	Text         string             `json:"text"`
	FinishReason *string            `json:"finish_reason"`
	Logprobs     *completionScores  `json:"logprobs"`
	TokenIDs     []generation.Token `json:"token_ids,omitempty"`
}

// Complete answers POST /v1/completions.
func Complete(ctx context.Context, m Model, id string, body []byte) ([]byte, error) {
	var c completionRequest
	if err := decode(body, &c); err != nil {
		return nil, err
	}
	served := m.Served()
	request, err := c.request(m, &served)
	if err != nil {
		return nil, err
	}
	defer begin(ctx, request, "cmpl-"+id, c.RequestID)()
	result, err := m.Generate(ctx, request, nil)
	if err != nil {
		return nil, err
	}
	a := answer[completionChoice]{ID: "cmpl-" + id, Object: "text_completion", Created: time.Now().Unix(), Model: served.Name, Usage: usageOf(result)}
	for i := range result.Completions {
		done := &result.Completions[i]
		if done.Err != nil {
			return nil, done.Err
		}
		text, reason := c.Stop.cut(done.Text, finish(done.Finish))
		choice := completionChoice{Index: i, Text: text, FinishReason: &reason}
		if c.ReturnIDs {
			choice.TokenIDs = done.All()
		}
		if c.Logprobs != nil {
			choice.Logprobs = scoresOf(m, done)
		}
		a.Choices = append(a.Choices, choice)
	}
	return marshal(&a)
}

// completionScores are the logprobs of a completion's tokens, its end included.
type completionScores struct {
	Tokens     []string   `json:"tokens"`
	Logprobs   []*float32 `json:"token_logprobs"` // null is not known
	TextOffset []int      `json:"text_offset"`    // in bytes, special tokens included
	Top        any        `json:"top_logprobs"`   // null: no alternatives
}

func scoresOf(m Model, done *generation.Completion) *completionScores {
	s := &completionScores{}
	at := 0
	for i, id := range done.All() {
		piece := m.Piece(id)
		s.Tokens, s.TextOffset = append(s.Tokens, strings.ToValidUTF8(string(piece), "\ufffd")), append(s.TextOffset, at)
		at += len(piece)
		var p *float32
		if i < len(done.Scores) && !math.IsNaN(float64(done.Scores[i].Logprob)) && !math.IsInf(float64(done.Scores[i].Logprob), 0) {
			p = &done.Scores[i].Logprob
		}
		s.Logprobs = append(s.Logprobs, p)
	}
	return s
}

func (c *completionRequest) request(m Model, s *generation.Served) (*generation.Request, error) {
	p, err := c.params(m, s, &c.whole, defaults(s))
	if err != nil {
		return nil, err
	}
	switch {
	case c.Stream:
		return nil, refuse("stream", "is not supported here; /v1/chat/completions has it")
	case c.Echo:
		return nil, refuse("echo", "is not supported; remove it")
	case c.Logprobs != nil && *c.Logprobs != 0:
		return nil, refuse("logprobs", "is %d; only 0, the logprobs of the chosen tokens, is supported", *c.Logprobs)
	case c.BestOf != nil && *c.BestOf != p.N:
		return nil, refuse("best_of", "is not supported; remove it")
	case c.SkipSpecial != nil && !*c.SkipSpecial && !c.ReturnIDs:
		return nil, refuse("skip_special_tokens", "is false, but text never has special tokens; remove it, or ask for return_token_ids")
	case c.IgnoreEOS && c.Structured != nil:
		return nil, refuse("ignore_eos", "excludes structured_outputs; remove one of the two")
	case c.Structured != nil && c.Structured.Grammar == "":
		return nil, refuse("structured_outputs", "has no grammar, which alone is supported")
	case c.Structured != nil:
		p.Grammar = c.Structured.Grammar
	}
	for _, id := range c.StopTokenIDs {
		if !slices.Contains(s.Ends, id) {
			return nil, refuse("stop_token_ids", "token %d does not end answers of this model; only %v do", id, s.Ends)
		}
	}
	p.IgnoreEnd, p.Scores = c.IgnoreEOS, c.Logprobs != nil
	if p.Suppress, err = suppressed(c.LogitBias, s); err != nil {
		return nil, err
	}
	r := &generation.Request{Params: p}
	if r.Prompt, err = c.prompt(m, s); err != nil {
		return nil, err
	}
	if n := len(r.Prompt); n == 0 || n+1 > s.Window {
		return nil, refuse("prompt", "has %d tokens; the model's context of %d holds 1 to %d and an answer", n, s.Window, s.Window-1)
	}
	if c.MaxTokens == nil {
		r.MaxTokens = min(r.MaxTokens, s.Window-len(r.Prompt))
	}
	return r, c.fits("max_tokens", "the prompt", len(r.Prompt), s)
}

// prompt reads the prompt: a text, or token ids. A list with one of them is one, too.
func (c *completionRequest) prompt(m Model, s *generation.Served) ([]generation.Token, error) {
	var text string
	var ids []generation.Token
	var texts []string
	var lists [][]generation.Token
	switch {
	case !present(c.Prompt):
		return nil, refuse("prompt", "is missing")
	case json.Unmarshal(c.Prompt, &text) == nil:
		return m.Tokenize(text, c.AddSpecial == nil || *c.AddSpecial)
	case json.Unmarshal(c.Prompt, &texts) == nil && len(texts) == 1:
		return m.Tokenize(texts[0], c.AddSpecial == nil || *c.AddSpecial)
	case json.Unmarshal(c.Prompt, &ids) == nil:
	case json.Unmarshal(c.Prompt, &lists) == nil && len(lists) == 1:
		ids = lists[0]
	default:
		return nil, refuse("prompt", "must be one text or one list of token ids; send several prompts as several requests")
	}
	for i, id := range ids {
		if id < 0 || int(id) >= s.Size {
			return nil, refuse(path("prompt", i), "is %d, and the vocabulary has %d tokens", id, s.Size)
		}
	}
	return ids, nil
}

// Tokenize answers POST /tokenize.
func Tokenize(m Model, body []byte) ([]byte, error) {
	var r struct {
		strict
		Model      string `json:"model"`
		Prompt     string `json:"prompt"`
		AddSpecial *bool  `json:"add_special_tokens"`
	}
	if err := decode(body, &r); err != nil {
		return nil, err
	}
	served := m.Served()
	if _, err := choose(m, &served, r.Model); err != nil { // an adapter has the model's vocabulary
		return nil, err
	}
	ids, err := m.Tokenize(r.Prompt, r.AddSpecial == nil || *r.AddSpecial)
	if err != nil {
		return nil, err
	}
	return marshal(map[string]any{"tokens": ids, "count": len(ids), "max_model_len": served.Window})
}

// modelEntry is an entry of /v1/models. The parent of an adapter is the model, as vLLM has it.
type modelEntry struct {
	ID      string  `json:"id"`
	Object  string  `json:"object"`
	Created int64   `json:"created"`
	Owner   string  `json:"owned_by"`
	Parent  *string `json:"parent"`
	Window  int     `json:"max_model_len"`
}

// Models answers GET /v1/models: the model, and the adapters.
func Models(m Model) ([]byte, error) {
	s := m.Served()
	list := []modelEntry{{s.Name, "model", s.Created, "agentd", nil, s.Window}}
	for _, name := range m.Adapters() {
		list = append(list, modelEntry{name, "model", s.Created, "agentd", &s.Name, s.Window})
	}
	return marshal(map[string]any{"object": "list", "data": list})
}
