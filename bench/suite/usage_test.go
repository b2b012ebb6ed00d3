package suite

import (
	"math"
	"net/http"
	"syscall"
	"testing"
)

func TestUsageIsThatOfTheProcessGroup(t *testing.T) {
	c, err := start(t.Context(), "server", self(t, "well"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.stop()
	cpu, memory := usage(c.cmd.Process.Pid)
	if !healthy(t.Context(), c.url+"/work") { // takes 0.1 s of processor time and 64 MiB
		t.Fatal("it does not work")
	}
	after, most := usage(c.cmd.Process.Pid)
	if after-cpu < 0.08 { // the kernel counts hundredths
		t.Errorf("processor time grew by %g s, want at least 0.1", after-cpu)
	}
	if most-memory < 60e6 {
		t.Errorf("memory grew by %g bytes, want 64 MiB", most-memory)
	}
	if cpu, memory := usage(math.MaxInt32); cpu != 0 || memory != 0 {
		t.Errorf("of no process: %g s, %g bytes", cpu, memory)
	}
}

// toil takes 0.1 s of processor time and 64 MiB, which stay.
func toil(http.ResponseWriter, *http.Request) {
	held = make([]byte, 64<<20)
	for i := range held { // the kernel gives the pages now
		held[i] = 1
	}
	for began := processorTime(); processorTime() < began+0.1; { // most of it outside the kernel
		for i := range held {
			held[i]++
		}
	}
}

var held []byte

// processorTime of this process in seconds.
func processorTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
