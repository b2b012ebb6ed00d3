package inference

import (
	"container/list"
	"context"
	"runtime"
	"strings"
	"sync"

	"agentd/agent/format"
	"agentd/llama"
)

// vocabulary is the part of llama.Vocab that turns prompts into tokens.
type vocabulary interface {
	Tokenize(text string, addSpecial, parseSpecial bool) ([]llama.Token, error)
	Find(piece string) (llama.Token, bool)
	AddBOS() bool
	BOS() llama.Token
}

// tokenizer turns a prompt's pieces into the tokens that llama.cpp would give
// for the whole text, special tokens being where the pieces say and nowhere
// else. It is safe for concurrent use.
type tokenizer struct {
	vocab vocabulary
	slots chan struct{} // bounds the OS threads that native calls occupy
	cache tokenCache
}

func newTokenizer(v vocabulary) *tokenizer {
	return &tokenizer{vocab: v, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// tokens tokenizes a prompt. Nothing further is tokenized once ctx has ended: its error
// is returned then.
//
// llama.cpp cuts a text at its special tokens first and tokenizes what lies
// between them independently, so tokenizing piece by piece gives the same
// tokens, as long as adjacent plain pieces are joined before.
func (t *tokenizer) tokens(ctx context.Context, pieces []format.Segment) ([]llama.Token, error) {
	var prompt []llama.Token
	var plain string
	flush := func() error {
		if plain == "" {
			return nil
		}
		ids, err := t.text(ctx, plain)
		prompt = append(prompt, ids...)
		plain = ""
		return err
	}
	for _, piece := range pieces {
		if !piece.Special {
			plain += piece.Text // at most a few: formats join their own text
			continue
		}
		if err := flush(); err != nil {
			return nil, err
		}
		if id, ok := t.vocab.Find(piece.Text); ok {
			prompt = append(prompt, id)
			continue
		}
		// Not one token of this vocabulary: what llama.cpp makes of the text.
		ids, err := t.native(ctx, piece.Text, true)
		if err != nil {
			return nil, err
		}
		prompt = append(prompt, ids...)
	}
	if err := flush(); err != nil {
		return nil, err
	}
	if bos := t.vocab.BOS(); t.vocab.AddBOS() && bos >= 0 && (len(prompt) == 0 || prompt[0] != bos) {
		prompt = append([]llama.Token{bos}, prompt...)
	}
	return prompt, nil
}

// text tokenizes plain text, which holds no special tokens whatever it looks
// like. The caller must not change the result: it may be shared.
func (t *tokenizer) text(ctx context.Context, s string) ([]llama.Token, error) {
	if len(s) < tokenCacheMin {
		return t.native(ctx, s, false)
	}
	if ids, ok := t.cache.get(s); ok {
		return ids, nil
	}
	ids, err := t.native(ctx, s, false)
	if err == nil {
		t.cache.put(s, ids)
	}
	return ids, err
}

func (t *tokenizer) native(ctx context.Context, s string, special bool) ([]llama.Token, error) {
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-t.slots }()
	if err := ctx.Err(); err != nil { // both were ready
		return nil, err
	}
	return t.vocab.Tokenize(s, false, special)
}

// tokenCache remembers the tokens of recently used texts. The zero value is
// ready to use.
type tokenCache struct {
	mu      sync.Mutex
	entries map[string]*list.Element
	recent  list.List // of *tokenEntry, most recently used first
	bytes   int       // of the texts
}

type tokenEntry struct {
	text string
	ids  []llama.Token
}

func (c *tokenCache) get(text string) ([]llama.Token, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[text]
	if !ok {
		return nil, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*tokenEntry).ids, true
}

func (c *tokenCache) put(text string, ids []llama.Token) {
	if len(text) > tokenCacheBytes/8 { // one text must not empty the cache
		return
	}
	text = strings.Clone(text) // it is a part of a prompt, which would all be kept
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[text]; ok { // two requests tokenized it at once
		return
	}
	if c.entries == nil {
		c.entries = map[string]*list.Element{}
	}
	c.entries[text] = c.recent.PushFront(&tokenEntry{text, ids})
	c.bytes += len(text)
	for c.bytes > tokenCacheBytes {
		oldest := c.recent.Back()
		entry := c.recent.Remove(oldest).(*tokenEntry)
		delete(c.entries, entry.text)
		c.bytes -= len(entry.text)
	}
}
