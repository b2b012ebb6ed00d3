package pgtest

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestServerOutlivesThreads: threads of this process end while the server runs.
func TestServerOutlivesThreads(t *testing.T) {
	s := Start(t, false)
	var threads sync.WaitGroup
	for range 100 {
		threads.Go(func() { runtime.LockOSThread() }) // never unlocked: the thread ends
	}
	threads.Wait()
	select {
	case <-s.ended:
		t.Error("the server ended")
	case <-time.After(time.Second):
	}
}
