// Package tokens makes tokens of prompts, and caches the tokens of long texts.
package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"runtime"
	"sync"

	"agentd/internal/lru"

	"agentd/agent/format"
	"agentd/scheduler/generation"
)

// Vocabulary makes tokens of texts. A *llama.Vocab is one.
type Vocabulary interface {
	// Tokenize makes tokens of a text. With parseSpecial, texts of special tokens become these.
	Tokenize(text string, addSpecial, parseSpecial bool) ([]generation.Token, error)
	// Find returns the token whose text is piece.
	Find(piece string) (token generation.Token, ok bool)
	// AddBOS reports whether prompts begin with BOS, which is negative if there is none.
	AddBOS() bool
	BOS() generation.Token
	// LongestPiece returns the most bytes that one token stands for, at least 1.
	LongestPiece() int
	// Size is the number of tokens.
	Size() int
	// Detokenize returns the text of tokens, with special the texts of special ones, too.
	Detokenize(tokens []generation.Token, special bool) string
}

// Tokenizer makes tokens of segments as llama.cpp does of the whole text. It is safe for concurrent use.
type Tokenizer struct {
	vocab Vocabulary
	slots chan struct{}                  // bounds the OS threads that native calls occupy
	cache *lru.Cache[[]generation.Token] // of texts

	idOnce sync.Once
	id     string
}

// New makes a tokenizer for a vocabulary.
func New(v Vocabulary) *Tokenizer {
	return &Tokenizer{vocab: v, slots: make(chan struct{}, runtime.GOMAXPROCS(0)), cache: lru.New[[]generation.Token](math.MaxInt, tokenCacheBytes)}
}

// Tokens tokenizes a prompt. It stops when ctx ends, with ctx's error.
//
// llama.cpp cuts a text at its special tokens and tokenizes the parts independently. So segments
// alone give the same tokens as the whole text, if adjacent plain segments are joined before.
func (t *Tokenizer) Tokens(ctx context.Context, segments []format.Segment) ([]generation.Token, error) {
	var prompt []generation.Token
	var plain string
	flush := func() error {
		if plain == "" {
			return nil
		}
		ids, err := t.tokenize(ctx, plain, false)
		prompt = append(prompt, ids...)
		plain = ""
		return err
	}
	for _, segment := range segments {
		if !segment.Special && segment.Tokens == nil {
			plain += segment.Text // few: formats join adjacent text
			continue
		}
		if err := flush(); err != nil {
			return nil, err
		}
		if segment.Tokens != nil {
			prompt = append(prompt, *segment.Tokens...)
			continue
		}
		if id, ok := t.vocab.Find(segment.Text); ok {
			prompt = append(prompt, id)
			continue
		}
		// The vocabulary has no such token; llama.cpp splits the text.
		ids, err := t.tokenize(ctx, segment.Text, true)
		if err != nil {
			return nil, err
		}
		prompt = append(prompt, ids...)
	}
	if err := flush(); err != nil {
		return nil, err
	}
	if bos := t.vocab.BOS(); t.vocab.AddBOS() && bos >= 0 && (len(prompt) == 0 || prompt[0] != bos) {
		prompt = append([]generation.Token{bos}, prompt...)
	}
	return prompt, nil
}

// Text returns the text of tokens, and false if one of them is not of the vocabulary.
func (t *Tokenizer) Text(tokens []generation.Token) (string, bool) {
	for _, id := range tokens {
		if id < 0 || int(id) >= t.vocab.Size() {
			return "", false
		}
	}
	return t.vocab.Detokenize(tokens, true), true
}

// VocabularyID names the vocabulary by a hash of the texts of all tokens.
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

// AtLeast returns a lower bound of a text's tokens, since tokenizing large bodies takes minutes.
func (t *Tokenizer) AtLeast(text string) int { return len(text) / t.vocab.LongestPiece() }

// tokenize tokenizes text, in which special tokens count only with special. The result may be shared and must not
// be changed.
func (t *Tokenizer) tokenize(ctx context.Context, s string, special bool) ([]generation.Token, error) {
	cached := !special && len(s) >= tokenCacheMin
	if cached {
		if ids, ok := t.cache.Get(s); ok {
			return ids, nil
		}
	}
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-t.slots }()
	if err := ctx.Err(); err != nil { // both were ready
		return nil, err
	}
	ids, err := t.vocab.Tokenize(s, false, special)
	if err == nil && cached && len(s) <= tokenCacheBytes/8 { // one text must not empty the cache
		t.cache.Add(s, ids, len(s))
	}
	return ids, err
}
