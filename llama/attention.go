package llama

// #include "native/api.h"
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Shared attention is this package's own computation of attention on the CPU,
// for many sequences in one unified KV cache: a row is computed over the cells that
// it sees and no others, and what several rows see, candidates of one prompt
// above all, is read once for all of them. llama.cpp's own goes through all cells
// for each row. Results are those of exact attention, with sums in F32 where
// llama.cpp's CPU code has F16.
//
// It takes keys and values of all types that SetKVType has, of which llama.cpp casts
// F32 to F16 before; ALiBi and capped logits are left to llama.cpp. See
// attention_backend.cpp. The same device puts off the computation of logits until
// they are read, see logits_product.h.
var sharedAttentionOff atomic.Bool

// SetSharedAttention switches shared attention, and that logits are computed where
// they are read, on (the default) or off for the
// contexts that are made from then on, in the whole process. Contexts in use
// must be closed before.
func SetSharedAttention(on bool) { sharedAttentionOff.Store(!on) }

// SharedAttention says whether a context made now has it: it must be switched
// on, and the machine must have a CPU with AVX2 or AVX-512 and no GPU.
func SharedAttention() bool {
	install()
	return useSharedAttention()
}

func useSharedAttention() bool { return bool(C.agd_attention(C.bool(!sharedAttentionOff.Load()))) }

// masksAsBits counts the masks that were read as bits, in all contexts.
func masksAsBits() uint64 { return uint64(C.agd_attention_bits()) }

// attention is one computation of it, to be tested by itself.
type attention struct {
	q                                           []float32 // rows x heads x dk
	k, v                                        []byte    // cells x kvHeads x dk or dv
	kvType                                      string    // as SetKVType has them
	mask                                        []uint16  // rows x cells, F16: 0 is seen, -Inf is not
	sinks                                       []float32 // heads, or nil
	rows, cells, heads, kvHeads, dk, dv, groups int
	scale                                       float32
	bits                                        bool // the kernels get the mask as bits
}

// compute returns rows x heads x dv values, or nil if this CPU can run no more
// than version kernels.
func (a *attention) compute(version int) []float32 {
	out := make([]float32, a.rows*a.heads*a.dv)
	c := C.struct_agd_attention{
		q: (*C.float)(&a.q[0]), k: unsafe.Pointer(&a.k[0]), v: unsafe.Pointer(&a.v[0]), mask: (*C.uint16_t)(&a.mask[0]), out: (*C.float)(&out[0]),
		rows: C.int(a.rows), cells: C.int(a.cells), heads: C.int(a.heads), kv_heads: C.int(a.kvHeads),
		dk: C.int(a.dk), dv: C.int(a.dv), groups: C.int(a.groups),
		_type: C.int32_t(kvTypes[a.kvType]), scale: C.float(a.scale), bits: C.bool(a.bits),
	}
	var pinned runtime.Pinner
	defer pinned.Unpin()
	for _, p := range []any{&a.q[0], &a.k[0], &a.v[0], &a.mask[0], &out[0]} {
		pinned.Pin(p)
	}
	if a.sinks != nil {
		pinned.Pin(&a.sinks[0])
		c.sinks = (*C.float)(&a.sinks[0])
	}
	if !C.agd_attention_once(&c, C.int(version)) {
		return nil
	}
	return out
}
