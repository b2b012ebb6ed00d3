package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
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
	for want, change := range map[string]func(vocab map[string]int, added []any) []any{
		"120002, and here 120001": func(vocab map[string]int, added []any) []any {
			a, b := textOf(vocab, 120001), textOf(vocab, 120002)
			vocab[a], vocab[b] = vocab[b], vocab[a]
			return added
		},
		`"<tool_call>" is 151657, and here missing`: func(_ map[string]int, added []any) []any {
			return slices.DeleteFunc(added, func(token any) bool { return token.(map[string]any)["content"] == "<tool_call>" })
		},
	} {
		other := t.TempDir()
		if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		changeTokenizer(t, filepath.Join(other, "tokenizer.json"), change)
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

func changeTokenizer(t *testing.T, path string, change func(vocab map[string]int, added []any) []any) {
	t.Helper()
	text, err := os.ReadFile(path)
	var all, model map[string]json.RawMessage
	var vocab map[string]int
	var added []any
	if err != nil || json.Unmarshal(text, &all) != nil || json.Unmarshal(all["model"], &model) != nil ||
		json.Unmarshal(model["vocab"], &vocab) != nil || json.Unmarshal(all["added_tokens"], &added) != nil {
		t.Fatal(err)
	}
	added = change(vocab, added)
	model["vocab"], all["added_tokens"] = encoded(t, vocab), encoded(t, added)
	all["model"] = encoded(t, model)
	if err := os.WriteFile(path, encoded(t, all), 0o600); err != nil {
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
