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

// Child is a token that a sampler may choose, or could without its grammar and options. It has the layout of agd_child.
type Child struct {
	Token Token
	// Logprob is the natural logarithm of the probability: from Children, that with which Sample draws it.
	Logprob float32
}

var _ [unsafe.Sizeof(Child{})]byte = [C.sizeof_struct_agd_child]byte{}

// Children appends the tokens that Sample can draw from a row of logits to list, with their
// probabilities. It draws nothing and does not advance the grammar. Without top-k, top-p and
// min-p only the most probable tokens are listed, in no order, until all others together have at most a
// share of the probability; rest is theirs, at most. The sampler needs
// SamplerConfig.Score and a temperature. Errors are as for Sample.
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

// LogSum returns the natural logarithm of the sum of e^x over a row of logits: a logit minus this is
// the logarithm of its token's probability. It is -Inf if no logit is above that.
func LogSum(logits []float32) float64 {
	if len(logits) == 0 {
		return math.Inf(-1)
	}
	return float64(C.agd_log_sum((*C.float)(unsafe.Pointer(&logits[0])), C.int32_t(len(logits))))
}
