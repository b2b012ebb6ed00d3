package llama

// #include "native/api.h"
import "C"

import "fmt"

// State is a copy of the cells of consecutive positions in host memory. It stays valid after its context is closed, and
// can be loaded any number of times into contexts of the same model and KV type.
type State struct {
	ptr      *C.struct_agd_state
	from, to Pos
}

// Free releases the memory.
func (s *State) Free() {
	if s.ptr != nil {
		C.agd_state_free(s.ptr)
		s.ptr = nil
	}
}

// CanSave reports whether Save and Load work. They don't for recurrent and hybrid
// models, whose state is not in cells, nor for sliding-window models, since cells before
// the window are not saved.
func (m *Memory) CanSave() bool { return !m.c.wholeOnly() && m.c.model.info.SlidingWindow == 0 }

// Save copies the cells of seq in [p0, p1) to host memory. scratch must be an empty sequence, and is empty afterwards.
func (m *Memory) Save(seq, scratch SeqID, p0, p1 Pos) (*State, error) {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkScratch(seq, scratch); err != nil {
		return nil, err
	}
	if first, last := c.posMin(seq), c.posMax(seq); p0 < first || p0 >= p1 || p1 > last+1 {
		return nil, fmt.Errorf("%w: [%d, %d) of sequence %d, which has [%d, %d)", ErrSequence, p0, p1, seq, first, last+1)
	}
	ptr := C.agd_seq_save(c.ptr, C.int32_t(seq), C.int32_t(scratch), C.int32_t(p0), C.int32_t(p1))
	if ptr == nil {
		return nil, c.done(-1, seq)
	}
	return &State{ptr: ptr, from: p0, to: p1}, nil
}

// Load appends the positions [p0, p1) of the state to seq, which must end at p0. It briefly needs free cells for the
// whole state, otherwise it returns ErrNoKVSlot. scratch must be an empty sequence, and is empty afterwards.
func (m *Memory) Load(s *State, seq, scratch SeqID, p0, p1 Pos) error {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkScratch(seq, scratch); err != nil {
		return err
	}
	switch end := c.posMax(seq) + 1; {
	case s.ptr == nil:
		return fmt.Errorf("%w: the state was freed", ErrClosed)
	case p0 < s.from || p0 >= p1 || p1 > s.to:
		return fmt.Errorf("%w: [%d, %d) of a state that has [%d, %d)", ErrSequence, p0, p1, s.from, s.to)
	case p0 != end:
		return fmt.Errorf("%w: sequence %d ends at %d, not at %d", ErrSequence, seq, end, p0)
	}
	rc := C.agd_seq_load(c.ptr, s.ptr, C.int32_t(scratch), C.int32_t(seq), C.int32_t(p0), C.int32_t(p1))
	if rc == 1 {
		return fmt.Errorf("%w: to load a state of %d tokens, or it is another model's", ErrNoKVSlot, s.to-s.from)
	}
	return c.done(rc, seq)
}

func (c *Context) checkScratch(seq, scratch SeqID) error {
	if err := c.checkSeq(seq, scratch); err != nil {
		return err
	}
	if !c.memory.CanSave() {
		return fmt.Errorf("%w: this model's memory can't be saved in parts", ErrPartial)
	}
	if seq == scratch || c.posMax(scratch) >= 0 {
		return fmt.Errorf("%w: sequence %d is not empty", ErrSequence, scratch)
	}
	return nil
}
