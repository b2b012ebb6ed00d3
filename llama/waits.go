package llama

// #include "native/api.h"
import "C"

import (
	"errors"
	"sync"
	"unsafe"
)

// ErrWaits reports that the waits of OpenMP's threads can't be changed here: variables of the
// environment set them, or OpenMP allows fewer threads than that needs.
var ErrWaits = errors.New("llama: the waits of OpenMP's threads can't be changed")

// briefWaits counts the contexts that want brief waits: they are the process's.
var briefWaits struct {
	sync.Mutex
	contexts int
}

// contextWaits is a context's part in briefWaits, whose lock guards it.
type contextWaits struct {
	brief, closed bool
}

// SetBriefWaits sets how the threads of a computation wait for each other. Brief waits
// spin for about a microsecond and then sleep, which is faster beside busy programs. Other
// waits spin for milliseconds, which is faster on free processors; a new Context has
// these. Waits are brief while one context of the process wants them so. Any goroutine may
// call it, also during a Decode, whose next waits change.
func (c *Context) SetBriefWaits(on bool) error {
	briefWaits.Lock()
	defer briefWaits.Unlock()
	if c.waits.closed {
		return ErrClosed
	}
	return c.waits.set(on)
}

func (c *Context) closeWaits() {
	briefWaits.Lock()
	defer briefWaits.Unlock()
	_ = c.waits.set(false) // never fails
	c.waits.closed = true
}

func (w *contextWaits) set(on bool) error {
	if on == w.brief {
		return nil
	}
	n := briefWaits.contexts + 1
	if !on {
		n = briefWaits.contexts - 1
	}
	if min(n, briefWaits.contexts) == 0 && !bool(C.agd_brief_waits(C.bool(on))) {
		return ErrWaits
	}
	briefWaits.contexts, w.brief = n, on
	return nil
}

// ThreadIDs are the kernel's ids of the threads that compute the next batch: on Linux, 0
// elsewhere; nil on a machine with a GPU. They are others after SetThreads. Only the
// goroutine that calls Decode may call it.
func (c *Context) ThreadIDs() []int {
	if c.threads == 0 {
		return nil
	}
	ids := make([]C.int, c.threads)
	C.agd_thread_ids(C.int(len(ids)), unsafe.SliceData(ids))
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out
}
