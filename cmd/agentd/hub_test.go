package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/cmd/internal/hub/hubtest"
	"agentd/llama/checkpoint/checkpointtest"
	"agentd/llama/synth"
)

// startHub starts a hub with a tiny model in two quantizations, which the environment names
// together with an empty cache.
func startHub(t *testing.T) *hubtest.Hub {
	t.Helper()
	model, err := os.ReadFile(tinyModel(t, synth.Qwen3))
	if err != nil {
		t.Fatal(err)
	}
	server := hubtest.New(t, "owner/tiny", map[string][]byte{
		"tiny-Q8_0.gguf": model, "tiny-F16.gguf": []byte("GGUF"), "config.json": []byte("{}"),
	})
	for name, value := range map[string]string{
		"HF_ENDPOINT": server.URL, "HF_HOME": t.TempDir(), "HF_TOKEN": "", "HF_HUB_CACHE": "", "HF_HUB_OFFLINE": "",
	} {
		t.Setenv(name, value)
		if value == "" {
			os.Unsetenv(name) // Python takes an empty one for a path
		}
	}
	return server
}

// pulled runs agentd pull and returns the last line of its output.
func pulled(t *testing.T, name string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"pull", name}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	return lines[len(lines)-1]
}

func TestServerListensWhileItDownloadsItsModel(t *testing.T) {
	server := startHub(t)
	release := make(chan struct{})
	server.Answer = func(_ http.ResponseWriter, _ *http.Request, n int) bool {
		if n > 0 {
			<-release
		}
		return false
	}
	r := start(t, func(ctx context.Context, stderr io.Writer) error {
		return run(ctx, []string{"serve", "-hf", "owner/tiny", "--port", "0", "--log-format", "json", "--threads", "1", "--context-length", "4096"}, io.Discard, stderr)
	})
	r.health("loading")
	close(release)
	r.health("ready")
	if out := r.ask("r", user(1, "hi").greedy()); len(out) != 1 {
		t.Errorf("got %+v", out)
	}
	for _, want := range []string{`"message":"downloading"`, "snapshots/" + hubtest.Commit + "/tiny-Q8_0.gguf"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, r.log)
		}
	}
}

func TestDownloadThatFailsEndsTheServer(t *testing.T) {
	server := startHub(t)
	server.Token = "of another account"
	r := start(t, func(ctx context.Context, stderr io.Writer) error {
		return run(ctx, []string{"--hf", "owner/tiny", "--port", "0", "--log-format", "json"}, io.Discard, stderr)
	})
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "--hf: ") || !strings.Contains(err.Error(), "HF_TOKEN") {
		t.Errorf("got %v", err)
	}
}

func TestCheckpointOfHubIsServed(t *testing.T) {
	server := startHub(t)
	all := checkpointtest.All()
	dir := all[slices.IndexFunc(all, func(f checkpointtest.Fixture) bool { return f.Name == "qwen2-bf16" })].Write(t, t.TempDir())
	server.Files = map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if server.Files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, func(ctx context.Context, stderr io.Writer) error {
		return run(ctx, []string{"--hf", "owner/tiny", "--port", "0", "--log-format", "json", "--device", "cpu"}, io.Discard, stderr)
	})
	r.health("ready")
	if log := r.log.String(); !strings.Contains(log, `"name":"owner/tiny"`) {
		t.Errorf("the model has no name of its repository:\n%s", log)
	}
	if got := pulled(t, "owner/tiny"); filepath.Base(got) != hubtest.Commit {
		t.Errorf("pull gives %s", got)
	}
}

// hubPackages are what Python's library needs.
var hubPackages = []string{
	"huggingface_hub==2.4.0", "httpx2==2.16.2", "httpcore2==2.16.2", "h11==0.16.0", "truststore==0.10.5", "anyio==4.16.0", "idna==3.20", "click==8.5.1",
	"filelock==4.3.1", "fsspec==2026.9.0", "packaging==26.4", "PyYAML==6.0.4", "tqdm==4.70.1", "typing_extensions==4.16.0",
}

// TestPythonSharesTheCache: each finds what the other one downloaded.
func TestPythonSharesTheCache(t *testing.T) {
	p := installedPython(t, hubPackages)
	server := startHub(t)
	python := func(program string, env ...string) string {
		t.Helper()
		command := p.command(t, "-c", "import huggingface_hub as h; "+program)
		command.Env = append(append(command.Env, "NO_PROXY=127.0.0.1"), env...)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, &stderr)
		}
		return strings.TrimSpace(string(out))
	}
	ours := pulled(t, "owner/tiny")
	if got := python(`print(h.hf_hub_download("owner/tiny", "tiny-Q8_0.gguf", local_files_only=True))`); got != ours {
		t.Errorf("Python finds %s, not %s", got, ours)
	}
	sent := server.Sent()
	if got := python(`print(h.hf_hub_download("owner/tiny", "tiny-Q8_0.gguf"))`); got != ours || server.Sent() != sent {
		t.Errorf("Python finds %s, not %s, and downloads %d bytes", got, ours, server.Sent()-sent)
	}
	theirs := python(`print(h.hf_hub_download("owner/tiny", "tiny-F16.gguf"))`)
	sent = server.Sent()
	if got := pulled(t, "owner/tiny:F16"); got != theirs || server.Sent() != sent {
		t.Errorf("pull gives %s of %s, and downloads %d bytes", got, theirs, server.Sent()-sent)
	}
	t.Setenv("HF_HOME", t.TempDir())
	theirs = python(`print(h.hf_hub_download("owner/tiny", "tiny-F16.gguf"))`)
	t.Setenv("HF_HUB_OFFLINE", "1")
	if got := pulled(t, "owner/tiny"); got != theirs {
		t.Errorf("offline, pull gives %s, not %s", got, theirs)
	}
}
