package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"agentd/internal/base/waittest"
)

// engineProcess is a llama-server that serves one model.
type engineProcess struct {
	url  string
	args []string
	cmd  *exec.Cmd
	log  func() string
}

// llamaServer starts llama.cpp's own server. Its flash attention rounds a row in other ways
// beside other rows, so it is off. The test is skipped where it was not built.
func llamaServer(t *testing.T, model string, args ...string) *engineProcess {
	t.Helper()
	program := filepath.Join("..", "..", "bench", "bin", "llama-server")
	if _, err := os.Stat(program); err != nil {
		t.Skip("no bench/bin/llama-server; make peers builds it")
	}
	port := fixedPort(t)
	e := &engineProcess{
		url: "http://127.0.0.1:" + port,
		args: append([]string{program, "--model", model, "--host", "127.0.0.1", "--port", port, "--offline", "--no-ui",
			"--threads", "1", "--ctx-size", "8192", "--parallel", "8", "--kv-unified", "--flash-attn", "off"}, args...),
	}
	e.start(t)
	t.Cleanup(e.kill)
	return e
}

// start starts the process, again on the same port, and waits until it serves.
func (e *engineProcess) start(t *testing.T) {
	t.Helper()
	e.cmd = exec.Command(e.args[0], e.args[1:]...)
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := e.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	e.cmd.Stdout = nil
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log strings.Builder
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			mu.Lock()
			log.WriteString(lines.Text() + "\n")
			mu.Unlock()
		}
	}()
	e.log = func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	waittest.Eventually(t, "llama-server serves", func() bool {
		if e.cmd.Process.Signal(syscall.Signal(0)) != nil {
			t.Fatalf("llama-server ended\n%s", e.log())
		}
		status, _, err := exchange("GET", e.url+"/health", "")
		return err == nil && status == http.StatusOK
	})
}

// kill ends the process at once, as a crash would.
func (e *engineProcess) kill() {
	if e.cmd == nil {
		return
	}
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait() // its error is the signal
	e.cmd = nil
}

// serveEngines runs agentd before engines, with the vocabulary of a model.
func serveEngines(t *testing.T, urls []string, args ...string) *running {
	t.Helper()
	return serveWith(t, append([]string{"--engine", strings.Join(urls, ",")}, args...)...)
}
