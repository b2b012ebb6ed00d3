package scheduler

import (
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/scheduler/core"
)

// countedThreads is a backend of which only the number of threads matters.
type countedThreads struct {
	backend
	n     int
	brief chan bool // takes each change of the waits; nil: none
}

func (b *countedThreads) SamplerThreads() int { return b.n }

func (b *countedThreads) SetBriefWaits(on bool) error {
	if b.brief != nil {
		b.brief <- on
	}
	return nil
}

func (b *countedThreads) UseThreads(n int) ([]int, error) {
	b.n = n
	return []int{os.Getpid()}, nil // the first thread of the process
}

func TestTrialOfOneThreadEnds(t *testing.T) {
	back := &countedThreads{n: 2}
	tr := &threads{back: back, log: zerolog.Nop(), policy: core.NewThreads(2, false)}
	defer tr.close()
	tr.use(2)
	if tr.policy == nil {
		t.Skip("the kernel does not count how long threads wait")
	}
	for range 1000 {
		if tr.policy.Next() == 1 {
			break
		}
		tr.policy.Observe(core.StepCost{Rows: 4, Time: time.Millisecond, Waited: time.Millisecond})
	}
	tr.use(tr.policy.Next())
	if back.n != 1 {
		t.Fatalf("%d threads, want a trial of one", back.n)
	}
	for range 1000 {
		tr.begin()
		tr.end(4, time.Millisecond)
		if back.n == 2 {
			return
		}
	}
	t.Error("one thread computes for good")
}
