package llama

// #include "native/api.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// SamplerThreads returns the number of OpenMP threads of SampleBatch, which also compute the
// context's batches. It is 0 on a machine with a GPU.
func (c *Context) SamplerThreads() int { return c.threads }

// Sampled is the token that a sampler chose, or its error.
type Sampled struct {
	Token Token
	Err   error
}

// batchSampling has the C arguments of SampleBatch, reused so that a step allocates nothing.
type batchSampling struct {
	samplers []*C.struct_agd_sampler
	rows     []*C.float
	tokens   []C.llama_token
	pinned   runtime.Pinner
}

// SampleBatch calls Sample for each sampler with its row, on SamplerThreads threads, and writes the results to out. The
// three slices have the same length, and samplers are different. Goroutines would compete for the CPUs with OpenMP's
// threads, which spin for a while after each Decode. Only the goroutine that calls Decode may call SampleBatch.
func (c *Context) SampleBatch(samplers []*Sampler, rows [][]float32, out []Sampled) {
	t := &c.sampling
	t.samplers, t.rows = t.samplers[:0], t.rows[:0]
	defer t.pinned.Unpin()
	for i, s := range samplers {
		s.mu.Lock()
		defer s.mu.Unlock()
		out[i] = Sampled{Token: -1, Err: s.check(rows[i])}
		if out[i].Err == nil {
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
	C.agd_sample_batch(C.int(max(1, c.threads)), &t.samplers[0], &t.rows[0], C.int32_t(n), &t.tokens[0])
	at := 0
	for i, s := range samplers {
		if out[i].Err != nil {
			continue
		}
		if token := t.tokens[at]; token >= 0 {
			out[i].Token = Token(token)
		} else {
			out[i].Err = s.failure(C.int(token)) //nolint:unconvert // cgo gives llama_token its own type
		}
		at++
	}
}
