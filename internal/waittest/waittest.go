// Package waittest waits, in tests, for what other goroutines or processes do.
package waittest

import (
	"testing"
	"time"
)

const (
	// patience is longer than anything takes on a busy machine.
	patience = 2 * time.Minute
	pause    = 2 * time.Millisecond
)

// Eventually waits until something is true, and ends the test if it does not become so. what says in a failure what
// did not happen.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen: %s", what)
		}
	}
}
