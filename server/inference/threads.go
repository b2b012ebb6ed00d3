package inference

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// autoThreads is max(1, physical cores - 1): hyper-threads slow llama.cpp
// down, and the last core samples, tokenizes and serves. A container's CPU
// limit counts too.
func autoThreads() int {
	cores := runtime.GOMAXPROCS(0) // respects affinity and cgroup limits
	if physical := physicalCores("/sys/devices/system/cpu"); physical > 0 {
		cores = min(cores, physical)
	}
	return max(1, cores-1)
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
