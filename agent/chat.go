package agent

import (
	"context"
	"errors"
	"strings"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/scheduler/generation"
)

// ChatReader reads the answers in a chat.
type ChatReader struct {
	format format.Format
	chat   *format.Chat
}

// Chat makes the request of a conversation outside of the protocol: its prompt and the grammar of
// its answers. Everything else of the request is the caller's. It sets c.Catalog. The error of
// functions or a schema that can't be used is a [*format.UnusableError].
func (a *Agent) Chat(ctx context.Context, c *format.Chat) (*generation.Request, *ChatReader, error) {
	r := &generation.Request{Params: generation.Params{N: 1, SuppressControl: a.format.SuppressControl()}}
	if n, limit := len(c.Messages), a.cfg.ContextLength; limit > 0 && n >= limit { // each is at least a token
		return nil, nil, &generation.OverflowError{Prompt: n, Limit: limit, AtLeast: true}
	}
	var err error
	switch {
	case len(c.Functions.Raw) > 0:
		c.Catalog, err = a.catalogs.functions(&c.Functions)
	case c.Schema != nil:
		c.Catalog, err = a.catalogs.answer(c.Schema)
	}
	if err == nil && c.Catalog != nil {
		r.Grammar, err = c.Catalog.Grammar()
	}
	if err != nil {
		return nil, nil, &format.UnusableError{Err: err}
	}
	if err := ctx.Err(); err != nil { // a template can't be interrupted
		return nil, nil, err
	}
	prompt, err := a.format.RenderChat(c)
	if err != nil {
		return nil, nil, err
	}
	return r, &ChatReader{a.format, c}, a.tokenize(ctx, r, prompt)
}

// Read reads an answer that ended by itself, without the token that ended it. Thoughts are
// dropped. An answer has calls or a text. The error says what is wrong with it.
func (r *ChatReader) Read(text string) (say string, calls []tools.Call, err error) {
	if len(r.chat.Functions.Raw) == 0 {
		if say, err = r.format.ParseChat(text); err == nil && r.chat.Catalog != nil {
			err = r.chat.Catalog.Set.CheckAnswer(say)
		}
		return say, nil, err
	}
	d, err := r.format.Parse(text, r.chat.Catalog)
	switch f := &r.chat.Functions; {
	case err != nil:
	case f.MustCall && len(d.Calls) == 0:
		err = errors.New("the answer has no tool call, and one is required")
	case f.OneCall && len(d.Calls) > 1:
		err = errors.New("the answer has several tool calls, and one is allowed")
	}
	return d.Say, d.Calls, err
}

// SoFar returns the text of an answer that has not ended, or was cut off. "": there is none yet,
// or the answer may be a call or begin with thoughts.
func (r *ChatReader) SoFar(text string) string {
	say, err := r.format.ParseChat(text)
	if err != nil || strings.HasPrefix("<think>", say) || len(r.chat.Functions.Raw) > 0 && mayBeCall(say, r.chat.Catalog.Calls.Begin) {
		return ""
	}
	return say
}

// mayBeCall reports whether a text may begin a call. Where calls are bare objects, no reply begins with a brace.
func mayBeCall(say, begin string) bool {
	if begin[0] != '<' {
		return say[0] == '{'
	}
	return strings.HasPrefix(say, begin) || strings.HasPrefix(begin, say)
}
