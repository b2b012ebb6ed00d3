//go:build !race

package checkpoint

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"agentd/llama"
	"agentd/llama/checkpoint/checkpointtest"
	"agentd/llama/internal/gguf"
)

// textsCompared is how many texts each tokenizer gets.
const textsCompared = 10_000

// publishedTokenizers are the packages of third_party/tokenizers.sh. Refused ones have a part of the error.
var publishedTokenizers = []struct{ name, refused, eos string }{
	{"qwen3", "", "<|im_end|>"}, {"qwen3.5", "", "<|im_end|>"}, {"gpt-oss", "", "<|return|>"}, {"llama3.1", "", "<|eot_id|>"},
	{"deepseek3", `pre_tokenizer: {"type":"Split"`, ""}, {"gemma3", "byte_fallback is true", ""},
}

// TestPublishedTokenizersGiveTheLibrarysTokens, for the directory, and for a GGUF file with the same vocabulary, which
// does not say whether it normalizes or merges. Those that are not known are refused by name.
func TestPublishedTokenizersGiveTheLibrarysTokens(t *testing.T) {
	python := os.Getenv(converter)
	if python == "" {
		t.Skipf("no %s; make test-vllm sets it", converter)
	}
	texts := manyTexts(textsCompared)
	random := rand.New(rand.NewPCG(1, 1))
	if !written(texts, unicode.Han, unicode.Cuneiform, unicode.Devanagari, unicode.Hiragana, unicode.Tamil, unicode.Mn, unicode.So, unicode.Lt) {
		t.Fatal("the texts have no character of a script")
	}
	for _, p := range publishedTokenizers {
		t.Run(p.name, func(t *testing.T) {
			dir := publishedDirectory(t, p.name)
			marked := make([]string, 500) // with the token that ends answers
			for i := range marked {
				for range 1 + random.IntN(4) {
					marked[i] += texts[random.IntN(len(sentences)*5)] + []string{p.eos, p.eos + "\u0338", p.eos + "\u0301e\u0301"}[random.IntN(3)]
				}
			}
			want, wantMarked := libraryTokens(t, dir, texts), libraryTokens(t, dir, marked)
			checkpointtest.Write(t, dir, map[string]any{"config.json": object{"max_position_embeddings": 4096}})
			if !isFile(filepath.Join(dir, vocabularyConfig)) { // of tiktoken
				checkpointtest.Write(t, dir, map[string]any{vocabularyConfig: object{"eos_token": p.eos}})
			}
			var b bytes.Buffer
			err := WriteVocabulary(&b, dir)
			if expect(t, err, p.refused); err != nil {
				return
			}
			stripped := withoutKeys(t, b.Bytes(), gguf.NormalizerKey, "tokenizer.ggml.ignore_merges")
			for what, file := range map[string][]byte{"directory": b.Bytes(), "GGUF": stripped} {
				path := filepath.Join(t.TempDir(), "vocabulary.gguf")
				if err := os.WriteFile(path, file, 0o600); err != nil {
					t.Fatal(err)
				}
				sameTokens(t, what, path, false, texts, want)
				sameTokens(t, what+", special tokens", path, true, marked, wantMarked)
			}
			if p.name == "qwen3" { // a real file of Qwen 2.5, where the cache has it
				out, err := exec.CommandContext(t.Context(), "env", "CACHED_ONLY=yes", "../../third_party/models.sh", "0.5b").Output()
				if err == nil {
					sameTokens(t, "Qwen 2.5", strings.TrimSpace(string(out)), false, texts, want)
				}
			}
		})
	}
}

// publishedDirectory is a copy of a published tokenizer's files.
func publishedDirectory(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../third_party/tokenizers.sh", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(out)))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func libraryTokens(t *testing.T, dir string, texts []string) (list [][]llama.Token) {
	t.Helper()
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), os.Getenv(converter), "testdata/tokens.py", dir)
	c.Stdin = bytes.NewReader(in)
	out, err := c.Output()
	if err != nil || json.Unmarshal(out, &list) != nil || len(list) != len(texts) {
		t.Fatal(err, len(list))
	}
	return list
}

func sameTokens(t *testing.T, what, path string, special bool, texts []string, want [][]llama.Token) {
	t.Helper()
	m, err := llama.New(path, llama.SetVocabOnly(true))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	differ := 0
	for i, text := range texts {
		got, err := m.Vocab().Tokenize(text, false, special)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(got, want[i]) {
			continue
		}
		if differ++; differ <= 5 {
			t.Errorf("%s: %.300q: %.300v, want %.300v", what, text, got, want[i])
		}
	}
	t.Logf("%s: %d of %d texts differ", what, differ, len(texts))
}

// withoutKeys is a GGUF file without some of its metadata, as llama.cpp's converter writes it. Keys are renamed to others
// of the same length.
func withoutKeys(t *testing.T, file []byte, keys ...string) []byte {
	t.Helper()
	file = bytes.Clone(file)
	for _, key := range keys {
		if bytes.Count(file, []byte(key)) != 1 {
			t.Fatalf("the file has no %s", key)
		}
		file = bytes.Replace(file, []byte(key), []byte(strings.Repeat("x", len(key)-1)+key[:1]), 1)
	}
	return file
}
