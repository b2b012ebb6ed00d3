package main

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// foreign maps settings of other model runtimes to what agentd has instead.
// Taking such a key silently would leave its owner believing that it works.
//
//nolint:gosec // "tokenizer" is no credential
var foreign = map[string]string{
	"attn_implementation":    "flash attention is used wherever the device supports it; remove the key",
	"use_cache":              "the KV cache is always on; remove the key, and size it with context_length",
	"offload_folder":         "weights are memory-mapped from the file; remove the key, and use gpu_layers to keep layers on the CPU",
	"offload_state_dict":     "weights are memory-mapped from the file; remove the key",
	"low_cpu_mem_usage":      "weights are memory-mapped from the file; remove the key",
	"device_map":             "use device, gpu_layers and tensor_split",
	"gpu_memory_limit":       "use gpu_layers and context_length, which decide the GPU memory used",
	"cpu_memory_limit":       "use gpu_layers and context_length, which decide the memory used",
	"max_memory":             "use gpu_layers, tensor_split and context_length, which decide the memory used",
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
	"tensor_parallel_size":   "use device and tensor_split",
	"max_tokens":             "use max_new_tokens",
	"max_length":             "use max_new_tokens",
	"max_context_tokens":     "use summary_budget",
	"max_context_characters": "use summary_budget, and summary_unit characters",
	"max_num_seqs":           "use parallel",
	"do_sample":              "each request chooses with extra_keys.inference_mode; remove the key",
	"torch_compile":          "there is nothing to compile; remove the key",
	"gguf_file":              "use model",
	"model_path":             "use model",
	"log_dir":                "use prompt_log_dir",
}

// foreignQuantization maps what other runtimes make of a checkpoint while they load
// it to the type of a GGUF file that stands for it.
var foreignQuantization = map[string]string{"4bit": "Q4_K_M", "int4": "Q4_K_M", "8bit": "Q8_0", "int8": "Q8_0", "fp8": "Q8_0"}

// quantization is a choice whose error names the file to use in place of what
// another runtime would make.
type quantization struct{ choice }

func (q quantization) set(s string) error {
	if typ, ok := foreignQuantization[strings.ToLower(strings.TrimSpace(s))]; ok {
		return fmt.Errorf("got %q, which other runtimes do while they load a model; "+
			"name a %s GGUF file with model, which is quantized already, and use auto", s, typ)
	}
	return q.choice.set(s)
}

func (q quantization) setJSON(v jsontext.Value) error {
	s, err := jsonString(v)
	if err == nil {
		err = q.set(s)
	}
	return err
}

// advice says what to do about an unknown setting: the equivalent of a known
// foreign one, else the closest of our own names, else where they are listed.
func advice(name string, known []string) string {
	key := strings.ReplaceAll(name, "-", "_")
	if a, ok := foreign[key]; ok {
		return "belongs to another runtime: " + a
	}
	best, distance := "", 3 // farther than two edits is no typing error
	for _, k := range known {
		if d := editDistance(key, strings.ReplaceAll(k, "-", "_")); d < distance {
			best, distance = k, d
		}
	}
	if best != "" {
		return "is unknown; did you mean " + best + "?"
	}
	return "is unknown; agentd --help lists the options"
}

// editDistance is the Levenshtein distance of two short names.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// nullable are the options whose keys may be null in a file of the protocol's
// first implementation; null means that they are not set.
var nullable = map[string]bool{"prompt-log-dir": true, "chat-template": true, "history-max-messages": true}
