package main

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/internal/base/waittest"
)

// trainer sends a request with the right to change weights, and checks its answer.
func (r *running) trainer(method, path, body string, status int, want string) {
	r.t.Helper()
	got, answer, err := r.as(weightsToken, method, path, body)
	if err != nil || got != status || !strings.Contains(answer, want) {
		r.t.Fatalf("%s %s %s: %d %s, %v; want %d with %q", method, path, body, got, answer, err, status, want)
	}
}

func TestPausesUnderLoadFailNoRequest(t *testing.T) {
	r := weightsServer(t, "--contexts", "2")
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if versions, _, err := r.decided([]string{`null`, `"policy"`}[i%2]); err != nil || !strings.HasPrefix(versions, "sha256:") {
					t.Errorf("versions %q, %v", versions, err)
					return
				}
			}
		})
	}
	for i, change := range []string{
		`{"model": "model1.gguf"}`, `{"adapter": {"name": "policy", "path": "adapter1.gguf"}}`, `{"model": "model0.gguf"}`,
		`{"model": "model1.gguf"}`, `{"adapter": {"name": "policy", "path": "adapter0.gguf"}}`, `{"model": "model0.gguf"}`,
	} {
		mode := []string{"keep", "wait"}[i%2]
		r.trainer("POST", "/v1/pause", `{"mode": "`+mode+`"}`, http.StatusOK, `"paused":"`+mode+`"`)
		r.trainer("PUT", "/v1/weights", change, http.StatusOK, mode)
		r.trainer("POST", "/v1/resume", "", http.StatusOK, "sha256:")
	}
	close(stop)
	clients.Wait()
	r.trainer("GET", "/metrics", "", http.StatusOK, `agentd_pauses_total{mode="keep"} 3`)
	r.trainer("GET", "/metrics", "", http.StatusOK, "agentd_paused_seconds 0\n")
}

func TestPausedServerIsSeenAndDrains(t *testing.T) {
	r := weightsServer(t)
	r.trainer("POST", "/v1/resume", "", http.StatusOK, "model0.gguf") // without a pause
	r.trainer("POST", "/v1/pause", `{"mode": "abort"}`, http.StatusOK, `"paused":"abort"`)
	r.trainer("POST", "/v1/pause", `{"mode": "keep"}`, http.StatusConflict, "paused already, in mode abort")
	r.trainer("GET", "/health", "", http.StatusServiceUnavailable, `"paused"`)
	r.trainer("GET", "/health?live", "", http.StatusOK, `"paused"`)
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, weightsToken+"\n")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"check", r.url, "--token-file", file}, &out, &out); err == nil || exitStatus(err) != 3 || !strings.Contains(err.Error(), "paused") {
		t.Errorf("check: %v\n%s", err, &out)
	}
	answered := make(chan error, 1)
	go func() {
		_, _, err := r.decided("null")
		answered <- err
	}()
	waittest.Eventually(t, "the request waits", func() bool {
		_, page, err := r.as(weightsToken, "GET", "/metrics", "")
		return err == nil && strings.Contains(page, "agentd_http_requests_in_flight 2\n")
	})
	r.stop()
	if err := wait(t, "the answer", answered); err != nil {
		t.Errorf("a request that waited for the end of the pause: %v", err)
	}
	if err := r.end(); err != nil {
		t.Errorf("run returned %v", err)
	}
}
