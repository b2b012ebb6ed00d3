package llama

// #include "native/api.h"
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Team is how many OpenMP threads SampleTogether uses: as many as compute the context's
// batches, and the same where ggml was built with OpenMP; 0 on a machine with a GPU.
func (c *Context) Team() int { return c.team }

// Sampled is what a sampler chose, or why it chose nothing.
type Sampled struct {
	Token Token
	Err   error
}

// team is what SampleTogether hands to C: made once, not for each step.
type team struct {
	samplers []*C.struct_agd_sampler
	rows     []*C.float
	tokens   []C.llama_token
	pinned   runtime.Pinner
}

// SampleTogether lets each sampler choose from its row, as Sample does, on the Team and
// into out, which is as long. These threads spin for a while behind each Decode, in which others would
// share the CPUs with them. Only the goroutine that calls Decode may call it, and each
// sampler is there once.
func (c *Context) SampleTogether(samplers []*Sampler, rows [][]float32, out []Sampled) {
	t := &c.sampling
	t.samplers, t.rows = t.samplers[:0], t.rows[:0]
	defer t.pinned.Unpin()
	for i, s := range samplers {
		s.mu.Lock()
		defer s.mu.Unlock()
		out[i] = Sampled{Token: -1}
		switch {
		case s.ptr == nil:
			out[i].Err = ErrClosed
		case len(rows[i]) != s.vocab:
			out[i].Err = fmt.Errorf("llama: sample: a row of %d logits, the vocabulary has %d tokens", len(rows[i]), s.vocab)
		default:
			t.pinned.Pin(&rows[i][0])
			t.samplers = append(t.samplers, s.ptr)
			t.rows = append(t.rows, (*C.float)(unsafe.Pointer(&rows[i][0])))
		}
	}
	n := len(t.samplers)
	if n == 0 {
		return
	}
	if n > len(t.tokens) {
		t.tokens = make([]C.llama_token, n)
	}
	C.agd_sample_together(C.int(max(1, c.team)), &t.samplers[0], &t.rows[0], C.int32_t(n), &t.tokens[0])
	at := 0
	for i, s := range samplers {
		if out[i].Err != nil {
			continue
		}
		if token := t.tokens[at]; token >= 0 {
			out[i].Token = Token(token)
		} else {
			out[i].Err = s.failure(C.int(token))
		}
		at++
	}
}
