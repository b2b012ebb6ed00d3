package llama

// #include "native/api.h"
import "C"

import "sync/atomic"

// Shared attention is our own attention on the CPU, for many sequences in one unified KV cache, see native/attention.
// It supports all types of SetKVType, and does not round F32. llama.cpp computes attention with ALiBi or capped logits.
// The same backend defers the computation of logits until they are read.
var sharedAttentionOff atomic.Bool

// SetSharedAttention switches shared attention and deferred logits on (the default) or
// off, for all contexts created afterwards. No context may be open.
func SetSharedAttention(on bool) { sharedAttentionOff.Store(!on) }

// SetF32Attention makes shared attention compute in F32 for every model, or (the default) only for
// models with F32 or F16 weights, whose matrix products have that precision. For others it rounds
// queries, keys, values and weights to BF16 if the processor has products of BF16.
func SetF32Attention(on bool) { C.agd_attention_f32(C.bool(on)) }

// SharedAttention reports whether a new context would have shared attention. It must be
// switched on, and the machine must have a CPU with AVX2 or AVX-512 and no GPU.
func SharedAttention() bool {
	install()
	return useSharedAttention()
}

// Patched reports whether llama.cpp was built with the project's patch, whose matrix products are
// batch-invariant on processors with AVX2.
func Patched() bool {
	install()
	return bool(C.agd_patched())
}

func useSharedAttention() bool { return bool(C.agd_attention(C.bool(!sharedAttentionOff.Load()))) }

// masksAsLists returns the number of attention masks that were read as lists of cells, in all contexts.
func masksAsLists() uint64 { return uint64(C.agd_attention_lists()) }

// Assumptions about llama.cpp that a test can break, with the numbers of native/assumptions.h.
const (
	maskLayout = 1 + iota
	outputName
	graphHook
	threadCall
	outputRead
	grammarElement
)

// breakAssumption makes one assumption fail, or with 0 none.
func breakAssumption(kind int) { C.agd_break_assumption(C.int(kind)) }
