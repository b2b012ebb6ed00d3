package llama

import (
	"sync"
	"testing"
	"time"

	"agentd/llama/synth"
)

func TestTogetherIsOnAllThreadsAtOnce(t *testing.T) {
	m := shared(t, synth.Qwen3)
	if newContext(t, m, SetThreads(1, 1)).Together(func() { t.Error("called on one thread") }) {
		t.Error("one thread is no team")
	}
	const team = 3
	c := newContext(t, m, SetThreads(1, team))
	if c.team == 0 {
		t.Log("there is a GPU, which has no such threads")
		if c.Together(func() { t.Error("called beside a GPU") }) {
			t.Error("a GPU is no team")
		}
		return
	}
	for range 20 {
		var all sync.WaitGroup
		all.Add(team)
		calls := 0
		var mu sync.Mutex
		if !c.Together(func() {
			all.Done()
			within(t, all.Wait) // each waits for the others, so they are there at once
			mu.Lock()
			calls++
			mu.Unlock()
		}) {
			t.Fatal("not called")
		}
		if calls != team {
			t.Fatalf("%d calls", calls)
		}
	}
}

// within fails the test if f takes so long that it will never end.
func within(t *testing.T, f func()) {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("the calls are not at once")
	}
}
