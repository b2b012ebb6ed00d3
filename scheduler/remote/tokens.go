package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"agentd/scheduler/generation"
)

// tokenTexts asks an engine for the texts of tokens.
type tokenTexts struct {
	engine  *Engine
	replica *replica
	id      identity
	special bool // it gives texts of special tokens
}

// compareTokens compares the texts of all tokens. Texts of probes have few of a vocabulary's tokens, so that two ids
// exchanged, or an added token less, would show first in a wrong answer. An engine that gives no text of a token that
// each has is not asked for others.
func (e *Engine) compareTokens(ctx context.Context, r *replica, id identity) error {
	t := &tokenTexts{engine: e, replica: r, id: id}
	ends := append(e.model.Ends(), 0) // a model may have none
	end, err := t.of(ctx, ends[:1])
	if err != nil {
		return unlessAnswered(err)
	}
	t.special = end != ""
	group, one := errgroup.WithContext(ctx)
	group.SetLimit(probeCalls)
	for first := 0; first < e.model.Size(); first += tokensCompared {
		ids := make([]generation.Token, min(tokensCompared, e.model.Size()-first))
		for i := range ids {
			ids[i] = generation.Token(first + i)
		}
		group.Go(func() error { return t.compareRange(one, ids) })
	}
	return group.Wait()
}

// unlessAnswered is nil for the status of an answer: an engine need not have /detokenize.
func unlessAnswered(err error) error {
	if errors.As(err, new(*StatusError)) {
		return nil
	}
	return err
}

// compareRange halves a range whose texts differ until it has one token.
func (t *tokenTexts) compareRange(ctx context.Context, ids []generation.Token) error {
	theirs, err := t.of(ctx, ids)
	var status *StatusError
	switch refused := errors.As(err, &status); {
	case err != nil && (!refused || passes(err) && status.Status != http.StatusInternalServerError):
		return err
	case err == nil && readable(theirs) == readable(t.engine.model.Detokenize(ids)):
		return nil
	case len(ids) > 1:
		half := len(ids) / 2
		if err := t.compareRange(ctx, ids[:half]); err != nil {
			return err
		}
		return t.compareRange(ctx, ids[half:])
	}
	return t.compareToken(ctx, ids[0], theirs)
}

// compareToken judges a token whose text differs. Some engines clean up texts, so " ." becomes ".": what counts then is
// whether they make the same token of our text.
func (t *tokenTexts) compareToken(ctx context.Context, token generation.Token, theirs string) error {
	e, id := t.engine, t.id
	text := e.model.Detokenize([]generation.Token{token})
	ours, err := e.model.Tokenize(text)
	switch {
	case err != nil:
		return err
	case text != "" && slices.Equal(ours, []generation.Token{token}):
		return e.compare(ctx, t.replica, id, text)
	case theirs == "" && (text == "" || !t.special):
		return nil
	case text == "":
		return &MismatchError{id.served, e.model.Name(), theirs, nil, []generation.Token{token}}
	}
	return &MismatchError{id.served, e.model.Name(), text, []generation.Token{token}, nil}
}

// readable is a text in which parts of characters are one replacement character, however many an engine writes.
func readable(text string) string {
	const unknown = string(utf8.RuneError)
	text = strings.ToValidUTF8(text, unknown)
	for strings.Contains(text, unknown+unknown) {
		text = strings.ReplaceAll(text, unknown+unknown, unknown)
	}
	return text
}

// of returns the text of tokens as the engine writes it.
func (t *tokenTexts) of(ctx context.Context, ids []generation.Token) (string, error) {
	question := map[string]any{"model": t.id.served, "tokens": ids}
	if t.id.api == APISGLang {
		question["skip_special_tokens"] = false
	}
	body, err := json.Marshal(question)
	if err != nil {
		return "", err
	}
	const path = "/detokenize"
	answer, err := t.engine.small(ctx, t.replica, sent{client: t.engine.client, method: http.MethodPost, path: path, body: body}, t.engine.limits.describe)
	var said struct{ Prompt, Content, Text *string } // by vLLM, llama-server, SGLang
	if err == nil {
		err = json.Unmarshal(answer, &said)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	for _, text := range []*string{said.Prompt, said.Content, said.Text} {
		if text != nil {
			return *text, nil
		}
	}
	return "", fmt.Errorf("%s: %w", path, &StatusError{http.StatusNotImplemented, "the answer has no text"})
}
