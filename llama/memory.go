package llama

// #include "native/api.h"
import "C"

import "fmt"

// Memory is a context's KV cache (or recurrent state). Ranges of positions are
// [p0, p1); a negative p0 means the beginning, a negative p1 the end.
type Memory struct{ c *Context }

// Copy makes dst share the cells of src in [p0, p1), without new cells. dst must end at p0, so it must be empty if p0
// is the beginning. Recurrent and hybrid models can copy whole sequences only, and return ErrPartial otherwise.
func (m *Memory) Copy(src, dst SeqID, p0, p1 Pos) error {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkSeq(src, dst); err != nil {
		return err
	}
	if src == dst {
		return fmt.Errorf("%w: copy of sequence %d to itself", ErrSequence, src)
	}
	if end := c.posMax(dst); end >= 0 && end != p0-1 {
		return fmt.Errorf("%w: copy from position %d on to sequence %d, which has tokens up to position %d", ErrSequence, max(0, p0), dst, end)
	}
	if end := c.posMax(src); c.wholeOnly() && (p0 > 0 || p1 >= 0 && p1 <= end) {
		return fmt.Errorf("%w: copy of [%d, %d) of sequence %d, which ends at %d", ErrPartial, p0, p1, src, end)
	}
	if c.wholeOnly() {
		p0, p1 = -1, -1 // some of these memories abort on an explicit end
	}
	return c.done(C.agd_seq_cp(c.ptr, C.int32_t(src), C.int32_t(dst), C.int32_t(p0), C.int32_t(p1)), src)
}

// Remove removes [p0, p1) of seq. Recurrent and hybrid models can remove whole sequences
// only, and return ErrPartial otherwise.
func (m *Memory) Remove(seq SeqID, p0, p1 Pos) error {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkSeq(seq); err != nil {
		return err
	}
	return c.done(C.agd_seq_rm(c.ptr, C.int32_t(seq), C.int32_t(p0), C.int32_t(p1)), seq)
}

// Clear removes all sequences. With zero it also overwrites the cells, which takes longer. Later
// sequences get the same cells as in a new context.
func (m *Memory) Clear(zero bool) error {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return err
	}
	return c.done(C.agd_memory_clear(c.ptr, C.bool(zero)), -1)
}

// Range returns the first and the last position of seq in the memory. Both are -1 if seq is empty or
// invalid, or the context is closed. first may be above 0 with a sliding window.
func (m *Memory) Range(seq SeqID) (first, last Pos) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.c.checkSeq(seq) != nil {
		return -1, -1
	}
	return m.c.posMin(seq), m.c.posMax(seq)
}

// CanRemovePartial reports whether Remove and Copy support parts of a sequence. If not, only
// a whole sequence can be reused as a prefix.
func (m *Memory) CanRemovePartial() bool { return !m.c.wholeOnly() }

// wholeOnly reports whether the memory has a recurrent state, of which no part can be taken.
func (c *Context) wholeOnly() bool { return c.model.info.Recurrent || c.model.info.Hybrid }

func (c *Context) checkSeq(seqs ...SeqID) error {
	if err := c.usable(); err != nil {
		return err
	}
	for _, s := range seqs {
		if s < 0 || int(s) >= c.seqs {
			return fmt.Errorf("%w: sequence %d is not from 0 to %d", ErrSequence, s, c.seqs-1)
		}
	}
	return nil
}

func (c *Context) posMin(s SeqID) Pos {
	return Pos(C.llama_memory_seq_pos_min(C.llama_get_memory(C.agd_context_raw(c.ptr)), C.llama_seq_id(s)))
}

func (c *Context) posMax(s SeqID) Pos {
	return Pos(C.llama_memory_seq_pos_max(C.llama_get_memory(C.agd_context_raw(c.ptr)), C.llama_seq_id(s)))
}

func (c *Context) done(rc C.int, s SeqID) error {
	switch rc {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%w: sequence %d", ErrPartial, s)
	default:
		if err := c.usable(); err != nil {
			return err
		}
		return fmt.Errorf("%w: memory operation on sequence %d threw", ErrCompute, s)
	}
}
