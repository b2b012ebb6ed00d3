package scheduler

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/scheduler/core"
)

func TestRunDelayIsReadFromSchedstat(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		want       time.Duration
		fails      bool
	}{
		{"a thread that waited", "73310 645431 12\n", 645431, false},
		{"a new thread", "0 0 1\n", 0, false},
		{"a kernel that does not count", "0 0 0\n", 0, true},
		{"an empty file", "", 0, true},
		{"words", "a b c\n", 0, true},
		{"fewer numbers", "1 2\n", 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "schedstat")
			if err := os.WriteFile(name, []byte(tc.line), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			d := threads{watched: []watchedThread{{file: f}}}
			defer d.close()
			got, err := d.longest(true)
			if got != tc.want || (err != nil) != tc.fails {
				t.Fatalf("%v, %v; want %v, fails: %v", got, err, tc.want, tc.fails)
			}
			if again, _ := d.longest(true); again != 0 {
				t.Errorf("%v since then, want 0", again)
			}
		})
	}
}

func TestLongWaitsOfStepCallAlarmOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "schedstat")
	write := func(waited time.Duration) {
		t.Helper()
		if err := os.WriteFile(name, fmt.Appendf(nil, "1 %d 1\n", waited), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(time.Hour)
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	back := &countedThreads{n: 2, brief: make(chan bool, 9)}
	o := threads{back: back, log: zerolog.Nop(), policy: core.NewThreads(2, true), watched: []watchedThread{{file: f}}}
	defer o.close()
	o.begin()
	write(2 * time.Hour)
	if on := <-back.brief; !on {
		t.Error("the waits were made active")
	}
	if o.end(4, time.Hour); o.waited != time.Hour || !o.ended || o.policy == nil || !o.policy.Brief() {
		t.Errorf("%v, waits ended: %v, policy %+v", o.waited, o.ended, o.policy)
	}
	o.begin() // brief waits
	write(4 * time.Hour)
	if o.end(4, time.Hour); o.waited != 2*time.Hour || o.ended || o.policy == nil {
		t.Errorf("the next step: %v, waits ended: %v, policy %+v", o.waited, o.ended, o.policy)
	}
	if n := len(back.brief); n > 0 {
		t.Errorf("%d more changes of the waits", n)
	}
}

// threadless is a backend of two threads that the kernel does not know.
type threadless struct {
	backend
	brief *atomic.Bool
}

func (b threadless) SamplerThreads() int           { return 2 }
func (b threadless) UseThreads(int) ([]int, error) { return []int{0, 0}, nil }
func (b threadless) SetBriefWaits(on bool) error {
	b.brief.Store(on)
	return nil
}

func TestUnknownRunDelayMakesWaitsBrief(t *testing.T) {
	var brief atomic.Bool
	var log strings.Builder
	e := newTestEngine(t, setup{
		log:  zerolog.New(zerolog.SyncWriter(&log)),
		wrap: func(b backend) backend { return threadless{b, &brief} },
	})
	mustGenerate(t, e, greedy(tokenize(t, testModel(t, "qwen3"), "hello"), 1, 4))
	if !brief.Load() {
		t.Errorf("waits are not brief; the log: %s", log.String())
	}
}
