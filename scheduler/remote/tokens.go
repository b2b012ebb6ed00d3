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

// errNoPath says that an engine can't turn tokens into text.
var errNoPath = errors.New("the engine has no /detokenize")

// compareTokens compares the texts of all tokens. Texts of probes have few of a vocabulary's tokens, so that two ids
// exchanged, or an added token less, would show first in a wrong answer. Engines without /detokenize are not asked.
func (e *Engine) compareTokens(ctx context.Context, r *replica, id identity) error {
	group, one := errgroup.WithContext(ctx)
	group.SetLimit(probeCalls)
	for first := 0; first < e.model.Size(); first += tokensCompared {
		ids := make([]generation.Token, min(tokensCompared, e.model.Size()-first))
		for i := range ids {
			ids[i] = generation.Token(first + i)
		}
		group.Go(func() error { return e.compareRange(one, r, id, ids) })
	}
	err := group.Wait()
	if errors.Is(err, errNoPath) {
		return nil
	}
	return err
}

// compareRange halves a range whose texts differ until it has one token.
func (e *Engine) compareRange(ctx context.Context, r *replica, id identity, ids []generation.Token) error {
	theirs, err := e.detokenize(ctx, r, id, ids)
	var status *StatusError
	switch refused := errors.As(err, &status); {
	case err != nil && (!refused || passes(err) && status.Status != http.StatusInternalServerError):
		return err
	case err == nil && readable(theirs) == readable(e.model.Detokenize(ids)):
		return nil
	case len(ids) > 1:
		half := len(ids) / 2
		if err := e.compareRange(ctx, r, id, ids[:half]); err != nil {
			return err
		}
		return e.compareRange(ctx, r, id, ids[half:])
	}
	return e.compareToken(ctx, r, id, ids[0], theirs)
}

// compareToken judges a token whose text differs. Some engines clean up texts, so " ." becomes ".": what counts then is
// whether they make the same token of our text.
func (e *Engine) compareToken(ctx context.Context, r *replica, id identity, token generation.Token, theirs string) error {
	text := e.model.Detokenize([]generation.Token{token})
	ours, err := e.model.Tokenize(text)
	switch {
	case err != nil:
		return err
	case text != "" && slices.Equal(ours, []generation.Token{token}):
		return e.compare(ctx, r, id, text)
	case theirs == "" && text == "":
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

func (e *Engine) detokenize(ctx context.Context, r *replica, id identity, ids []generation.Token) (string, error) {
	body, err := json.Marshal(map[string]any{"model": id.served, "tokens": ids})
	if err != nil {
		return "", err
	}
	const path = "/detokenize"
	answer, err := e.small(ctx, r, sent{client: e.client, method: http.MethodPost, path: path, body: body}, e.limits.describe)
	var status *StatusError
	if errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed) {
		return "", errNoPath
	}
	var texts struct{ Prompt, Content, Text string } // of vLLM, llama-server, SGLang
	if err == nil {
		err = json.Unmarshal(answer, &texts)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return texts.Prompt + texts.Content + texts.Text, nil
}
