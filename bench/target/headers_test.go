package target

import (
	"strings"
	"testing"
	"time"
)

const msec = time.Millisecond

func TestTiming(t *testing.T) {
	none := timing{-1, -1}
	for _, test := range []struct {
		name   string
		values []string
		want   timing
		err    string
	}{
		{name: "no header is nothing known", want: none},
		{name: "an empty header too", values: []string{""}, want: none},
		{name: "both", values: []string{"queue;dur=1.2, ttft;dur=34.5"}, want: timing{1200 * time.Microsecond, 34500 * time.Microsecond}},
		{name: "in two headers, in any order", values: []string{"ttft;dur=3", "queue;dur=0"}, want: timing{0, 3 * msec}},
		{name: "spaces and empty elements", values: []string{" , queue ; dur = 2 ,, ttft;dur=1e1 ,"}, want: timing{2 * msec, 10 * msec}},
		{name: "a quoted number and other parameters", values: []string{`queue;desc="a, \"b\"; c";DUR="7";dur=9`}, want: timing{7 * msec, -1}},
		{name: "other metrics", values: []string{`cache, db;dur=x;desc=y, ttft;dur=4`}, want: timing{-1, 4 * msec}},
		{name: "a metric without dur", values: []string{"queue, ttft;desc=z"}, want: none},
		{name: "names are case-sensitive", values: []string{"Queue;dur=1"}, want: none},
		{name: "not a number", values: []string{"queue;dur=fast"}, err: `the dur of queue is "fast"`},
		{name: "no value", values: []string{"queue;dur"}, err: `the dur of queue is ""`},
		{name: "negative", values: []string{"ttft;dur=-1"}, err: `the dur of ttft is "-1"`},
		{name: "not a time", values: []string{"ttft;dur=NaN"}, err: "NaN"},
		{name: "endless", values: []string{"ttft;dur=Inf"}, err: "Inf"},
		{name: "too long", values: []string{"ttft;dur=1e13"}, err: "1e13"},
		{name: "twice", values: []string{"queue;dur=1", "queue;dur=1"}, err: "queue is there twice"},
		{name: "no metric", values: []string{";dur=1"}, err: "a metric's name is missing"},
		{name: "no parameter", values: []string{"queue;=1"}, err: "a name is missing"},
		{name: "no value after =", values: []string{"queue;dur=,"}, err: "the value of dur is missing"},
		{name: "an open string", values: []string{`x;desc="a\`}, err: "is not closed"},
		{name: "no comma", values: []string{"queue;dur=1 ttft;dur=2"}, err: "a comma or a semicolon is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseTiming(test.values)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "soon": 0, "-3": 0, "99999999999": 0,
		"Fri, 01 May 2026 12:00:30 GMT": 30 * time.Second, "Fri, 01 May 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q is %v, want %v", value, got, want)
		}
	}
}

func FuzzTiming(f *testing.F) {
	for _, s := range []string{"queue;dur=1.2, ttft;dur=34.5", `a;desc="x\"",queue;dur`, ",;="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, err := parseTiming([]string{value})
		if err == nil && (got.queue < -1 || got.first < -1) {
			t.Errorf("%q is %+v", value, got)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("7")
	f.Add("Fri, 01 May 2026 12:00:30 GMT")
	f.Fuzz(func(t *testing.T, value string) {
		if d := retryAfter(value, time.Unix(0, 0)); d < 0 {
			t.Errorf("%q is %v", value, d)
		}
	})
}
