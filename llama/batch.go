package llama

// #include "native/api.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// SeqID names a sequence of a context's memory, from 0 to MaxSequences()-1.
type SeqID int32

// Pos is the position of a token in its sequence, from 0.
type Pos int32

// Batch holds the tokens of one Decode in C memory. It belongs to one goroutine.
type Batch struct {
	c       C.struct_llama_batch // n_tokens is set by Decode
	tokens  []Token
	pos     []Pos
	seqs    []*SeqID // each points to the one sequence id of a token
	output  []int8
	rows    []int32 // row in the logits of each token, -1: none
	n       int
	outputs int
}

// NewBatch makes a batch for up to capacity tokens. It panics if capacity is not
// between 1 and MaxBatch.
func NewBatch(capacity int) *Batch {
	if capacity < 1 || capacity > MaxBatch {
		panic(fmt.Sprintf("llama: NewBatch(%d): capacity is from 1 to %d", capacity, MaxBatch))
	}
	b := &Batch{c: C.llama_batch_init(C.int32_t(capacity), 0, 1)}
	b.tokens = unsafe.Slice((*Token)(unsafe.Pointer(b.c.token)), capacity)
	b.pos = unsafe.Slice((*Pos)(unsafe.Pointer(b.c.pos)), capacity)
	b.seqs = unsafe.Slice((**SeqID)(unsafe.Pointer(b.c.seq_id)), capacity)
	b.output = unsafe.Slice((*int8)(unsafe.Pointer(b.c.logits)), capacity)
	b.rows = make([]int32, capacity)
	counts := unsafe.Slice((*int32)(unsafe.Pointer(b.c.n_seq_id)), capacity)
	for i := range counts {
		counts[i] = 1
	}
	return b
}

// Reset empties the batch.
func (b *Batch) Reset() { b.n, b.outputs = 0, 0 }

// Len is the number of tokens in the batch.
func (b *Batch) Len() int { return b.n }

// Add appends token t at position p of sequence s. With output set, Logits returns
// the row after this token. Tokens of a sequence must have consecutive positions
// that continue the sequence in the KV cache; Decode checks that.
func (b *Batch) Add(t Token, p Pos, s SeqID, output bool) error {
	switch {
	case b.tokens == nil:
		return ErrClosed
	case b.n == len(b.tokens):
		return fmt.Errorf("%w: more than its %d tokens", ErrInvalidBatch, len(b.tokens))
	case t < 0:
		return fmt.Errorf("%w: token %d", ErrInvalidBatch, t)
	case p < 0:
		return fmt.Errorf("%w: position %d", ErrInvalidBatch, p)
	case s < 0 || s >= MaxSequences:
		return fmt.Errorf("%w: sequence %d is not from 0 to %d", ErrInvalidBatch, s, MaxSequences-1)
	}
	b.tokens[b.n] = t
	b.pos[b.n] = p
	*b.seqs[b.n] = s
	b.output[b.n], b.rows[b.n] = 0, -1
	if output {
		b.output[b.n], b.rows[b.n] = 1, int32(b.outputs)
		b.outputs++
	}
	b.n++
	return nil
}

// Free releases the batch; a second call does nothing.
func (b *Batch) Free() {
	if b.tokens == nil {
		return
	}
	b.c.n_tokens = 0
	C.llama_batch_free(b.c)
	*b = Batch{}
}
