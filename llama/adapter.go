package llama

// #include "native/api.h"
import "C"

import (
	"fmt"
	"sync/atomic"
)

// Adapter is a LoRA adapter of a model. Each context of the model can apply it to its batches. The format is
// llama.cpp's: a GGUF file with general.type "adapter", adapter.type "lora", adapter.lora.alpha, and for a matrix NAME
// of the model the tensors NAME.lora_a and NAME.lora_b. The matrix becomes NAME + alpha/rank * lora_b * lora_a.
type Adapter struct {
	model *Model
	path  string
	ptr   *C.struct_llama_adapter_lora // nil: freed
	bytes uint64
	users atomic.Int64 // number of contexts that apply it
}

// NewAdapter loads the adapter at path. Any goroutine may call it while contexts decode. It waits
// while a context is created, or decodes for the first time with another adapter. The error is
// ErrAdapter if the file is not a plain LoRA of this model.
func (m *Model) NewAdapter(path string) (*Adapter, error) {
	if err := checkFile(path, "adapter"); err != nil {
		return nil, err
	}
	ptr, err := m.acquire()
	if err != nil {
		return nil, err
	}
	a := &Adapter{model: m, path: path}
	var cerr *C.char
	m.reserving.Lock()
	cstring(path, func(p *C.char) { a.ptr = C.agd_adapter_load(ptr, p, &cerr) })
	m.reserving.Unlock()
	if a.ptr == nil {
		m.release()
		return nil, native(ErrAdapter, takeString(cerr))
	}
	a.bytes = uint64(C.agd_adapter_bytes(a.ptr))
	return a, nil
}

// Bytes returns the bytes of the adapter in memory, on all devices together.
func (a *Adapter) Bytes() uint64 { return a.bytes }

// Free releases the adapter. While a context applies it, Free does nothing and returns ErrInUse.
// One goroutine may call it.
func (a *Adapter) Free() error {
	switch n := a.users.Load(); {
	case a.ptr == nil:
		return ErrClosed
	case n > 0:
		return fmt.Errorf("%w: %d contexts apply the adapter", ErrInUse, n)
	}
	a.model.reserving.Lock()
	if !gpuFailed() { // see ErrLost
		C.agd_adapter_free(a.ptr)
	}
	a.model.reserving.Unlock()
	a.ptr = nil
	a.model.release()
	return nil
}

// SetAdapter applies an adapter to the batches from the next Decode on; nil removes it. Cells in the
// memory are not computed again. Only the goroutine that calls Decode may call it.
func (c *Context) SetAdapter(a *Adapter) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return err
	}
	var ptr *C.struct_llama_adapter_lora
	if a != nil {
		if a.model != c.model {
			return fmt.Errorf("llama: the adapter %s was loaded for another model", a.path)
		}
		if ptr = a.ptr; ptr == nil {
			return ErrClosed
		}
		a.users.Add(1)
	}
	if c.adapter != nil {
		c.adapter.users.Add(-1)
	}
	c.adapter, c.reserves = a, true
	if !C.agd_context_adapter(c.ptr, ptr) {
		if err := c.usable(); err != nil {
			return err
		}
		return native(ErrCompute, "the adapter could not be applied: "+C.GoString(C.agd_context_detail(c.ptr)))
	}
	return nil
}
