package retry

import (
	"net/http"
	"testing"
	"time"
)

func TestBackoffDoublesAndJitterHalves(t *testing.T) {
	const first, most = 500 * time.Millisecond, 30 * time.Second
	for _, tc := range []struct {
		failures int
		random   float64
		want     time.Duration
	}{
		{1, 0, first}, {1, 1, first / 2}, {2, 0, 2 * first}, {2, 0.5, 2 * first / 4 * 3}, {6, 0, 32 * first},
		{7, 0, most}, {7, 1, most / 2}, {64, 0, most}, {1 << 30, 0, most},
	} {
		if got := Backoff(tc.failures, first, most, tc.random); got != tc.want {
			t.Errorf("after %d failures with %g: %s, want %s", tc.failures, tc.random, got, tc.want)
		}
	}
	if got := Backoff(1, 24*time.Hour, time.Minute, 0); got != time.Minute {
		t.Errorf("a first wait above the longest: %s", got)
	}
}

func TestRetryAfterIsReadAsSecondsOrDate(t *testing.T) {
	now := time.Date(2015, 10, 21, 7, 28, 0, 0, time.UTC)
	for _, tc := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0}, {"7", "", 7 * time.Second}, {" 7 ", "", 7 * time.Second}, {"0", "", 0}, {"-1", "", 0}, {"1.5", "", 0},
		{"99999999999999999999", "", maxAfter}, {"86401", "", maxAfter},
		{"Wed, 21 Oct 2015 07:28:09 GMT", "", 9 * time.Second},
		{"Wed, 21 Oct 2015 07:28:09 GMT", "Wed, 21 Oct 2015 07:28:05 GMT", 4 * time.Second},
		{"Wed, 21 Oct 2015 07:27:00 GMT", "", 0}, {"Wed, 21 Oct 2016 07:27:00 GMT", "", maxAfter}, {"Wed, 21 Oct 2015", "", 0},
	} {
		if got := After(http.Header{"Retry-After": {tc.value}, "Date": {tc.date}}, now); got != tc.want {
			t.Errorf("%q at %q: %s, want %s", tc.value, tc.date, got, tc.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "0", "-1", "1.5", " 7 ", "99999999999999999999", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015", ""} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		got := After(http.Header{"Retry-After": {value}, "Date": {date}}, time.Unix(1e9, 0))
		if got < 0 || got > maxAfter {
			t.Errorf("Retry-After %q at %q is %s", value, date, got)
		}
	})
}
