package target

import (
	"testing"
	"time"
)

const msec = time.Millisecond

func TestTTFTOfServerTiming(t *testing.T) {
	for name, test := range map[string]struct {
		values []string
		want   time.Duration
		fails  bool
	}{
		"no header":       {nil, -1, false},
		"agentd's":        {[]string{"queue;dur=1.5, ttft;dur=20.5"}, 41 * msec / 2, false},
		"two headers":     {[]string{"queue;dur=1", "ttft;dur=2"}, 2 * msec, false},
		"other metrics":   {[]string{"db;dur=x, cache"}, -1, false},
		"no number":       {[]string{"ttft;dur=x"}, -1, true},
		"a negative time": {[]string{"ttft;dur=-1"}, -1, true},
	} {
		got, err := parseTTFT(test.values)
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
