package synth

/*
#include <stdlib.h>
#include "gguf.h"
*/
import "C"

import "unsafe"

// metadata sets key-value pairs of a GGUF file.
type metadata struct{ g *C.struct_gguf_context }

func withKey(key string, f func(*C.char)) {
	c := C.CString(key)
	defer C.free(unsafe.Pointer(c))
	f(c)
}

func (m *metadata) str(key, value string) {
	withKey(key, func(k *C.char) { withKey(value, func(v *C.char) { C.gguf_set_val_str(m.g, k, v) }) })
}

func (m *metadata) u32(key string, value int) {
	withKey(key, func(k *C.char) { C.gguf_set_val_u32(m.g, k, C.uint32_t(value)) })
}

func (m *metadata) f32(key string, value float32) {
	withKey(key, func(k *C.char) { C.gguf_set_val_f32(m.g, k, C.float(value)) })
}

func (m *metadata) boolean(key string, value bool) {
	withKey(key, func(k *C.char) { C.gguf_set_val_bool(m.g, k, C.bool(value)) })
}

func (m *metadata) ints(key string, values []int32) {
	withKey(key, func(k *C.char) {
		C.gguf_set_arr_data(m.g, k, C.GGUF_TYPE_INT32, unsafe.Pointer(&values[0]), C.size_t(len(values)))
	})
}

// strings copies the list into C memory: one block of text, one of pointers.
func (m *metadata) strings(key string, values []string) {
	size := 0
	for _, v := range values {
		size += len(v) + 1
	}
	text := C.malloc(C.size_t(size))
	defer C.free(text)
	list := C.malloc(C.size_t(len(values)) * C.size_t(unsafe.Sizeof(uintptr(0))))
	defer C.free(list)
	block := unsafe.Slice((*byte)(text), size)
	pointers := unsafe.Slice((**C.char)(list), len(values))
	at := 0
	for i, v := range values {
		pointers[i] = (*C.char)(unsafe.Pointer(&block[at]))
		at += copy(block[at:], v)
		block[at] = 0
		at++
	}
	withKey(key, func(k *C.char) { C.gguf_set_arr_str(m.g, k, (**C.char)(list), C.size_t(len(values))) })
}

// setMetadata writes the keys that llama.cpp's loader reads.
func setMetadata(m *metadata, spec *Spec, v *vocabulary) {
	arch := spec.Arch + "."
	m.str("general.architecture", spec.Arch)
	m.str("general.type", "model")
	m.str("general.name", spec.Name)
	m.u32("general.file_type", int(fileTypes[spec.Type]))
	m.u32("general.quantization_version", 2)

	m.u32(arch+"context_length", spec.Context)
	m.u32(arch+"embedding_length", spec.Embedding)
	m.u32(arch+"block_count", spec.Layers)
	m.u32(arch+"feed_forward_length", spec.FFN)
	m.u32(arch+"attention.head_count", spec.Heads)
	m.u32(arch+"attention.head_count_kv", spec.KVHeads)
	m.u32(arch+"attention.key_length", spec.HeadDim)
	m.u32(arch+"attention.value_length", spec.HeadDim)
	m.f32(arch+"attention.layer_norm_rms_epsilon", 1e-6)
	switch spec.Arch {
	case GPTOSS:
		m.f32(arch+"rope.freq_base", 150000)
		m.u32(arch+"attention.sliding_window", spec.SlidingWindow)
		m.u32(arch+"expert_count", spec.Experts)
		m.u32(arch+"expert_used_count", spec.ExpertsUsed)
		m.u32(arch+"expert_feed_forward_length", spec.FFN)
	case Qwen35:
		m.f32(arch+"rope.freq_base", 1e7)
		m.u32(arch+"rope.dimension_count", spec.HeadDim)
		m.ints(arch+"rope.dimension_sections", []int32{int32(spec.HeadDim / 4), int32(spec.HeadDim / 8), int32(spec.HeadDim / 8), 0})
		m.u32(arch+"full_attention_interval", recurrentInterval)
		m.u32(arch+"ssm.conv_kernel", convKernel)
		m.u32(arch+"ssm.state_size", stateSize)
		m.u32(arch+"ssm.group_count", spec.KVHeads)
		m.u32(arch+"ssm.time_step_rank", spec.Heads)
		m.u32(arch+"ssm.inner_size", spec.Heads*stateSize)
	case Llama:
		m.f32(arch+"rope.freq_base", 500000)
		m.u32(arch+"rope.dimension_count", spec.HeadDim)
	default:
		m.f32(arch+"rope.freq_base", 1e6)
	}

	m.str("tokenizer.ggml.model", "gpt2")
	m.str("tokenizer.ggml.pre", v.pre)
	m.strings("tokenizer.ggml.tokens", v.tokens)
	m.ints("tokenizer.ggml.token_type", v.types)
	m.strings("tokenizer.ggml.merges", v.merges)
	m.u32("tokenizer.ggml.bos_token_id", v.bos)
	m.u32("tokenizer.ggml.eos_token_id", v.eos)
	m.u32("tokenizer.ggml.padding_token_id", v.pad)
	m.boolean("tokenizer.ggml.add_bos_token", false)
	template := spec.ChatTemplate
	if template == "" {
		template = defaultTemplate(spec.Arch)
	}
	m.str("tokenizer.chat_template", template)
}
