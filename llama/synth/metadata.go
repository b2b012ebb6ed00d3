package synth

import (
	"cmp"

	"agentd/llama/internal/gguf"
)

// metadata returns the keys that llama.cpp's loader reads.
func (s *Spec) metadata(v *vocabulary) *gguf.Metadata {
	m := &gguf.Metadata{}
	m.Set("general.architecture", s.Arch)
	m.Set("general.type", "model")
	m.Set("general.name", s.Name)
	m.Set("general.file_type", matrixTypes[s.Type].file)
	m.Set("general.quantization_version", 2)

	set := func(key string, value any) { m.Set(s.Arch+"."+key, value) }
	set("context_length", s.Context)
	set("embedding_length", s.Embedding)
	set("block_count", s.Layers)
	set("feed_forward_length", s.FFN)
	set("attention.head_count", s.Heads)
	set("attention.head_count_kv", s.KVHeads)
	set("attention.key_length", s.HeadDim)
	set("attention.value_length", s.HeadDim)
	set("attention.layer_norm_rms_epsilon", 1e-6)
	if s.Experts > 0 {
		set("expert_count", s.Experts)
		set("expert_used_count", s.ExpertsUsed)
		set("expert_feed_forward_length", s.FFN)
	}
	switch s.Arch {
	case GPTOSS:
		set("rope.freq_base", 150000.0)
		set("attention.sliding_window", s.SlidingWindow)
	case Qwen35:
		set("rope.freq_base", 1e7)
		set("rope.dimension_count", s.HeadDim)
		set("rope.dimension_sections", []int32{int32(s.HeadDim / 4), int32(s.HeadDim / 8), int32(s.HeadDim / 8), 0})
		set("full_attention_interval", recurrentInterval)
		set("ssm.conv_kernel", convKernel)
		set("ssm.state_size", stateSize)
		set("ssm.group_count", s.KVHeads)
		set("ssm.time_step_rank", s.Heads)
		set("ssm.inner_size", s.Heads*stateSize)
	case Llama:
		set("rope.freq_base", 500000.0)
		set("rope.dimension_count", s.HeadDim)
	default:
		set("rope.freq_base", 1e6)
	}

	m.Set("tokenizer.ggml.model", "gpt2")
	m.Set("tokenizer.ggml.pre", v.pre)
	m.Set("tokenizer.ggml.tokens", v.tokens)
	m.Set("tokenizer.ggml.token_type", v.types)
	m.Set("tokenizer.ggml.merges", v.merges)
	m.Set("tokenizer.ggml.bos_token_id", v.bos)
	m.Set("tokenizer.ggml.eos_token_id", v.eos)
	m.Set("tokenizer.ggml.padding_token_id", v.pad)
	m.Set("tokenizer.ggml.add_bos_token", false)
	m.Set("tokenizer.chat_template", cmp.Or(s.ChatTemplate, defaultTemplate(s.Arch)))
	return m
}
