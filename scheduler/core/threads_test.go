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
//	init most=N [fixed]
//	run steps=N rows=N: a line "THREADS WAITS TIME WAITED" says what a step takes with so many
//	    threads and these waits (active or brief), and how long its slowest thread waited for
//	    a processor. The output has a line for each change of the waits, for each trial, and
//	    for what it found.
func TestGoldenThreads(t *testing.T) {
	var threads *Threads
	mode := map[bool]string{false: "active", true: "brief"}
	datadriven.RunTest(t, "testdata/threads/policy.txt", func(t *testing.T, d *datadriven.TestData) string {
		number := func(name string, otherwise int) int {
			d.MaybeScanArgs(t, name, &otherwise)
			return otherwise
		}
		if d.Cmd == "init" {
			threads = NewThreads(number("most", 2), d.HasArg("fixed"))
			return fmt.Sprintf("%d threads, %s waits\n", threads.Next(), mode[threads.Brief()])
		}
		steps := map[string]StepCost{}
		for _, line := range strings.Split(d.Input, "\n") {
			var n int
			var wait, took, waited string
			if _, err := fmt.Sscan(line, &n, &wait, &took, &waited); err != nil {
				t.Fatal(line, err)
			}
			c := StepCost{Rows: number("rows", 64)}
			c.Time, _ = time.ParseDuration(took)
			c.Waited, _ = time.ParseDuration(waited)
			steps[fmt.Sprint(n, mode[wait == "brief"])] = c
		}
		var out strings.Builder
		var total time.Duration
		for i := range number("steps", 1) {
			trying, brief := threads.trial.steps > 0, threads.Brief()
			c, known := steps[fmt.Sprint(threads.Next(), mode[brief])]
			if !known {
				t.Fatalf("no line for %d threads with %s waits", threads.Next(), mode[brief])
			}
			total += c.Time
			threads.Observe(c)
			switch now := threads.trial.steps > 0; {
			case !trying && now:
				fmt.Fprintf(&out, "step %d: trial of %d threads\n", i, threads.trial.count[1])
			case trying && !now:
				fmt.Fprintf(&out, "step %d: %d threads, next trial in %d\n", i, threads.Next(), threads.wait)
			}
			if threads.Brief() != brief {
				fmt.Fprintf(&out, "step %d: %d threads, %s waits\n", i, threads.Next(), mode[!brief])
			}
		}
		fmt.Fprintf(&out, "%d threads, %s waits; %s\n", threads.Next(), mode[threads.Brief()], total)
		return out.String()
	})
}

func TestThreadsStayWithinBounds(t *testing.T) {
	for most := 1; most <= 9; most++ {
		threads := NewThreads(most, false)
		for i := range 20000 {
			n := threads.Next()
			if n < 1 || n > most || !threads.Brief() && n != most {
				t.Fatalf("%d threads of %d after %d steps", n, most, i)
			}
			// Fewer threads are always faster: the policy goes down to one.
			cost := StepCost{Rows: 1 + i%7, Time: time.Duration(n) * time.Millisecond}
			cost.Waited = cost.Time / 2
			threads.Observe(cost)
		}
		// A trial of two threads may be under way, or active waits.
		if n := threads.Next(); most > 1 && threads.Brief() && threads.trial.steps == 0 && n != 1 {
			t.Errorf("%d of %d threads where one is fastest", n, most)
		}
	}
}

func TestFixedThreadsChangeTheirWaitsOnly(t *testing.T) {
	threads := NewThreads(4, true)
	brief := 0
	for i := range 2000 {
		if threads.Brief() {
			brief++
		}
		threads.Observe(StepCost{Rows: 64, Time: time.Millisecond, Waited: time.Millisecond / 2})
		if n := threads.Next(); n != 4 {
			t.Fatalf("%d threads after %d steps", n, i)
		}
	}
	if brief < 1900 {
		t.Errorf("%d of 2000 steps had brief waits beside another program", brief)
	}
}
