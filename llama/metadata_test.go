//go:build !race

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

// Loading or making a context fails with an error of one line, where llama.cpp alone would
// abort, divide by zero or never end. Other models stay usable.
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
		{synth.Qwen35, "full_attention_interval", []uint32{0}},
		{synth.Qwen35, "rope.dimension_count", []uint32{0, 1, 7, 1000, 1<<32 - 1}},
		{synth.Qwen35, "ssm.group_count", []uint32{0}},
		{synth.Qwen35, "ssm.time_step_rank", []uint32{0}},
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

// llama.cpp divides by these numbers. synth writes no models of most architectures that have
// them, so the files contain metadata only.
func TestZeroDivisorIsNamed(t *testing.T) {
	header := func(arch, key string) string {
		text := func(b []byte, s string) []byte {
			return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
		}
		b := binary.LittleEndian.AppendUint32([]byte("GGUF"), 3)
		b = binary.LittleEndian.AppendUint64(b, 0) // tensors
		b = binary.LittleEndian.AppendUint64(b, 2) // pairs
		b = text(binary.LittleEndian.AppendUint32(text(b, "general.architecture"), 8), arch)
		b = binary.LittleEndian.AppendUint32(text(b, arch+"."+key), 4)
		path := filepath.Join(t.TempDir(), "header.gguf")
		if err := os.WriteFile(path, binary.LittleEndian.AppendUint32(b, 0), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		arch, key string
		refused   bool
	}{
		{"qwen3next", "full_attention_interval", true},
		{"rwkv7", "wkv.head_size", true},
		{"grovemoe", "experts_per_group", true},
		{"mamba2", "ssm.time_step_rank", true},
		{"mamba2", "ssm.group_count", true},
		{"plamo2", "ssm.group_count", false},
		{"deepseek4", "attention.output_group_count", true},
		{"ernie4_5-moe", "interleave_moe_layer_step", true},
		{"llama4", "interleave_moe_layer_step", false},
	} {
		want := "the metadata " + tc.arch + "." + tc.key + " is 0, but must be at least 1"
		_, err := New(header(tc.arch, tc.key), SetDevices("cpu"))
		if err == nil || strings.Contains(err.Error(), want) != tc.refused {
			t.Errorf("%s.%s 0: got the error %v", tc.arch, tc.key, err)
		}
	}
}

func TestFileOfAnotherKindIsNamed(t *testing.T) {
	for _, tc := range []struct {
		key, value, want string
	}{
		{"general.architecture", "clip", "vision part"},
		{"general.type", "mmproj", "vision part"},
		{"general.type", "adapter", "LoRA adapter"},
		{"general.type", "imatrix", "importance matrix"},
		{"general.architecture", "controlvector", "control vector"},
	} {
		b := binary.LittleEndian.AppendUint32([]byte("GGUF"), 3)
		b = binary.LittleEndian.AppendUint64(b, 0) // tensors
		b = binary.LittleEndian.AppendUint64(b, 1) // pairs
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(tc.key))), tc.key...)
		b = binary.LittleEndian.AppendUint32(b, 8) // a string
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(tc.value))), tc.value...)
		path := filepath.Join(t.TempDir(), "other.gguf")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, vocabOnly := range []bool{false, true} {
			if _, err := New(path, SetDevices("cpu"), SetVocabOnly(vocabOnly)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s %s: %v", tc.key, tc.value, err)
			}
		}
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
