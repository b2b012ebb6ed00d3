package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// The transcript's commands:
//
//	init most=N
//	run steps=N rows=N [preempted=N]: one line of "THREADS TIME" pairs is the input,
//	    what a step takes with so many threads. The output has one line for each
//	    time the count changes, and what a trial found.
func TestGoldenThreads(t *testing.T) {
	var threads *Threads
	datadriven.RunTest(t, "testdata/threads/policy.txt", func(t *testing.T, d *datadriven.TestData) string {
		number := func(name string, otherwise int) int {
			d.MaybeScanArgs(t, name, &otherwise)
			return otherwise
		}
		if d.Cmd == "init" {
			threads = NewThreads(number("most", 2))
			return fmt.Sprintf("%d threads\n", threads.Next())
		}
		took := map[int]time.Duration{}
		fields := strings.Fields(d.Input)
		for i := 0; i+1 < len(fields); i += 2 {
			var n int
			fmt.Sscan(fields[i], &n)
			took[n], _ = time.ParseDuration(fields[i+1])
		}
		var out strings.Builder
		steps, last, changes := number("steps", 1), threads.Next(), 0
		for i := range steps {
			in := threads.trial.steps > 0
			threads.Observe(StepCost{Rows: number("rows", 64), Time: took[threads.Next()], Preempted: number("preempted", 0)})
			switch trying := threads.trial.steps > 0; {
			case !in && trying:
				fmt.Fprintf(&out, "step %d: trial of %d threads\n", i, threads.trial.count[1])
			case in && !trying:
				fmt.Fprintf(&out, "step %d: %d threads, next trial in %d\n", i, threads.Next(), threads.wait)
			case !in && threads.Next() != last:
				fmt.Fprintf(&out, "step %d: %d threads\n", i, threads.Next())
			}
			if threads.Next() != last {
				changes++
			}
			last = threads.Next()
		}
		fmt.Fprintf(&out, "%d threads after %d changes\n", threads.Next(), changes)
		return out.String()
	})
}

func TestThreadsStayWithinBounds(t *testing.T) {
	for most := 1; most <= 9; most++ {
		threads := NewThreads(most)
		for i := range 20000 {
			n := threads.Next()
			if n < 1 || n > most {
				t.Fatalf("%d threads of %d after %d steps", n, most, i)
			}
			// Fewer threads are always faster: the policy goes down to one.
			threads.Observe(StepCost{Rows: 1 + i%7, Time: time.Duration(n), Preempted: i % 2})
		}
		// A trial of two threads may be under way.
		if n := threads.Next(); threads.trial.steps == 0 && n != 1 {
			t.Errorf("%d of %d threads where one is fastest", n, most)
		}
	}
}
