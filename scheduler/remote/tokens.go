package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"agentd/scheduler/generation"
)

// tokenTexts compares an engine's texts of tokens with the Model's.
type tokenTexts struct {
	engine  *Engine
	replica *replica
	id      identity
	special bool // the engine returns texts of special tokens
}

// compareTokens compares the texts of all tokens, since the probe strings contain few of a vocabulary's tokens: two
// exchanged ids, or a missing added token, would only show in a wrong answer. An engine that refuses to return the text
// of one token is not asked for others.
func (e *Engine) compareTokens(ctx context.Context, r *replica, id identity) error {
	t := &tokenTexts{engine: e, replica: r, id: id}
	ends := append(e.model.Ends(), 0) // a model may have none
	end, err := t.of(ctx, ends[:1])
	if errors.As(err, new(*StatusError)) {
		return nil // an engine need not have /detokenize
	}
	if err != nil {
		return err
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

// compareRange compares the text of a range of tokens. It halves a range that differs, down to one token.
func (t *tokenTexts) compareRange(ctx context.Context, ids []generation.Token) error {
	theirs, err := t.of(ctx, ids)
	var status *StatusError
	switch refused := errors.As(err, &status); {
	case err != nil && (!refused || temporary(err) && status.Status != http.StatusInternalServerError):
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

// compareToken compares a token whose text differs. Some engines clean up texts, so that " ." becomes ".": it is the
// same token if they tokenize our text to it.
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

// readable returns a text in which invalid UTF-8 is one U+FFFD, since engines write different numbers of these.
func readable(text string) string {
	const unknown = string(utf8.RuneError)
	text = strings.ToValidUTF8(text, unknown)
	for strings.Contains(text, unknown+unknown) {
		text = strings.ReplaceAll(text, unknown+unknown, unknown)
	}
	return text
}

// of returns the engine's text of tokens.
func (t *tokenTexts) of(ctx context.Context, ids []generation.Token) (string, error) {
	question := map[string]any{"model": t.id.served, "tokens": ids}
	if t.id.api == APISGLang {
		question["skip_special_tokens"] = false
	}
	const path = "/detokenize"
	var said struct{ Prompt, Content, Text *string } // by vLLM, llama-server, SGLang
	if err := t.engine.readJSON(ctx, t.replica, path, question, &said); err != nil {
		return "", err
	}
	for _, text := range []*string{said.Prompt, said.Content, said.Text} {
		if text != nil {
			return *text, nil
		}
	}
	return "", fmt.Errorf("%s: %w", path, &StatusError{http.StatusNotImplemented, "the answer has no text"})
}
