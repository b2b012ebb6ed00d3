package inference

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"agentd/llama"
)

// autoThreads counts physical cores: hyper-threads slow llama.cpp down. Of many,
// one is left to tokenize, plan and serve. Of few, that would be too much: a step
// of the model takes 30 times as long as what follows it, so that with two cores
// both do twice as much as one (docs/benchmarks.md). A container's CPU limit counts
// too.
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

// attention says how attention is computed from now on: "shared" or "ggml" on the
// CPU, else "device".
func attention(gpu, ggml bool) string {
	llama.SetSharedAttention(!ggml)
	if gpu {
		return "device"
	}
	if llama.SharedAttention() {
		return "shared"
	}
	return "ggml"
}

// physicalCores counts the distinct sets of hyper-threads; 0 when the system
// does not tell.
func physicalCores(root string) int {
	files, err := filepath.Glob(filepath.Join(root, "cpu[0-9]*", "topology", "thread_siblings_list"))
	if err != nil {
		return 0
	}
	cores := map[string]bool{}
	for _, f := range files {
		if siblings, err := os.ReadFile(f); err == nil {
			cores[strings.TrimSpace(string(siblings))] = true
		}
	}
	return len(cores)
}
