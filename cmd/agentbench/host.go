package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"runtime"
	"strings"

	"agentd/bench/result"
)

// host describes this machine.
func host(note string) result.Host {
	text, _ := os.ReadFile("/proc/cpuinfo") // empty on other systems than Linux
	return result.Host{CPU: cpuName(bytes.NewReader(text)), CPUs: runtime.NumCPU(), Note: note}
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
