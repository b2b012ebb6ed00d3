package llama

// #include "shim.h"
import "C"

import (
	"runtime/cgo"
	"sync/atomic"
)

// Together calls f on several threads at once, and returns when all calls have: on those
// that compute the context's batches. llama.cpp's threads spin for a while behind each
// computation, in which others would share the CPUs with them. False, and f was not called, where
// that is no gain: with a GPU, which computes the batches itself, and with one thread.
// Only the goroutine that calls Decode may call it.
func (c *Context) Together(f func()) bool {
	if c.team <= 1 {
		return false
	}
	// What is done before, in f and behind is in this order by OpenMP's barriers, of which Go
	// knows nothing.
	var done atomic.Int32
	h := cgo.NewHandle(func() {
		done.Add(0)
		f()
		done.Add(1)
	})
	defer h.Delete()
	done.Store(0)
	C.agd_together(C.int(c.team), C.uintptr_t(h))
	done.Load()
	return true
}

//export agdTogether
func agdTogether(handle C.uintptr_t) { cgo.Handle(handle).Value().(func())() }
