package llama

// #cgo noescape agd_sampler_children
// #cgo noescape agd_log_sum
// #include "native/api.h"
import "C"

import (
	"errors"
	"math"
	"unsafe"
)

// Child is a token with its probability. It has the layout of agd_child.
type Child struct {
	Token Token
	// Logprob is the natural logarithm of the probability; from Children, of that with which Sample draws the token.
	Logprob float32
}

var _ [unsafe.Sizeof(Child{})]byte = [C.sizeof_struct_agd_child]byte{}

// Children appends to list the tokens that Sample can draw from a row of logits, in no order, with their
// probabilities. It does not advance the grammar. Without top-k, top-p and min-p it omits improbable
// tokens, which together have at most a probability of share; rest is an upper bound of their
// probability. The sampler needs SamplerConfig.Score and a temperature. Errors are Sample's.
func (s *Sampler) Children(logits []float32, share float64, list []Child) (_ []Child, rest float64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(logits); err != nil {
		return list, 0, err
	}
	if !s.lists {
		return list, 0, errors.New("llama: children: the sampler needs Score and a temperature")
	}
	var first *C.struct_agd_child
	n := C.agd_sampler_children(s.ptr, (*C.float)(unsafe.Pointer(&logits[0])), C.double(share), &first, (*C.double)(&rest))
	if n < 0 {
		return list, 0, s.failure(n)
	}
	return append(list, unsafe.Slice((*Child)(unsafe.Pointer(first)), int(n))...), rest, nil
}

// LogSum returns the natural logarithm of the sum of e^x over a row of logits. A logit minus LogSum is the
// logarithm of the token's probability. It is -Inf if all logits are.
func LogSum(logits []float32) float64 {
	if len(logits) == 0 {
		return math.Inf(-1)
	}
	return float64(C.agd_log_sum((*C.float)(unsafe.Pointer(&logits[0])), C.int32_t(len(logits))))
}
