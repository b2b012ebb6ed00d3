package llama

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/llama/synth"
)

// TestOnDeviceFailureInMidStepLosesOneContext loses its context; another one on the same device continues.
func TestOnDeviceFailureInMidStepLosesOneContext(t *testing.T) {
	needsTestDevice(t)
	m := deviceModel(t, synth.Qwen3, SetDevices(testDevice))
	other := newContext(t, m)
	want := onCPU(t, few)
	within(t, sameOnDevice, want, few(t, other))
	for _, nodes := range []int{1, 20} {
		c := newContext(t, m, failAt(nodes))
		b := []Row{{50, 0, 0, true}}
		if err := c.Decode(b); !errors.Is(err, ErrLost) {
			t.Fatalf("%d nodes: %v, want ErrLost", nodes, err)
		}
		if err := c.Decode(b); !errors.Is(err, ErrLost) {
			t.Errorf("%d nodes, again: %v, want ErrLost", nodes, err)
		}
		within(t, sameOnDevice, want, few(t, other))
	}
}

// TestOnDeviceTooLargeContextIsAnError on a device without the memory for it; a smaller one is made.
func TestOnDeviceTooLargeContextIsAnError(t *testing.T) {
	needsTestDevice(t)
	m := deviceModel(t, synth.Qwen3, SetDevices(testDevice))
	c, err := m.NewContext(SetContext(MaxContext), SetBatch(64), SetMaxSequences(4), SetKVType("f32"))
	if err == nil {
		c.Close()
		t.Skip("the device had the memory")
	}
	t.Log(err)
	within(t, sameOnDevice, onCPU(t, few), few(t, newContext(t, m)))
}

// TestOnDeviceTooLargeModelIsAnError in a process that may have no more memory; a smaller one then loads and computes.
// Only a driver for CPUs has its memory in that of the process.
func TestOnDeviceTooLargeModelIsAnError(t *testing.T) {
	needsTestDevice(t)
	const inChild = "AGENTD_TEST_TOO_LARGE"
	path := os.Getenv(inChild)
	if path == "" {
		spec, err := synth.Preset("tiny", synth.Qwen3)
		must(t, err)
		spec.Type, spec.Small, spec.Layers, spec.Embedding, spec.FFN = "f32", true, 2, 1024, 24576 // 600 MB, in matrices below the 128 MB that lavapipe computes with
		path = filepath.Join(t.TempDir(), "large.gguf")
		must(t, synth.Write(path, spec))
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), inChild+"="+path)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v", err)
		}
		t.Logf("%s", out)
		return
	}
	want := onCPU(t, few)
	within(t, sameOnDevice, want, few(t, newContext(t, deviceModel(t, synth.Qwen3, SetDevices(testDevice)))))
	status, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	var pages uint64
	_, err = fmt.Sscan(string(status), &pages)
	must(t, err)
	limit := pages*uint64(os.Getpagesize()) + 300<<20
	must(t, syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit}))
	m, err := New(path, SetDevices(testDevice), SetMMap(false))
	if err == nil {
		must(t, m.Free())
		t.Skip("the device has memory of its own")
	}
	if !strings.Contains(err.Error(), "allocate "+testDevice) {
		t.Errorf("%v, want an error that says what the device could not allocate", err)
	}
	t.Log(err)
	within(t, sameOnDevice, want, few(t, newContext(t, deviceModel(t, synth.Qwen3, SetDevices(testDevice)))))
}
