package llama

// #include "native/api.h"
import "C"

import "sync/atomic"

// Shared attention is this package's own attention on the CPU, for many sequences in
// one unified KV cache: see native/attention. It takes keys and values of all types of
// SetKVType, and computes with F32 ones as they are. ALiBi and capped logits are left to
// llama.cpp. The same device defers the computation of logits until they are read.
var sharedAttentionOff atomic.Bool

// SetSharedAttention switches shared attention and deferred logits on (the default) or
// off, for all contexts that the process makes from then on. Close other contexts first.
func SetSharedAttention(on bool) { sharedAttentionOff.Store(!on) }

// SetF32Attention makes shared attention compute in F32 for every model, or (the default) only
// for models whose products keep that precision: those with F32 and F16 weights. For others it
// rounds queries, keys, values and weights to BF16 where the processor has products of BF16.
func SetF32Attention(on bool) { C.agd_attention_f32(C.bool(on)) }

// SharedAttention reports whether a context made now has shared attention. It must be
// switched on, and the machine must have a CPU with AVX2 or AVX-512 and no GPU.
func SharedAttention() bool {
	install()
	return useSharedAttention()
}

// Patched reports whether llama.cpp was built with the project's patch, whose products of matrices
// are row-invariant on processors with AVX2.
func Patched() bool {
	install()
	return bool(C.agd_patched())
}

func useSharedAttention() bool { return bool(C.agd_attention(C.bool(!sharedAttentionOff.Load()))) }

// masksAsLists counts the masks that were read as lists, in all contexts.
func masksAsLists() uint64 { return uint64(C.agd_attention_lists()) }

// Assumptions about llama.cpp that a test can break, as native/assumptions.h numbers them.
const (
	maskLayout = 1 + iota
	outputName
	graphHook
	threadCall
	outputRead
	grammarElement
)

// breakAssumption makes one of them fail, or none (0).
func breakAssumption(kind int) { C.agd_break_assumption(C.int(kind)) }
