package llama

// #cgo noescape agd_sampler_children
// #include "native/api.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Child is a token that a sampler may choose.
type Child struct {
	Token Token
	// Logprob is the natural logarithm of the probability with which Sample draws it.
	Logprob float32
}

// Children appends the tokens that Sample can draw from a row of logits to list, with their
// probabilities. It draws nothing and does not advance the grammar. Tokens with 1e-5 of the
// probability, all together, may be missing. The sampler needs SamplerConfig.Score and a
// temperature. The errors are those of Sample.
func (s *Sampler) Children(logits []float32, list []Child) ([]Child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ptr == nil:
		return list, ErrClosed
	case !s.lists:
		return list, errors.New("llama: children: the sampler needs Score and a temperature")
	case len(logits) != s.vocab:
		return list, fmt.Errorf("llama: children: a row of %d logits, the vocabulary has %d tokens", len(logits), s.vocab)
	}
	var first *C.struct_agd_child
	n := C.agd_sampler_children(s.ptr, (*C.float)(unsafe.Pointer(&logits[0])), &first)
	if n < 0 {
		return list, s.failure(n)
	}
	for _, c := range unsafe.Slice(first, int(n)) {
		list = append(list, Child{Token: Token(c.token), Logprob: float32(c.logprob)})
	}
	return list, nil
}
