package cli

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestSignalsOfOneSecondCountOnce(t *testing.T) {
	for name, test := range map[string]struct {
		at   []time.Duration
		want int
	}{
		"one":                           {[]time.Duration{0}, 1},
		"three at once":                 {[]time.Duration{0, 0, 0}, 1},
		"two within a second":           {[]time.Duration{0, 999 * time.Millisecond}, 1},
		"two a second apart":            {[]time.Duration{0, time.Second}, 2},
		"a third, late after the first": {[]time.Duration{0, 600 * time.Millisecond, 1200 * time.Millisecond}, 2},
	} {
		looks := 0
		now := func() time.Time {
			looks++
			return time.Unix(1, 0).Add(test.at[looks-1])
		}
		all := make(chan os.Signal, len(test.at))
		for range test.at {
			all <- syscall.SIGTERM
		}
		close(all)
		got := 0
		for range withoutRepeats(all, now) {
			got++
		}
		if got != test.want {
			t.Errorf("%s: %d signals count, want %d", name, got, test.want)
		}
	}
}
