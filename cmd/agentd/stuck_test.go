package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentd/cmd/agentd/serve"
	"agentd/scheduler/generation"
)

func TestStuckExitEndsTheServer(t *testing.T) {
	m := newFakeModel()
	r, c := startChanged(t, func(d *serve.Daemon) { d.Load = ready(m) }, "--stuck", "exit")
	answer := r.post(oneInput)
	<-m.started
	for range 2 { // of two contexts
		c.Inference.Scheduler.OnStuck(&generation.StuckError{Contexts: []int{1}})
	}
	if got := <-answer; !strings.HasPrefix(got, "503 ") {
		t.Errorf("a request in flight got %s", got)
	}
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "context 1") || !strings.Contains(err.Error(), "--stuck exit") {
		t.Errorf("the server ended with %v", err)
	}
}

func TestStuckStepIsReportedByDefault(t *testing.T) {
	c, from, err := serve.Parse(nil, func(string) (string, bool) { return "", false }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if serve.New(c, from, io.Discard); c.Inference.Scheduler.OnStuck != nil {
		t.Error("a step that does not end ends the process")
	}
}

// hangingLoad starts a server whose load takes no notice of being cancelled, with an option.
func hangingLoad(t *testing.T, option ...string) (r *running, c *serve.Config) {
	t.Helper()
	gate, begun := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(gate) })
	r, c = startChanged(t, func(d *serve.Daemon) {
		d.LoadGrace = time.Millisecond
		d.Load = func(context.Context) (serve.Model, error) {
			close(begun)
			<-gate
			return nil, context.Canceled
		}
	}, option...)
	wait(t, "the load", begun)
	return r, c
}

func TestSignalEndsAServerWhoseLoadHangs(t *testing.T) {
	r, _ := hangingLoad(t)
	interruptWith(t, syscall.SIGTERM)
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "the model's load did not end") {
		t.Errorf("the server ended with %v", err)
	}
}

func TestStuckExitEndsAServerWhoseLoadHangs(t *testing.T) {
	r, c := hangingLoad(t, "--stuck", "exit")
	c.Inference.Scheduler.OnStuck(&generation.StuckError{Loading: "CUDA0"})
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "first step on CUDA0") || !strings.Contains(err.Error(), "--stuck exit") {
		t.Errorf("the server ended with %v", err)
	}
}

func TestLivenessProbeOfTheChartIsThatOfStuckSteps(t *testing.T) {
	text, err := os.ReadFile("../../deploy/helm/agentd/templates/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, probe, _ := strings.Cut(string(text), "livenessProbe:")
	_, path, _ := strings.Cut(probe, `path: "`)
	path, _, _ = strings.Cut(path, `"`)
	proceed, m := make(chan struct{}), newFakeModel()
	close(m.release)
	r := startFake(t, func(context.Context) (serve.Model, error) {
		<-proceed
		return m, nil
	})
	if status, body, err := exchange("GET", r.url+path, ""); err != nil || status != http.StatusOK || body != `{"status":"loading"}` {
		t.Errorf("%s while loading: %d %s %v", path, status, body, err)
	}
	close(proceed)
	r.health("ready")
}

// The files are in memory. A read-only container without volumes has no other place.
func TestDefaultModelNeedsNoWritableDirectory(t *testing.T) {
	env := []string{"TMPDIR=/proc/none"}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "HOME" && name != "XDG_CACHE_HOME" && name != "TMPDIR" {
			env = append(env, v)
		}
	}
	if said, err := startAlone(t, "/proc", env)(syscall.SIGTERM); err != nil {
		t.Errorf("%v; it said %s", err, said)
	}
}
