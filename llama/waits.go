package llama

// #include "native/api.h"
import "C"

import (
	"errors"
	"sync"
	"unsafe"
)

// ErrWaits reports that the waits of OpenMP's threads can't be changed: environment variables set
// them, or OpenMP's limit of threads is too low.
var ErrWaits = errors.New("llama: the waits of OpenMP's threads can't be changed")

// briefWaits counts the contexts with brief waits, which apply to the whole process.
var briefWaits struct {
	sync.Mutex
	contexts int
}

// contextWaits is a context's part in briefWaits, whose lock guards it.
type contextWaits struct {
	brief, closed bool
}

// SetBriefWaits sets how the threads of a computation wait for each other. In a brief wait a thread spins for about 1
// µs and then sleeps, which is faster while other programs use the processors. Otherwise it spins for milliseconds,
// which is faster on free processors and the default. Waits are brief while at least one context of the process has set
// them. Any goroutine may call it, also during a Decode, for its next waits.
func (c *Context) SetBriefWaits(on bool) error {
	briefWaits.Lock()
	defer briefWaits.Unlock()
	if c.waits.closed {
		return ErrClosed
	}
	return c.waits.set(on)
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

// ThreadIDs returns the thread ids (tid) of the threads that compute the next batch; on systems other than
// Linux they are 0. It is nil on a machine with a GPU. SetThreads changes the threads. Only the
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
