package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVLLMWithQwensTokenizer is for make test-vllm, which starts a vLLM with random weights and the published tokenizer
// of Qwen 3. The right vocabulary is accepted, wrong ones are refused by the token that differs.
func TestVLLMWithQwensTokenizer(t *testing.T) {
	url, dir := os.Getenv("AGENTD_TEST_VLLM_QWEN"), os.Getenv("AGENTD_TEST_VLLM_QWEN_MODEL")
	if url == "" {
		t.Skip("no AGENTD_TEST_VLLM_QWEN; make test-vllm starts vLLM and sets it")
	}
	r := serveEngines(t, []string{url}, "--model", dir)
	r.expect(200, `"name":"go_to"`, "POST", "/v1/chat/completions", `{"max_tokens": 64, "temperature": 0, "tool_choice": "required",
		"messages": [{"role": "user", "content": "cafe\u0301, \u212b"}],
		"tools": [{"type": "function", "function": {"name": "go_to", "parameters": {"type": "object", "properties": {"room": {"enum": ["hall"]}}, "required": ["room"]}}}]}`)
	if log := r.log.String(); !strings.Contains(log, `"temperature":0.6`) || !strings.Contains(log, `"top_k":20`) {
		t.Errorf("the sampling of generation_config.json does not count: %s", log)
	}
	for want, change := range map[string]func(dir string){
		"120002, and here 120001": func(dir string) {
			changeVocabulary(t, filepath.Join(dir, "tokenizer.json"), func(vocab map[string]int) {
				a, b := textOf(vocab, 120001), textOf(vocab, 120002)
				vocab[a], vocab[b] = vocab[b], vocab[a]
			})
		},
		`"<another>" is missing, and here 151657`: func(dir string) {
			for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
				changeFile(t, filepath.Join(dir, name), func(text []byte) []byte {
					return bytes.ReplaceAll(text, []byte(`"<tool_call>"`), []byte(`"<another>"`))
				})
			}
		},
	} {
		other := t.TempDir()
		if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		change(other)
		err := run(t.Context(), []string{"--port", "0", "--engine", url, "--model", other}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func textOf(vocab map[string]int, id int) string {
	for text, known := range vocab {
		if known == id {
			return text
		}
	}
	return ""
}

func changeVocabulary(t *testing.T, path string, change func(vocab map[string]int)) {
	t.Helper()
	changeFile(t, path, func(text []byte) []byte {
		var all, model map[string]json.RawMessage
		var vocab map[string]int
		if json.Unmarshal(text, &all) != nil || json.Unmarshal(all["model"], &model) != nil || json.Unmarshal(model["vocab"], &vocab) != nil {
			t.Fatalf("%s is no tokenizer", path)
		}
		change(vocab)
		model["vocab"] = encoded(t, vocab)
		all["model"] = encoded(t, model)
		return encoded(t, all)
	})
}

func changeFile(t *testing.T, path string, change func(text []byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
