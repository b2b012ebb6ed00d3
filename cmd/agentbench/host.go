package main

import (
	"bufio"
	"io"
	"os"
	"runtime"
	"strings"
)

// cpu is the processor's name and how many of its threads this program may use.
func cpu() (name string, count int) {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH, runtime.NumCPU()
	}
	defer f.Close()
	return cpuName(f), runtime.NumCPU()
}

// cpuName is the name in Linux's /proc/cpuinfo; the architecture where it has none,
// as on many arm64 machines.
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
