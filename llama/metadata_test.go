package llama

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// TestImpossibleMetadataIsAnError in one line, although llama.cpp asserts that it is
// not so. Loading or the context fails, and other models go on as before.
func TestImpossibleMetadataIsAnError(t *testing.T) {
	for _, tc := range []struct {
		arch, key string
		values    []uint32
	}{
		{synth.Qwen2, "block_count", []uint32{0, 600, 1<<32 - 1}},
		{synth.Qwen2, "attention.head_count", []uint32{0, 1, 99}},
		{synth.Qwen3, "block_count", []uint32{0, 600}},
		{synth.Qwen3, "attention.head_count_kv", []uint32{0, 99}},
		{synth.Qwen35, "block_count", []uint32{0, 600}},
		{synth.GPTOSS, "block_count", []uint32{0, 600}},
		{synth.GPTOSS, "expert_count", []uint32{0, 1, 3, 100000}},
		{synth.GPTOSS, "expert_used_count", []uint32{0, 99, 1 << 31}},
	} {
		source, err := os.ReadFile(modelPath(t, tc.arch))
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range tc.values {
			path := withMetadata(t, source, tc.arch+"."+tc.key, value)
			m, err := New(path, SetDevices("cpu"))
			if err == nil {
				_, err = m.NewContext(SetContext(256), SetBatch(32), SetThreads(1, 1))
				if err := m.Free(); err != nil {
					t.Error(err)
				}
			}
			if err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %s %d: got the error %v", tc.arch, tc.key, value, err)
			}
		}
		m, err := New(modelPath(t, tc.arch), SetDevices("cpu"))
		if err != nil {
			t.Fatal(err)
		}
		feed(t, newContext(t, m), 0, tokenize(t, m, "the and of"))
	}
}

// withMetadata is a copy of a model's file in which an integer of the metadata has another
// value.
func withMetadata(t *testing.T, source []byte, key string, value uint32) string {
	t.Helper()
	const uint32Type = 4
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(key)))
	head = binary.LittleEndian.AppendUint32(append(head, key...), uint32Type)
	at := bytes.Index(source, head)
	if at < 0 {
		t.Fatalf("the model has no %s", key)
	}
	changed := bytes.Clone(source)
	binary.LittleEndian.PutUint32(changed[at+len(head):], value)
	path := filepath.Join(t.TempDir(), "changed.gguf")
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
