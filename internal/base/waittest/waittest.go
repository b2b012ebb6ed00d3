// Package waittest waits, in tests, for what other goroutines or processes do.
package waittest

import (
	"testing"
	"time"
)

const (
	// patience is longer than anything takes on a busy machine.
	patience = 2 * time.Minute
	// pause is the first pause; each later one is longer by a share of the time waited.
	pause = 2 * time.Millisecond
	share = 16
)

// Eventually waits until something is true, and ends the test if it does not become so. what says in a failure what
// did not happen.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(pause + time.Since(began)/share) {
		if time.Since(began) > patience {
			t.Fatalf("it did not happen: %s", what)
		}
	}
}
