// Package tokens tokenizes prompts, and caches the tokens of long texts.
package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"runtime"
	"sync"

	"agentd/agent/format"
	"agentd/internal/base/lru"
	"agentd/scheduler/generation"
)

// Vocabulary tokenizes texts. A *llama.Vocab is one.
type Vocabulary interface {
	// Tokenize returns the tokens of a text. addSpecial adds BOS and EOS as the model file says. With
	// parseSpecial, texts of special tokens become special tokens.
	Tokenize(text string, addSpecial, parseSpecial bool) ([]generation.Token, error)
	// Find returns the token whose text is piece.
	Find(piece string) (token generation.Token, ok bool)
	// AddBOS reports whether prompts begin with BOS.
	AddBOS() bool
	BOS() generation.Token // negative if there is none
	// LongestPiece returns the most bytes of one token's text, at least 1.
	LongestPiece() int
	// Size returns the number of tokens.
	Size() int
	// Detokenize returns the text of tokens. Special tokens have a text only with special.
	Detokenize(tokens []generation.Token, special bool) string
}

// Tokenizer tokenizes segments as llama.cpp tokenizes the whole text. It is safe for concurrent use.
type Tokenizer struct {
	vocab Vocabulary
	slots chan struct{}                  // bounds the prompts that are tokenized at once, and so the OS threads in native calls
	cache *lru.Cache[[]generation.Token] // by text

	idOnce sync.Once
	id     string
}

// New makes a tokenizer for a vocabulary.
func New(v Vocabulary) *Tokenizer {
	return &Tokenizer{vocab: v, slots: make(chan struct{}, runtime.GOMAXPROCS(0)), cache: lru.New[[]generation.Token](math.MaxInt, tokenCacheBytes)}
}

// Tokens tokenizes a prompt. It stops when ctx ends, with ctx's error.
//
// llama.cpp splits a text at its special tokens and tokenizes the parts independently. So segments give
// the same tokens as the whole text, provided that adjacent plain segments are joined first.
func (t *Tokenizer) Tokens(ctx context.Context, segments []format.Segment) ([]generation.Token, error) {
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil { // both may have been ready
		return nil, err
	}
	var prompt []generation.Token
	for i := 0; i < len(segments); i++ {
		s := segments[i]
		if s.Tokens != nil {
			prompt = append(prompt, *s.Tokens...)
			continue
		}
		if s.Special {
			if id, ok := t.vocab.Find(s.Text); ok { // else llama.cpp splits the text
				prompt = append(prompt, id)
				continue
			}
		}
		for !s.Special && i+1 < len(segments) && !segments[i+1].Special && segments[i+1].Tokens == nil {
			i++
			s.Text += segments[i].Text // few: formats join adjacent text
		}
		cached := !s.Special && len(s.Text) >= tokenCacheMin
		if cached {
			if ids, ok := t.cache.Get(s.Text); ok { // shared: append copies them
				prompt = append(prompt, ids...)
				continue
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ids, err := t.vocab.Tokenize(s.Text, false, s.Special)
		if err != nil {
			return nil, err
		}
		if cached && len(s.Text) <= tokenCacheBytes/8 { // one text must not empty the cache
			t.cache.Add(s.Text, ids, len(s.Text))
		}
		prompt = append(prompt, ids...)
	}
	if bos := t.vocab.BOS(); t.vocab.AddBOS() && bos >= 0 && (len(prompt) == 0 || prompt[0] != bos) {
		prompt = append([]generation.Token{bos}, prompt...)
	}
	return prompt, nil
}

// Text returns the text of tokens with special tokens, and false if one of them is not in the vocabulary.
func (t *Tokenizer) Text(tokens []generation.Token) (string, bool) {
	for _, id := range tokens {
		if id < 0 || int(id) >= t.vocab.Size() {
			return "", false
		}
	}
	return t.vocab.Detokenize(tokens, true), true
}

// VocabularyID returns a hash of the texts of all tokens, in 16 hex digits.
func (t *Tokenizer) VocabularyID() string {
	t.idOnce.Do(func() {
		h := sha256.New()
		for id := range t.vocab.Size() {
			_, _ = h.Write(append([]byte(t.vocab.Detokenize([]generation.Token{generation.Token(id)}, true)), 0)) // a hash never fails
		}
		t.id = hex.EncodeToString(h.Sum(nil)[:8])
	})
	return t.id
}

// AtLeast returns a lower bound of the number of a text's tokens. To tokenize a large body can take minutes.
func (t *Tokenizer) AtLeast(text string) int { return len(text) / t.vocab.LongestPiece() }
