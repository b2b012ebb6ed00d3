// Package checkpoint converts directories of Hugging Face's transformers to GGUF files for llama.cpp: the
// whole model, or its vocabulary only. It supports byte-level BPE with the pre-tokenizers of Qwen, Llama 3,
// GPT-OSS, GPT-2 and SmolLM.
//
// The input is described by the libraries tokenizers (tokenizer.json), transformers (config.json,
// generation_config.json, tokenizer_config.json, chat_template.jinja) and safetensors, the output by
// llama.cpp's gguf specification, version 3. Names and orders of tensors are as llama.cpp's converter writes them.
package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentd/llama/internal/gguf"
)

// WriteVocabulary writes the vocabulary in dir as a GGUF file without weights, for engines at URLs, which
// have the weights. Errors name the file.
func WriteVocabulary(w io.Writer, dir string) error {
	c, err := readShape(dir)
	if err != nil {
		return err
	}
	g := &gguf.Metadata{}
	g.Set("general.architecture", "llama") // decides nothing without weights
	g.Set("general.name", filepath.Base(filepath.Clean(dir)))
	g.Set("llama.context_length", c.Context)
	g.Set("llama.embedding_length", 1)
	g.Set("llama.block_count", 1)
	if err := writeVocabulary(g, dir, c); err != nil {
		return err
	}
	return g.Write(w, nil)
}

// shape has the members of config.json that a vocabulary needs. The architecture need not be known.
type shape struct {
	VocabSize int             `json:"vocab_size"`
	Context   int             `json:"max_position_embeddings"`
	BOS       *int            `json:"bos_token_id"`
	EOS       json.RawMessage `json:"eos_token_id"`
	Text      *shape          `json:"text_config"` // of vision-language models
}

func readShape(dir string) (*shape, error) {
	var c shape
	if err := readJSON(dir, "config.json", &c); err != nil {
		return nil, err
	}
	if eos := c.EOS; c.Text != nil {
		if c = *c.Text; !isNull(eos) {
			c.EOS = eos
		}
	}
	if n := max(c.VocabSize, c.Context); n > maxSize || min(c.VocabSize, c.Context) < 0 {
		return nil, fmt.Errorf("%s: it has a size of %d", filepath.Join(dir, "config.json"), n)
	}
	return &c, nil
}

// writeVocabulary adds tokens, merges, tokens that end an answer, and the chat template.
func writeVocabulary(g *gguf.Metadata, dir string, c *shape) error {
	path := filepath.Join(dir, "tokenizer.json")
	text, err := readFile(dir, "tokenizer.json")
	if err != nil {
		return err
	}
	var t tokenizer
	err = t.read(text)
	tokens, types, tokensErr := t.tokens(c.VocabSize)
	merges, mergesErr := t.merges()
	if err := cmp.Or(err, tokensErr, mergesErr); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	bos, err := t.write(g)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	said, err := readTokenizerConfig(dir)
	if err == nil {
		err = said.agrees(&t, bos)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, vocabularyConfig), err)
	}
	sampling, err := readGeneration(dir)
	if err != nil {
		return err
	}
	ends, err := t.endTokens(dir, &sampling, said, c)
	if err != nil {
		return err
	}
	template, err := chatTemplate(dir, said)
	if err != nil {
		return err
	}
	g.Set("tokenizer.ggml.tokens", tokens)
	g.Set("tokenizer.ggml.token_type", types)
	g.Set("tokenizer.ggml.merges", merges)
	for i, id := range ends {
		g.Set(endKeys[i], id)
	}
	sampling.write(g)
	g.Set("tokenizer.ggml.add_bos_token", bos != nil)
	if id, ok := t.id(tokenText(said.BOS)); ok && bos == nil {
		bos = &id
	}
	if bos = cmp.Or(bos, c.BOS); bos != nil && *bos >= 0 && *bos < len(tokens) {
		g.Set("tokenizer.ggml.bos_token_id", *bos)
	}
	if template != "" {
		g.Set("tokenizer.chat_template", template)
	}
	return nil
}

// tokens returns the texts and types of all ids below size; an id without a text is gguf.Unused. An added token from
// size on has no embedding, so the model can't read it. A size of 0 is unknown.
func (t *tokenizer) tokens(size int) ([]string, []int32, error) {
	if size--; size < 0 {
		for _, a := range t.added {
			size = max(size, a.ID)
		}
	}
	for _, id := range t.model.Vocab {
		size = max(size, id)
	}
	if size < 0 || size >= maxTokens {
		return nil, nil, fmt.Errorf("the last token is %d; there may be 1 to %d", size, maxTokens)
	}
	size++
	tokens, types := make([]string, size), make([]int32, size)
	for i := range tokens {
		tokens[i], types[i] = fmt.Sprintf("[PAD%d]", i), gguf.Unused // as llama.cpp's converter names them
	}
	for text, id := range t.model.Vocab {
		if id < 0 {
			return nil, nil, fmt.Errorf("token %q has id %d", text, id)
		}
		if types[id] != gguf.Unused {
			return nil, nil, fmt.Errorf("tokens %q and %q have the id %d", min(text, tokens[id]), max(text, tokens[id]), id)
		}
		tokens[id], types[id] = text, gguf.Normal
	}
	for _, a := range t.added {
		if a.ID < 0 || a.ID >= size {
			continue
		}
		tokens[a.ID], types[a.ID] = a.Content, gguf.UserDefined
		if a.Special || strings.HasPrefix(a.Content, "<|") && strings.HasSuffix(a.Content, "|>") { // as llama.cpp's converter
			types[a.ID] = gguf.Control
		}
	}
	return tokens, types, nil
}

// merges returns "a b" for each merge. It checks that a, b and ab are in the vocabulary.
func (t *tokenizer) merges() ([]string, error) {
	list := make([]string, len(t.model.Merges))
	for i, raw := range t.model.Merges {
		var pair []string
		if json.Unmarshal(raw, &list[i]) == nil {
			pair = strings.SplitN(list[i], " ", 2)
		} else if err := json.Unmarshal(raw, &pair); err != nil {
			pair = nil
		}
		if len(pair) != 2 {
			return nil, fmt.Errorf("merge %d is neither \"a b\" nor [\"a\", \"b\"]", i)
		}
		list[i] = pair[0] + " " + pair[1]
		for _, token := range []string{pair[0], pair[1], pair[0] + pair[1]} {
			if _, known := t.model.Vocab[token]; !known {
				return nil, fmt.Errorf("merge %d: %q is not in the vocabulary", i, token)
			}
		}
	}
	return list, nil
}

// chatTemplate returns the model's chat template, "" without one.
func chatTemplate(dir string, c *tokenizerConfig) (string, error) {
	switch text, err := readFile(dir, "chat_template.jinja"); {
	case err == nil:
		return string(text), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	var one string
	var named []struct{ Name, Template string }
	switch {
	case len(c.Template) == 0 || json.Unmarshal(c.Template, &one) == nil:
		return one, nil
	case json.Unmarshal(c.Template, &named) != nil:
		return "", fmt.Errorf("%s: chat_template is neither a text nor a list", filepath.Join(dir, vocabularyConfig))
	}
	for _, n := range named {
		if n.Name == "default" {
			return n.Template, nil
		}
	}
	return "", nil
}

func readJSON(dir, name string, into any) error {
	text, err := readFile(dir, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return nil
}

func readFile(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit, known := maxBytes[name]
	if !known {
		limit = maxFile
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, min(info.Size(), limit)+1)) // it may grow
	if err == nil && max(int64(len(text)), info.Size()) > limit {
		err = fmt.Errorf("%s has %d bytes; at most %d may be", path, info.Size(), limit)
	}
	return text, err
}

// openRegular opens a regular file. It refuses pipes and devices, which may block.
func openRegular(path string) (*os.File, error) {
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	}
	return os.Open(path)
}

// maxBytes has the limits of certain files in bytes, more than ten times the size of any published one.
var maxBytes = map[string]int64{"chat_template.jinja": gguf.MaxTemplate, vocabularyConfig: 16 << 20, "config.json": 16 << 20, generationFile: 16 << 20}

const (
	maxFile   = 256 << 20
	maxTokens = 4 << 20
)
