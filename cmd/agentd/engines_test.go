package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/internal/base/subprocess"
	"agentd/internal/base/waittest"
)

// engineProcess is a llama-server that serves one model.
type engineProcess struct {
	url   string
	args  []string
	cmd   *exec.Cmd
	ended <-chan struct{}
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

// start starts the process, again on the same port, and waits until it serves. It ends with the test program, too.
func (e *engineProcess) start(t *testing.T) {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "*.log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e.cmd = exec.Command(e.args[0], e.args[1:]...)
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	e.cmd.Stderr = log
	ended := make(chan struct{})
	e.ended = ended
	if err := subprocess.Start(e.cmd, syscall.SIGKILL, func(error) { close(ended) }); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "llama-server serves", func() bool {
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("llama-server ended\n%s", text)
		default:
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
	<-e.ended
	e.cmd = nil
}

// serveEngines runs agentd before engines, with the vocabulary of a model.
func serveEngines(t *testing.T, urls []string, args ...string) *running {
	t.Helper()
	return serveWith(t, append([]string{"--engine", strings.Join(urls, ",")}, args...)...)
}
