// Package checkpointtest writes checkpoints with random weights, for tests.
package checkpointtest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Object is a JSON object.
type Object = map[string]any

// Fixture is a checkpoint with random weights. Its name ends with the type of most weights.
type Fixture struct {
	Name, Pre string // Pre: the pre-tokenizer, by llama.cpp's name
	config    Object
	files     int                // number of safetensors files
	shapes    map[string][]int64 // of all tensors, by name
	u8        []string           // suffixes of the names of U8 tensors
}

// Sizes in all fixtures: of the vocabulary, of an embedding, and the number of layers.
const (
	Vocab  = 264
	width  = 64
	Layers = 2
)

// All returns checkpoints of all architectures.
func All() []Fixture {
	llama3 := Object{"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
	yarn := Object{"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 64, "truncate": false}
	dense := func(headSize int64, more ...string) map[string][]int64 {
		return layers(map[string][]int64{
			"self_attn.q_proj.weight": {4 * headSize, width}, "self_attn.k_proj.weight": {2 * headSize, width},
			"self_attn.v_proj.weight": {2 * headSize, width}, "self_attn.o_proj.weight": {width, 4 * headSize},
			"mlp.gate_proj.weight": {96, width}, "mlp.up_proj.weight": {96, width}, "mlp.down_proj.weight": {width, 96},
		}, more, map[string][]int64{
			"q_bias": {4 * headSize}, "k_bias": {2 * headSize}, "v_bias": {2 * headSize}, "o_bias": {width},
			"q_norm": {headSize}, "k_norm": {headSize},
		})
	}
	moe := dense(16, "q_norm", "k_norm")
	maps.DeleteFunc(moe, func(name string, _ []int64) bool { return strings.Contains(name, "mlp.") })
	oss := dense(16, "q_bias", "k_bias", "v_bias", "o_bias")
	maps.DeleteFunc(oss, func(name string, _ []int64) bool { return strings.Contains(name, "mlp.") })
	for i := range Layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		moe[at+"mlp.gate.weight"] = []int64{4, width}
		for e := range 4 {
			expert := fmt.Sprintf("%smlp.experts.%d.", at, e)
			moe[expert+"gate_proj.weight"], moe[expert+"up_proj.weight"] = []int64{32, width}, []int64{32, width}
			moe[expert+"down_proj.weight"] = []int64{width, 32}
		}
		oss[at+"self_attn.sinks"] = []int64{4}
		oss[at+"mlp.router.weight"], oss[at+"mlp.router.bias"] = []int64{4, width}, []int64{4}
		oss[at+"mlp.experts.gate_up_proj_bias"], oss[at+"mlp.experts.down_proj_bias"] = []int64{4, 2 * 96}, []int64{4, width}
	}
	blocks := maps.Clone(oss)
	for i := range Layers {
		at := fmt.Sprintf("model.layers.%d.mlp.experts.", i)
		oss[at+"gate_up_proj"], oss[at+"down_proj"] = []int64{4, width, 2 * 96}, []int64{4, 96, width}
		blocks[at+"gate_up_proj_blocks"], blocks[at+"gate_up_proj_scales"] = []int64{4, 2 * 96, 2, 16}, []int64{4, 2 * 96, 2}
		blocks[at+"down_proj_blocks"], blocks[at+"down_proj_scales"] = []int64{4, width, 3, 16}, []int64{4, width, 3}
	}
	hybrid, images := hybridShapes()
	tied := dense(16)
	delete(tied, "lm_head.weight")
	ossConfig := Object{"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 32, "rope_parameters": yarn}
	return []Fixture{
		{Name: "llama-bf16", Pre: "llama-bpe", files: 1, shapes: tied, config: class("LlamaForCausalLM", Object{"rope_parameters": llama3, "tie_word_embeddings": true})},
		{Name: "llama-f32", Pre: "llama-bpe", files: 3, shapes: dense(16, "q_bias", "k_bias", "v_bias", "o_bias"), config: class("LlamaForCausalLM", Object{"rope_theta": 10000.0, "attention_bias": true})},
		{Name: "qwen2-bf16", Pre: "qwen2", files: 2, shapes: dense(16, "q_bias", "k_bias", "v_bias"), config: class("Qwen2ForCausalLM", Object{"rope_theta": 1e6})},
		{Name: "qwen3-f16", Pre: "qwen2", files: 1, shapes: dense(32, "q_norm", "k_norm"), config: class("Qwen3ForCausalLM", Object{"head_dim": 32, "rope_parameters": Object{"rope_type": "default", "rope_theta": 1e6}})},
		{Name: "qwen3moe-bf16", Pre: "qwen2", files: 1, shapes: moe, config: class("Qwen3MoeForCausalLM", Object{"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": true})},
		{Name: "gptoss-bf16", Pre: "gpt-4o", files: 1, shapes: oss, config: class("GptOssForCausalLM", ossConfig)},
		{Name: "gptossmx-bf16", Pre: "gpt-4o", files: 1, shapes: blocks, u8: []string{"_blocks", "_scales"}, config: class("GptOssForCausalLM", with(ossConfig, Object{"quantization_config": Object{"quant_method": "mxfp4"}}))},
		{Name: "qwen35-bf16", Pre: "qwen35", files: 1, shapes: hybrid, config: class("Qwen3_5ForCausalLM", hybridConfig)},
		{Name: "qwen35vl-f32", Pre: "qwen35", files: 2, shapes: images, config: Object{
			"architectures": []string{"Qwen3_5ForConditionalGeneration"}, "model_type": "qwen3_5", "text_config": with(class("", hybridConfig), Object{"architectures": nil, "layer_types": nil}),
		}},
	}
}

// hybridConfig is for Qwen 3.5. The first layer has linear attention.
var hybridConfig = Object{
	"model_type": "qwen3_5_text", "head_dim": 32, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
	"linear_num_key_heads": 2, "linear_num_value_heads": 6, "layer_types": []string{"linear_attention", "full_attention"}, "full_attention_interval": 2,
	"rope_parameters": Object{"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": []int{2, 1, 1}},
}

// hybridShapes returns the tensors of Qwen 3.5: of a text model, and of one with a vision encoder and multi-token
// prediction.
func hybridShapes() (text, images map[string][]int64) {
	text = map[string][]int64{"model.embed_tokens.weight": {Vocab, width}, "model.norm.weight": {width}, "lm_head.weight": {Vocab, width}}
	for i, attention := range []map[string][]int64{{
		"linear_attn.in_proj_qkv.weight": {160, width}, "linear_attn.in_proj_z.weight": {96, width}, "linear_attn.in_proj_a.weight": {6, width},
		"linear_attn.in_proj_b.weight": {6, width}, "linear_attn.conv1d.weight": {160, 1, 4}, "linear_attn.dt_bias": {6}, "linear_attn.A_log": {6},
		"linear_attn.norm.weight": {16}, "linear_attn.out_proj.weight": {width, 96},
	}, {
		"self_attn.q_proj.weight": {256, width}, "self_attn.k_proj.weight": {64, width}, "self_attn.v_proj.weight": {64, width},
		"self_attn.o_proj.weight": {width, 128}, "self_attn.q_norm.weight": {32}, "self_attn.k_norm.weight": {32},
	}} {
		at := fmt.Sprintf("model.layers.%d.", i)
		for name, shape := range attention {
			text[at+name] = shape
		}
		text[at+"input_layernorm.weight"], text[at+"post_attention_layernorm.weight"] = []int64{width}, []int64{width}
		text[at+"mlp.gate_proj.weight"], text[at+"mlp.up_proj.weight"] = []int64{96, width}, []int64{96, width}
		text[at+"mlp.down_proj.weight"] = []int64{width, 96}
	}
	images = map[string][]int64{"model.visual.pos_embed.weight": {4, 4}, "mtp.fc.weight": {width, 2 * width}}
	for name, shape := range text {
		images[strings.Replace(name, "model.", "model.language_model.", 1)] = shape
	}
	return text, images
}

func with(base, more Object) Object {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}

func class(name string, more Object) Object {
	return with(Object{
		"architectures": []string{name}, "vocab_size": Vocab, "hidden_size": width, "num_hidden_layers": Layers,
		"intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
		"bos_token_id": 257, "eos_token_id": 256, "model_type": map[string]string{"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3", "Qwen3MoeForCausalLM": "qwen3_moe", "GptOssForCausalLM": "gpt_oss"}[name],
	}, more)
}

// layers returns the shapes of all tensors: the given ones repeated for each layer, and those outside of layers.
func layers(matrices map[string][]int64, chosen []string, vectors map[string][]int64) map[string][]int64 {
	all := map[string][]int64{
		"model.embed_tokens.weight": {Vocab, width}, "model.norm.weight": {width}, "lm_head.weight": {Vocab, width},
	}
	names := map[string]string{
		"q_bias": "self_attn.q_proj.bias", "k_bias": "self_attn.k_proj.bias", "v_bias": "self_attn.v_proj.bias", "o_bias": "self_attn.o_proj.bias",
		"q_norm": "self_attn.q_norm.weight", "k_norm": "self_attn.k_norm.weight",
	}
	for i := range Layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		for name, shape := range matrices {
			all[at+name] = shape
		}
		all[at+"input_layernorm.weight"], all[at+"post_attention_layernorm.weight"] = []int64{width}, []int64{width}
		for _, vector := range chosen {
			all[at+names[vector]] = vectors[vector]
		}
	}
	return all
}

// Write writes the checkpoint to the directory parent/Name, and returns its path.
func (f *Fixture) Write(t *testing.T, parent string) string {
	t.Helper()
	dir := filepath.Join(parent, f.Name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	vocab := map[string]int{"<|end|>": 256, "<|begin|>": 257, "<think>": 258, "<|tool|>": 259, "th": 260}
	for b := range 256 {
		vocab[string(byteRune(byte(b)))] = b
	}
	Write(t, dir, map[string]any{
		"config.json": f.config, "generation_config.json": Object{"eos_token_id": 256},
		"tokenizer_config.json": Object{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "bos_token": "<|begin|>"},
		"tokenizer.json": Object{
			"version": "1.0",
			"added_tokens": []Object{
				added(256, "<|end|>", true), added(257, "<|begin|>", true), added(258, "<think>", false), added(259, "<|tool|>", false),
			},
			"pre_tokenizer": Object{"type": "Sequence", "pretokenizers": []Object{
				{"type": "Split", "pattern": Object{"Regex": Pattern(f.Pre)}, "behavior": "Isolated", "invert": false},
				{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
			}},
			"decoder": Object{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
			"model":   Object{"type": "BPE", "vocab": vocab, "merges": [][]string{{"t", "h"}}},
		},
	})
	dtype := strings.ToUpper(f.Name[strings.LastIndexByte(f.Name, '-')+1:])
	names := slices.Sorted(maps.Keys(f.shapes))
	where := map[string]string{}
	for i := range f.files {
		file := "model.safetensors"
		if f.files > 1 {
			file = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, f.files)
		}
		part := map[string][]int64{}
		for k, name := range names {
			if k%f.files == i {
				part[name], where[name] = f.shapes[name], file
			}
		}
		WriteTensors(t, filepath.Join(dir, file), part, func(name string) string {
			if slices.ContainsFunc(f.u8, func(end string) bool { return strings.HasSuffix(name, end) }) {
				return "U8"
			}
			return dtype
		})
	}
	if f.files > 1 {
		Write(t, dir, map[string]any{"model.safetensors.index.json": Object{"metadata": Object{}, "weight_map": where}})
	}
	return dir
}

func added(id int, content string, special bool) Object {
	return Object{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": special}
}

// Pattern returns the regular expression of a published pre-tokenizer by llama.cpp's name.
func Pattern(pre string) string {
	const short, before, end = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`, `[^\r\n\p{L}\p{N}]?`, `|\s*[\r\n]+|\s+(?!\S)|\s+`
	const large, small = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	return map[string]string{
		"qwen2":     short + `|` + before + `\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*` + end,
		"qwen35":    short + `|` + before + `[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` + end,
		"llama-bpe": short + `|` + before + `\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + end,
		"gpt-4o": before + large + `*` + small + `+` + short + `?|` + before + large + `+` + small + `*` + short + `?|\p{N}{1,3}` +
			`| ?[^\s\p{L}\p{N}]+[\r\n/]*` + end,
	}[pre]
}

// byteRune returns the character of a byte in GPT-2's byte-level BPE.
func byteRune(b byte) rune {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	if printable(int(b)) {
		return rune(b)
	}
	n := 0
	for other := range int(b) {
		if !printable(other) {
			n++
		}
	}
	return rune(256 + n)
}

// WriteTensors writes a safetensors file. The values of a tensor are finite, and depend on its name only.
func WriteTensors(t *testing.T, path string, shapes map[string][]int64, dtype func(name string) string) {
	t.Helper()
	header := Object{"__metadata__": Object{"format": "pt"}}
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		h := fnv.New64()
		_, _ = h.Write([]byte(name)) // a hash never fails
		source := rand.New(rand.NewPCG(h.Sum64(), 1))
		kind, begin := dtype(name), len(data)
		for range elements(shapes[name]) {
			switch bits := source.Uint32(); kind {
			case "F32":
				data = binary.LittleEndian.AppendUint32(data, bits&0x80ffffff|0x3d000000) // 2^-5, and a fraction
			case "BF16":
				data = binary.LittleEndian.AppendUint16(data, uint16(bits)&0x80ff|0x3d00)
			case "F16":
				data = binary.LittleEndian.AppendUint16(data, uint16(bits)&0x87ff|0x2800)
			case "U8":
				if strings.HasSuffix(name, "_scales") {
					bits = 116 + bits%8
				}
				data = append(data, byte(bits))
			}
		}
		header[name] = Object{"dtype": kind, "shape": shapes[name], "data_offsets": []int{begin, len(data)}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	body := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	if err := os.WriteFile(path, append(body, data...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Write writes files to a directory: strings as they are, other values as JSON.
func Write(t *testing.T, dir string, files map[string]any) {
	t.Helper()
	for name, value := range files {
		text, ok := value.(string)
		if !ok {
			encoded, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			text = string(encoded)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// WriteAdapter writes a LoRA adapter of rank 4 for a fixture with a width of 64 and heads of 16.
func WriteAdapter(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	Write(t, dir, map[string]any{"adapter_config.json": Object{"peft_type": "LORA", "r": 4, "lora_alpha": 800, "base_model_name_or_path": "base"}})
	shapes := map[string][]int64{}
	for i := range Layers {
		at := fmt.Sprintf("base_model.model.model.layers.%d.", i)
		for name, size := range map[string][2]int64{"self_attn.q_proj": {64, 64}, "self_attn.k_proj": {64, 32}, "mlp.down_proj": {96, 64}} {
			shapes[at+name+".lora_A.weight"], shapes[at+name+".lora_B.weight"] = []int64{4, size[0]}, []int64{size[1], 4}
		}
	}
	WriteTensors(t, filepath.Join(dir, "adapter_model.safetensors"), shapes, func(string) string { return "F32" })
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, v := range shape {
		n *= v
	}
	return n
}
