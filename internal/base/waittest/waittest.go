// Package waittest waits in tests for other goroutines or processes.
package waittest

import (
	"testing"
	"time"
)

const (
	// patience is the timeout, long enough for a busy machine.
	patience = 2 * time.Minute
	// pause is the first pause between two tries; later ones are 1/share of the time so far.
	pause = 2 * time.Millisecond
	share = 16
)

// Eventually waits until is returns true. If it does not, the test fails with a message about what, such as "it is left
// out".
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(pause + time.Since(began)/share) {
		if time.Since(began) > patience {
			t.Fatalf("it did not happen: %s", what)
		}
	}
}
