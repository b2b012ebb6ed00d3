package scheduler

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/llama/synth"
	"agentd/scheduler/core"
)

// threadsBackend records how many threads computed the last step.
type threadsBackend struct {
	backend
	threads atomic.Int32
	hold    chan struct{} // nil, or a step waits until it is closed
	held    chan struct{} // a step waits
}

func (b *threadsBackend) Decode(rows []core.Row) error {
	b.threads.Store(int32(b.SamplerThreads()))
	if b.hold != nil {
		select {
		case b.held <- struct{}{}:
			<-b.hold
		default:
		}
	}
	return b.backend.Decode(rows)
}

func TestIdleContextLendsItsThreads(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	backs := []*threadsBackend{{hold: make(chan struct{}), held: make(chan struct{}, 1)}, {}}
	e := newTestEngine(t, setup{contexts: 2, cfg: Config{SharedThreads: 2}, wrapEach: func(i int, b backend) backend {
		backs[i].backend = b
		return backs[i]
	}})
	idle := func() bool { return e.share.busy.Load() == 0 }
	eventually(t, "idle contexts", idle)
	first := make(chan error, 1)
	go func() {
		_, err := generate(t.Context(), e, greedy(tokenize(t, m, story), 1, 4))
		first <- err
	}()
	<-backs[0].held
	if n := backs[0].threads.Load(); n != 2 {
		t.Errorf("the only busy context has %d threads, want both", n)
	}
	mustGenerate(t, e, greedy(tokenize(t, m, "another story"), 1, 4))
	if n := backs[1].threads.Load(); n != 1 {
		t.Errorf("the second of two busy contexts has %d threads, want 1", n)
	}
	close(backs[0].hold)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	eventually(t, "idle contexts again", idle)
	backs[0].threads.Store(0)
	mustGenerate(t, e, greedy(tokenize(t, m, story), 1, 4))
	if n := backs[0].threads.Load(); n != 2 {
		t.Errorf("the only busy context has %d threads again, want both", n)
	}
}

// countedThreads is a backend of which only the number of threads matters.
type countedThreads struct {
	backend
	n int
}

func (b *countedThreads) SamplerThreads() int      { return b.n }
func (b *countedThreads) SetBriefWaits(bool) error { return nil }
func (b *countedThreads) UseThreads(n int) ([]int, error) {
	b.n = n
	return []int{os.Getpid()}, nil // the first thread of the process
}

func TestTrialOfOneThreadEnds(t *testing.T) {
	back := &countedThreads{n: 2}
	tr := &threads{back: back, share: &threadShare{}, log: zerolog.Nop(), policy: core.NewThreads(2, false)}
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
