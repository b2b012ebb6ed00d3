package load

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"agentd/llama"
)

// autoThreads returns the number of physical cores, or of a container's CPU limit if that is lower: hyper-threads
// slow llama.cpp down. From spareCore cores on, one is left for tokenizing, planning and serving. With fewer, all
// compute, since a step takes 30 times as long as the work between steps.
func autoThreads() int {
	cores := runtime.GOMAXPROCS(0) // respects affinity and cgroup limits
	if physical := physicalCores("/sys/devices/system/cpu"); physical > 0 {
		cores = min(cores, physical)
	}
	if cores > spareCore {
		cores--
	}
	return cores
}

// attention applies want, a Config.CPUAttention. It returns what is used: such a value, or "device".
func attention(gpu bool, want string) string {
	llama.SetSharedAttention(want != GGML)
	llama.SetF32Attention(want == F32)
	switch {
	case gpu:
		return "device"
	case !llama.SharedAttention():
		return GGML
	default:
		return cmp.Or(want, Shared)
	}
}

// physicalCores counts the distinct sets of hyper-threads in sysfs at root; 0: unknown.
func physicalCores(root string) int {
	files, _ := filepath.Glob(filepath.Join(root, "cpu[0-9]*", "topology", "thread_siblings_list"))
	cores := map[string]bool{}
	for _, f := range files {
		if siblings, err := os.ReadFile(f); err == nil {
			cores[strings.TrimSpace(string(siblings))] = true
		}
	}
	return len(cores)
}
