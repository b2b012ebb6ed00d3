package main

import (
	"bufio"
	"io"
	"os"
	"runtime"
	"strings"

	"agentd/bench/result"
)

// host describes this machine.
func host(note string) result.Host {
	h := result.Host{CPU: runtime.GOARCH, CPUs: runtime.NumCPU(), Note: note}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		h.CPU = cpuName(f)
	}
	return h
}

// cpuName is the name in Linux's /proc/cpuinfo, or the architecture.
func cpuName(r io.Reader) string {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		key, name, _ := strings.Cut(lines.Text(), ":")
		if key = strings.TrimSpace(key); key == "model name" || key == "Model" {
			return strings.Join(strings.Fields(name), " ")
		}
	}
	return runtime.GOARCH
}
