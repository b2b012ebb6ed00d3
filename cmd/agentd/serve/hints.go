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
	"attn_implementation":    "flash attention is used wherever the --device supports it; remove it",
	"use_cache":              "the KV cache is always on; remove it, and size it with --context-length",
	"offload_folder":         "weights are memory-mapped from the file; remove it, and use --gpu-layers to keep layers on the CPU",
	"offload_state_dict":     "weights are memory-mapped from the file; remove it",
	"low_cpu_mem_usage":      "weights are memory-mapped from the file; remove it",
	"device_map":             "use --device, such as CUDA0=3,CUDA1=1, and --gpu-layers",
	"gpu_memory_limit":       "use --gpu-layers and --context-length, which decide the GPU memory used",
	"cpu_memory_limit":       "use --gpu-layers and --context-length, which decide the memory used",
	"max_memory":             "use --device, --gpu-layers and --context-length, which decide the memory used",
	"gpu_memory_utilization": "use --gpu-layers and --context-length, which decide the GPU memory used",
	"allow_cpu_offload":      "use --gpu-layers: layers beyond it run on the CPU",
	"cpu_offload":            "use --gpu-layers: layers beyond it run on the CPU",
	"torch_dtype":            "use --dtype for the KV cache; the weights' type is the model file's",
	"load_in_4bit":           "name a Q4_K_M GGUF file with --model, and leave --quantization at auto",
	"load_in_8bit":           "name a Q8_0 GGUF file with --model, and leave --quantization at auto",
	"trust_remote_code":      "a GGUF file holds no code; remove it",
	"tokenizer":              "the tokenizer is part of the GGUF file; remove it",
	"revision":               "name the file itself with --model",
	"max_model_len":          "use --context-length",
	"n_ctx":                  "use --context-length",
	"ctx_size":               "use --context-length",
	"n_gpu_layers":           "use --gpu-layers",
	"tensor_parallel_size":   "use --device and --split-mode tensor",
	"max_tokens":             "use --max-new-tokens",
	"max_length":             "use --max-new-tokens",
	"max_context_tokens":     summaryHint,
	"max_context_characters": summaryHint,
	"max_num_seqs":           "use --parallel",
	"do_sample":              "each request chooses with extra_keys.inference_mode; remove it",
	"torch_compile":          "there is nothing to compile; remove it",
	".gguf":                  "put the model before the options, or use --model",
	"gguf_file":              "use --model",
	"model_path":             "use --model",
	"hf_repo":                "use --hf",
	"hf_file":                "use --hf with OWNER/REPO:FILE",
	"log_dir":                "use --prompt-log-dir",
	"summary":                summaryHint,
	"coaching_limits":        "use --coaching, as in workers=4,queue=64",
	"coach_human_when":       "use --coach-human, as in http://127.0.0.1:8890,when=failed",

	// What people type for other servers.
	"api_key":                 "use --auth-token-file: a file with one token a line, which no process list shows",
	"served_model_name":       "use --model-alias",
	"alias":                   "use --model-alias",
	"temp":                    "use --temperature",
	"c":                       "use --context-length",
	"num_ctx":                 "use --context-length",
	"ngl":                     "use --gpu-layers",
	"np":                      "use --parallel",
	"t":                       "use --threads",
	"n":                       "use --max-new-tokens",
	"n_predict":               "use --max-new-tokens",
	"num_predict":             "use --max-new-tokens",
	"v":                       "use --log-level debug",
	"verbose":                 "use --log-level debug",
	"log_file":                "the log goes to stderr: 2>FILE",
	"lora_modules":            "use --lora",
	"kv_cache_dtype":          "use --dtype",
	"cache_type_k":            "use --dtype",
	"cache_type_v":            "use --dtype",
	"flash_attn":              "flash attention is used wherever the device supports it; remove it",
	"fa":                      "flash attention is used wherever the device supports it; remove it",
	"enable_prefix_caching":   "the prefix cache is always on; remove it",
	"chat_template_file":      "use --chat-template",
	"jinja":                   "templates are always rendered; remove it",
	"data_parallel_size":      "use --device with --contexts",
	"max_num_batched_tokens":  "a step's size is chosen by itself; remove it",
	"ubatch_size":             "a step's size is chosen by itself; remove it",
	"ssl_certfile":            "use --tls-cert",
	"ssl_cert_file":           "use --tls-cert",
	"ssl_keyfile":             "use --tls-key",
	"ssl_key_file":            "use --tls-key",
	"metrics":                 "metrics are always at /metrics; remove it",
	"timeout":                 "use --request-timeout",
	"tool_call_parser":        "calls are read in the model's own form; remove it, or choose the form with --model-format",
	"enable_auto_tool_choice": "calls are always read; remove it",
	"reasoning_parser":        "thoughts are never a part of a decision; remove it",
	"system_prompt":           "rules go into memory.memory_list of each input, and the prompt into --chat-template; docs/faq.md has both",
}

// commandHints are commands of other programs.
var commandHints = map[string]string{
	"run":    "agentd MODEL.gguf and agentd --hf OWNER/REPO serve a model; http://127.0.0.1:8888/ is a page to try it",
	"chat":   "agentd serves programs; http://127.0.0.1:8888/ is a page to try it",
	"start":  "agentd alone starts the server",
	"list":   modelsHint,
	"ls":     modelsHint,
	"ps":     modelsHint,
	"show":   modelsHint,
	"rm":     "models are files, files of a hub in its cache; delete the file",
	"stop":   "send SIGTERM to the server: it finishes what runs, and ends",
	"create": "agentd convert makes a GGUF file, and --chat-template sets the prompt",
}

const modelsHint = "models are files: --model names one, and GET /v1/models lists what a server has"

// CommandHint is the end of an error about an unknown command.
func CommandHint(command string) string {
	if hint, ok := commandHints[command]; ok {
		return ": " + hint
	}
	return HubHint(command)
}

const summaryHint = "use --agent, as in history-summarized,budget=20000,unit=characters"

// quantizedFiles maps the quantization that other runtimes compute while they load a
// checkpoint to the type of an equivalent GGUF file.
var quantizedFiles = map[string]string{"4bit": "Q4_K_M", "int4": "Q4_K_M", "8bit": "Q8_0", "int8": "Q8_0", "fp8": "Q8_0"}

// refuseQuantization refuses a quantization that other runtimes compute, and names the
// file to use instead.
func refuseQuantization(s string) error {
	if typ, ok := quantizedFiles[strings.ToLower(strings.TrimSpace(s))]; ok {
		return fmt.Errorf("got %q, which other runtimes compute while they load a model; "+
			"name a %s GGUF file with --model and use auto", s, typ)
	}
	return nil
}
