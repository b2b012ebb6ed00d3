package serve

import (
	"fmt"
	"strings"
)

// hints map settings of other model runtimes, and former options, to what agentd has instead.
// A user must learn that such a key does nothing here.
//
//nolint:gosec // "tokenizer" is not a credential
var hints = map[string]string{
	"attn_implementation":    "flash attention is used wherever the device supports it; remove the key",
	"use_cache":              "the KV cache is always on; remove the key, and size it with context_length",
	"offload_folder":         "weights are memory-mapped from the file; remove the key, and use gpu_layers to keep layers on the CPU",
	"offload_state_dict":     "weights are memory-mapped from the file; remove the key",
	"low_cpu_mem_usage":      "weights are memory-mapped from the file; remove the key",
	"device_map":             "use device, such as CUDA0=3,CUDA1=1, and gpu_layers",
	"gpu_memory_limit":       "use gpu_layers and context_length, which decide the GPU memory used",
	"cpu_memory_limit":       "use gpu_layers and context_length, which decide the memory used",
	"max_memory":             "use device, gpu_layers and context_length, which decide the memory used",
	"gpu_memory_utilization": "use gpu_layers and context_length, which decide the GPU memory used",
	"allow_cpu_offload":      "use gpu_layers: layers beyond it run on the CPU",
	"cpu_offload":            "use gpu_layers: layers beyond it run on the CPU",
	"torch_dtype":            "use dtype for the KV cache; the weights' type is the model file's",
	"load_in_4bit":           "name a Q4_K_M GGUF file with model, and leave quantization at auto",
	"load_in_8bit":           "name a Q8_0 GGUF file with model, and leave quantization at auto",
	"trust_remote_code":      "a GGUF file holds no code; remove the key",
	"tokenizer":              "the tokenizer is part of the GGUF file; remove the key",
	"revision":               "name the file itself with model",
	"max_model_len":          "use context_length",
	"n_ctx":                  "use context_length",
	"ctx_size":               "use context_length",
	"n_gpu_layers":           "use gpu_layers",
	"tensor_parallel_size":   "use device and split_mode tensor",
	"max_tokens":             "use max_new_tokens",
	"max_length":             "use max_new_tokens",
	"max_context_tokens":     summaryHint,
	"max_context_characters": summaryHint,
	"max_num_seqs":           "use parallel",
	"do_sample":              "each request chooses with extra_keys.inference_mode; remove the key",
	"torch_compile":          "there is nothing to compile; remove the key",
	"gguf_file":              "use model",
	"model_path":             "use model",
	"hf_repo":                "use hf",
	"hf_file":                "use hf with OWNER/REPO:FILE",
	"log_dir":                "use prompt_log_dir",
	"summary":                summaryHint,
	"coaching_limits":        "use coaching, as in workers=4,queue=64",
	"coach_human_when":       "use coach_human, as in http://127.0.0.1:8890,when=failed",
}

const summaryHint = `use agent, as in {"kind": "history-summarized", "budget": 20000, "unit": "characters"}`

// quantizedFiles maps the quantization that other runtimes compute while they load a
// checkpoint to the type of an equivalent GGUF file.
var quantizedFiles = map[string]string{"4bit": "Q4_K_M", "int4": "Q4_K_M", "8bit": "Q8_0", "int8": "Q8_0", "fp8": "Q8_0"}

// refuseQuantization refuses a quantization that other runtimes compute, and names the
// file to use instead.
func refuseQuantization(s string) error {
	if typ, ok := quantizedFiles[strings.ToLower(strings.TrimSpace(s))]; ok {
		return fmt.Errorf("got %q, which other runtimes compute while they load a model; "+
			"name a %s GGUF file with model and use auto", s, typ)
	}
	return nil
}
