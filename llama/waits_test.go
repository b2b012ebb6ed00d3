package llama

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// waitsVariable makes a process of this test binary print how often a thread sleeps. The
// test's own process has other OpenMP threads, which make all waits brief.
const waitsVariable = "AGENTD_TEST_WAITS"

// printWaits prints, for each setting of the waits, how often a compute thread slept
// while it waited waitRounds times.
func printWaits(file string) {
	runtime.LockOSThread()
	m, err := New(file, SetDevices("cpu"))
	if err != nil {
		panic(err)
	}
	context := func() *Context {
		c, err := m.NewContext(SetContext(256), SetBatch(32), SetThreads(2, 2))
		if err != nil {
			panic(err)
		}
		return c
	}
	set := func(c *Context, brief bool) {
		if err := c.SetBriefWaits(brief); err != nil {
			panic(err)
		}
	}
	one, other := context(), context()
	fmt.Println("new", sleeps(one))
	set(one, true)
	fmt.Println("brief", sleeps(one))
	set(other, true)
	set(one, false)
	fmt.Println("brief by another context", sleeps(one))
	if err := other.Close(); err != nil {
		panic(err)
	}
	fmt.Println("active", sleeps(one))
}

const waitRounds = 100

// sleeps counts how often the context's second thread slept.
func sleeps(c *Context) int {
	id := c.ThreadIDs()[1]
	count := func() (n int) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", id))
		if err != nil {
			panic(err)
		}
		for line := range strings.Lines(string(status)) {
			if _, err := fmt.Sscanf(line, "voluntary_ctxt_switches: %d", &n); err == nil {
				return n
			}
		}
		panic(string(status))
	}
	before := count()
	for range waitRounds {
		for began := time.Now(); time.Since(began) < 100*time.Microsecond; { // longer than a brief wait
		}
		c.ThreadIDs()
	}
	return count() - before
}

// TestBriefWaitsSleep: threads with brief waits sleep each time, others spin.
func TestBriefWaitsSleep(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.NumCPU() < 2 {
		t.Skip("Linux with two processors only")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GOMP_") || strings.HasPrefix(v, "OMP_")
	})
	cmd.Env = append(cmd.Env, waitsVariable+"="+modelPath(t, "qwen3"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := map[string]int{}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		var n int
		if _, err := fmt.Sscan(line[at+1:], &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got[line[:at]] = n
	}
	t.Log(got)
	for _, brief := range []string{"brief", "brief by another context"} {
		if got[brief] < waitRounds/2 {
			t.Errorf("%s: %d sleeps in %d waits", brief, got[brief], waitRounds)
		}
		for _, active := range []string{"new", "active"} {
			if got[active] >= got[brief] {
				t.Errorf("%s: %d sleeps in %d waits, %s: %d", active, got[active], waitRounds, brief, got[brief])
			}
		}
	}
}

func TestUsersWaitPolicyStays(t *testing.T) {
	t.Setenv("OMP_WAIT_POLICY", "passive") // C's environment too
	c := newContext(t, shared(t, "qwen3"))
	if err := c.SetBriefWaits(true); !errors.Is(err, ErrWaits) {
		t.Errorf("brief waits: %v, want %v", err, ErrWaits)
	}
	if err := c.SetBriefWaits(false); err != nil {
		t.Errorf("the waits that it has: %v", err)
	}
}

func TestWaitsOfClosedContextAreRefused(t *testing.T) {
	c := newContext(t, shared(t, "qwen3"))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.SetBriefWaits(true); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want %v", err, ErrClosed)
	}
}
