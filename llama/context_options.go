package llama

// #include "native/api.h"
import "C"

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ContextOption configures Model.NewContext.
type ContextOption func(*contextOptions)

type contextOptions struct {
	size, batch, microBatch int
	sequences, outputs      int
	threads, threadsBatch   int
	kvType                  string
	flash                   *bool
	failAt, failWith        int
}

// SetContext sets the number of cells, the limit of tokens of all sequences together.
func SetContext(n int) ContextOption { return func(o *contextOptions) { o.size = n } }

// SetBatch sets the limit of tokens in one Decode.
func SetBatch(n int) ContextOption { return func(o *contextOptions) { o.batch = n } }

// SetMicroBatch sets how many tokens are computed at once: Decode splits a larger
// batch. The compute buffers grow with it.
func SetMicroBatch(n int) ContextOption { return func(o *contextOptions) { o.microBatch = n } }

// SetMaxSequences sets the number of sequence ids, up to MaxSequences.
func SetMaxSequences(n int) ContextOption { return func(o *contextOptions) { o.sequences = n } }

// SetMaxOutputs sets how many rows of a batch may have Output set. Each needs memory for the
// logits of the vocabulary. The default is the number of sequences.
func SetMaxOutputs(n int) ContextOption { return func(o *contextOptions) { o.outputs = n } }

// SetThreads sets the number of threads for a single token (n) and for larger batches (batch). More
// threads than free cores make both many times slower.
func SetThreads(n, batch int) ContextOption {
	return func(o *contextOptions) { o.threads, o.threadsBatch = n, batch }
}

// SetKVType sets the type of the cached keys and values: f32, f16 (the
// default), bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl. Quantized types need
// flash attention. llama.cpp's own flash attention rounds f32 to f16 when it reads it;
// shared attention and attention without flash do not.
func SetKVType(name string) ContextOption { return func(o *contextOptions) { o.kvType = name } }

// SetFlashAttention switches flash attention on or off. By default llama.cpp uses it
// if the device supports it. Off also disables shared attention.
func SetFlashAttention(on bool) ContextOption { return func(o *contextOptions) { o.flash = &on } }

var kvTypes = map[string]C.enum_ggml_type{
	"f32": C.GGML_TYPE_F32, "f16": C.GGML_TYPE_F16, "bf16": C.GGML_TYPE_BF16, "q8_0": C.GGML_TYPE_Q8_0,
	"q5_1": C.GGML_TYPE_Q5_1, "q5_0": C.GGML_TYPE_Q5_0, "q4_1": C.GGML_TYPE_Q4_1, "q4_0": C.GGML_TYPE_Q4_0,
	"iq4_nl": C.GGML_TYPE_IQ4_NL,
}

// KVTypes returns the names that SetKVType accepts.
func KVTypes() []string { return slices.Sorted(maps.Keys(kvTypes)) }

func (o *contextOptions) validate() error {
	o.outputs, o.threadsBatch = cmp.Or(o.outputs, o.sequences), cmp.Or(o.threadsBatch, o.threads)
	// llama.cpp never computes more at once than a batch has
	o.microBatch = min(o.microBatch, o.batch)
	for _, r := range []struct {
		name         string
		value, limit int
	}{
		{"size", o.size, MaxContext},
		{"batch", o.batch, MaxBatch},
		{"micro-batch", o.microBatch, MaxBatch},
		{"sequences", o.sequences, MaxSequences},
		{"outputs", o.outputs, MaxBatch},
		{"threads", o.threads, MaxThreads},
		{"batch threads", o.threadsBatch, MaxThreads},
	} {
		if r.value < 1 || r.value > r.limit {
			return fmt.Errorf("llama: context: %s %d is not from 1 to %d", r.name, r.value, r.limit)
		}
	}
	if _, ok := kvTypes[o.kvType]; !ok {
		return fmt.Errorf("llama: context: KV type %q is not one of %s", o.kvType, strings.Join(KVTypes(), ", "))
	}
	if o.flash != nil && !*o.flash && bool(C.ggml_is_quantized(kvTypes[o.kvType])) {
		return fmt.Errorf("llama: context: KV type %s needs flash attention", o.kvType)
	}
	return nil
}

func (o *contextOptions) params() C.struct_llama_context_params {
	p := C.llama_context_default_params()
	p.n_ctx, p.n_batch, p.n_ubatch = C.uint32_t(o.size), C.uint32_t(o.batch), C.uint32_t(o.microBatch)
	p.n_seq_max = C.uint32_t(o.sequences)
	p.n_outputs_max = C.uint32_t(max(o.outputs, o.sequences)) // llama.cpp reserves a row for each sequence
	p.n_threads, p.n_threads_batch = C.int32_t(o.threads), C.int32_t(o.threadsBatch)
	p.type_k, p.type_v = kvTypes[o.kvType], kvTypes[o.kvType]
	p.no_perf = true
	p.swa_full = true   // forks and reuse of prefixes need every cell
	p.kv_unified = true // forks are metadata only
	switch {
	case o.flash != nil && !*o.flash:
		p.flash_attn_type = C.LLAMA_FLASH_ATTN_TYPE_DISABLED
	case o.flash != nil || useSharedAttention(): // AUTO would disable it, since another device than the layer's computes it
		p.flash_attn_type = C.LLAMA_FLASH_ATTN_TYPE_ENABLED
	default:
		p.flash_attn_type = C.LLAMA_FLASH_ATTN_TYPE_AUTO
	}
	return p
}
