// Package checkpoint reads directories of Hugging Face's transformers and writes them as GGUF files, which
// llama.cpp reads: the whole model, or its vocabulary alone. It knows byte-level BPE with the pre-tokenizers of
// Qwen, Llama 3, GPT-OSS, GPT-2 and SmolLM.
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

// Token types of a GGUF file (llama.cpp's llama_token_type).
const (
	typeNormal      = 1
	typeControl     = 3
	typeUserDefined = 4
	typeUnused      = 5
)

// tokenizer is what is read of tokenizer.json.
type tokenizer struct {
	Added []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	Pre   json.RawMessage `json:"pre_tokenizer"`
	Model struct {
		Type         string            `json:"type"`
		Vocab        map[string]int    `json:"vocab"`
		Merges       []json.RawMessage `json:"merges"` // "a b", or ["a", "b"]
		ByteFallback bool              `json:"byte_fallback"`
	} `json:"model"`
}

// patterns distinguish pre-tokenizers by a part of their regular expression that no other
// one has; the first match counts.
var patterns = []struct{ part, pre string }{
	{`\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*`, "gpt-4o"},
	{`[\p{L}\p{M}]+|\p{N}|`, "qwen35"},
	{`\p{L}+|\p{N}{1,3}|`, "llama-bpe"},
	{`\p{L}+|\p{N}|`, "qwen2"},
}

// WriteVocabulary writes the vocabulary in dir as a GGUF file without weights. Callers compare it with
// the tokenizer of the engine that has the weights.
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

// shape is what a vocabulary needs of config.json. The architecture need not be known.
type shape struct {
	VocabSize int    `json:"vocab_size"`
	Context   int    `json:"max_position_embeddings"`
	BOS       *int   `json:"bos_token_id"`
	Text      *shape `json:"text_config"` // of models that also see images
}

func readShape(dir string) (*shape, error) {
	var c shape
	if err := readJSON(dir, "config.json", &c); err != nil {
		return nil, err
	}
	if c.Text != nil {
		c = *c.Text
	}
	if n := max(c.VocabSize, c.Context); n > maxSize || min(c.VocabSize, c.Context) < 0 {
		return nil, fmt.Errorf("%s: it has a size of %d", filepath.Join(dir, "config.json"), n)
	}
	return &c, nil
}

// writeVocabulary adds tokens, merges, tokens that end an answer, and the chat template.
func writeVocabulary(g *gguf.Metadata, dir string, c *shape) error {
	path := filepath.Join(dir, "tokenizer.json")
	var t tokenizer
	if err := readJSON(dir, "tokenizer.json", &t); err != nil {
		return err
	}
	if t.Model.Type != "BPE" || t.Model.ByteFallback {
		return fmt.Errorf("%s: only byte-level BPE is known; give a GGUF file of the model instead", path)
	}
	pre, err := preTokenizer(t.Pre)
	tokens, types, tokensErr := t.tokens(c.VocabSize)
	merges, mergesErr := t.merges()
	if err := cmp.Or(err, tokensErr, mergesErr); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	ends, err := t.endTokens(dir)
	if err != nil {
		return err
	}
	template, err := chatTemplate(dir)
	if err != nil {
		return err
	}
	g.Set("tokenizer.ggml.model", "gpt2")
	g.Set("tokenizer.ggml.pre", pre)
	g.Set("tokenizer.ggml.tokens", tokens)
	g.Set("tokenizer.ggml.token_type", types)
	g.Set("tokenizer.ggml.merges", merges)
	for i, id := range ends {
		g.Set(endKeys[i], id)
	}
	if err := writeSampling(g, dir); err != nil {
		return err
	}
	if c.BOS != nil && *c.BOS >= 0 && *c.BOS < len(tokens) {
		g.Set("tokenizer.ggml.bos_token_id", *c.BOS)
	}
	g.Set("tokenizer.ggml.add_bos_token", false) // prompts name their special tokens
	if template != "" {
		g.Set("tokenizer.chat_template", template)
	}
	return nil
}

// tokens lists texts and types by id; ids without a text are unused.
func (t *tokenizer) tokens(size int) ([]string, []int32, error) {
	size--
	for _, id := range t.Model.Vocab {
		size = max(size, id)
	}
	for _, a := range t.Added {
		size = max(size, a.ID)
	}
	if size < 0 || size >= maxTokens {
		return nil, nil, fmt.Errorf("the last token is %d; there may be 1 to %d", size, maxTokens)
	}
	size++
	tokens, types := make([]string, size), make([]int32, size)
	for i := range tokens {
		tokens[i], types[i] = fmt.Sprintf("[PAD%d]", i), typeUnused // as llama.cpp's converter names them
	}
	for text, id := range t.Model.Vocab {
		if id < 0 {
			return nil, nil, fmt.Errorf("token %q has id %d", text, id)
		}
		tokens[id], types[id] = text, typeNormal
	}
	for _, a := range t.Added {
		if a.ID < 0 {
			return nil, nil, fmt.Errorf("token %q has id %d", a.Content, a.ID)
		}
		tokens[a.ID], types[a.ID] = a.Content, typeUserDefined
		if a.Special || strings.HasPrefix(a.Content, "<|") && strings.HasSuffix(a.Content, "|>") { // as llama.cpp's converter
			types[a.ID] = typeControl
		}
	}
	return tokens, types, nil
}

// merges lists "a b" for each merge.
func (t *tokenizer) merges() ([]string, error) {
	list := make([]string, len(t.Model.Merges))
	for i, raw := range t.Model.Merges {
		var pair []string
		if json.Unmarshal(raw, &list[i]) == nil {
			continue
		}
		if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 {
			return nil, fmt.Errorf("merge %d is neither \"a b\" nor [\"a\", \"b\"]", i)
		}
		list[i] = pair[0] + " " + pair[1]
	}
	return list, nil
}

// preTokenizer returns llama.cpp's name of a pre-tokenizer.
func preTokenizer(raw json.RawMessage) (string, error) {
	var p struct {
		Type    string `json:"type"`
		Pattern struct {
			Regex string `json:"Regex"`
		} `json:"pattern"`
		Individual bool              `json:"individual_digits"`
		UseRegex   *bool             `json:"use_regex"`
		Parts      []json.RawMessage `json:"pretokenizers"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return "", fmt.Errorf("pre_tokenizer: %w", err)
	}
	switch p.Type {
	case "Sequence":
		for _, part := range p.Parts {
			if pre, err := preTokenizer(part); err == nil {
				return pre, nil
			}
		}
	case "Digits":
		if p.Individual {
			return "smollm", nil
		}
	case "ByteLevel":
		if p.UseRegex == nil || *p.UseRegex {
			return "gpt-2", nil
		}
	case "Split":
		for _, known := range patterns {
			if strings.Contains(p.Pattern.Regex, known.part) {
				return known.pre, nil
			}
		}
	}
	return "", errors.New("the pre-tokenizer is not known; give a GGUF file of the model instead")
}

// chatTemplate is the model's template, "" without one.
func chatTemplate(dir string) (string, error) {
	switch text, err := readFile(dir, "chat_template.jinja"); {
	case err == nil:
		return string(text), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	var c struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := readJSON(dir, "tokenizer_config.json", &c); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var one string
	var named []struct{ Name, Template string }
	switch {
	case len(c.Template) == 0 || json.Unmarshal(c.Template, &one) == nil:
		return one, nil
	case json.Unmarshal(c.Template, &named) != nil:
		return "", fmt.Errorf("%s: chat_template is neither a text nor a list", filepath.Join(dir, "tokenizer_config.json"))
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
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, err
}

// openRegular opens a file, and no pipe or device, which may block.
func openRegular(path string) (*os.File, error) {
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	}
	return os.Open(path)
}

const (
	maxFile   = 256 << 20
	maxTokens = 4 << 20
)
