package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/cmd/agentd/console"
	"agentd/internal/base/waittest"
)

func TestConsoleHelpListsEveryOption(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"console", "--help"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, o := range console.DefaultConfig().Command().Options {
		if !strings.Contains(out.String(), "  --"+o.Name) {
			t.Errorf("--%s is missing", o.Name)
		}
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if len(line) > 100 {
			t.Errorf("too wide: %s", line)
		}
	}
	var version strings.Builder
	if err := run(t.Context(), []string{"console", "--version"}, &version, io.Discard); err != nil || !strings.HasPrefix(version.String(), "agentd ") {
		t.Errorf("--version prints %q (%v)", version.String(), err)
	}
}

// startConsole runs agentd console on a free port.
func startConsole(t *testing.T, args ...string) *running {
	t.Helper()
	return start(t, func(ctx context.Context, stderr io.Writer) error {
		return run(ctx, append([]string{"console", "--port", "0", "--log-format", "json", "--log-level", "trace"}, args...), io.Discard, stderr)
	})
}

// send sends JSON and decodes the answer into v, unless that is nil.
func send(t *testing.T, method, url, body, token string, v any) int {
	t.Helper()
	header := http.Header{"X-Agentd-Console": {"1"}}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	status, _, answer, err := exchangeHeader(method, url, body, header)
	if err == nil && v != nil {
		err = json.Unmarshal([]byte(answer), v)
	}
	if err != nil {
		t.Errorf("%s: %v in %s", url, err, answer)
	}
	return status
}

func TestSignalStopsConsoleWithoutLoss(t *testing.T) {
	const token, secret = "the-token-of-ann-0001", "what the person wrote"
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	writeFile(t, tokens, "# people\n"+token+"\n")
	args := []string{"--data-dir", filepath.Join(dir, "new", "data"), "--auth-token-file", tokens}
	const task = `{"request_id":"r1","payload_id":1,"payload_type":"x","payload":{},"rendered_prompt":"p"}`

	first := startConsole(t, args...)
	waiting := make(chan int, 1)
	go func() { waiting <- send(t, http.MethodPost, first.url+"/v1/coaching/requests", task, "", nil) }()
	var list struct{ Tasks []struct{ ID string } }
	waittest.Eventually(t, "the task comes", func() bool {
		send(t, http.MethodGet, first.url+"/api/tasks", "", token, &list)
		return len(list.Tasks) > 0
	})
	if status := send(t, http.MethodGet, first.url+"/api/tasks", "", "", nil); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.end(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if status := wait(t, "the agent's answer", waiting); status != http.StatusServiceUnavailable {
		t.Errorf("the waiting agent got %d", status)
	}

	second := startConsole(t, args...)
	go func() { waiting <- send(t, http.MethodPost, second.url+"/v1/coaching/requests", task, "", nil) }()
	var claim struct{ Claim string }
	send(t, http.MethodPost, second.url+"/api/tasks/1/claim", `{"person":"Ann"}`, token, &claim)
	answer := `{"claim":"` + claim.Claim + `","status":"completed","output":"` + secret + `"}`
	if status := send(t, http.MethodPost, second.url+"/api/tasks/1/answer", answer, token, nil); status != http.StatusOK {
		t.Errorf("the answer got %d", status)
	}
	if status := wait(t, "the agent's answer", waiting); status != http.StatusOK {
		t.Errorf("the agent got %d", status)
	}
	second.stop()
	if err := second.end(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	for _, log := range []string{first.log.String(), second.log.String()} {
		if strings.Contains(log, token) || strings.Contains(log, secret) || strings.Contains(log, claim.Claim) {
			t.Errorf("the log tells secrets:\n%s", log)
		}
	}
	if log := second.log.String(); !strings.Contains(log, `"tasks":1`) || !strings.Contains(log, `"stopped"`) {
		t.Errorf("the log is\n%s", log)
	}
}

func TestConsoleSaysWhyItCannotStart(t *testing.T) {
	dir := t.TempDir()
	first := startConsole(t, "--data-dir", dir)
	_, port, _ := strings.Cut(strings.TrimPrefix(first.url, "http://"), ":")
	blocked := filepath.Join(dir, "blocked")
	writeFile(t, blocked, "")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"port taken":         {[]string{"--port", port, "--data-dir", t.TempDir()}, "is taken"},
		"store in use":       {[]string{"--port", "0", "--data-dir", dir}, "in use by another process"},
		"directory unusable": {[]string{"--port", "0", "--data-dir", filepath.Join(blocked, "x")}, "--data-dir"},
		"no certificate":     {[]string{"--port", "0", "--data-dir", t.TempDir(), "--tls-cert", blocked, "--tls-key", blocked}, "--tls-cert"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience) // which only a console that does start takes
		err := run(ctx, append([]string{"console"}, test.args...), io.Discard, io.Discard)
		cancel()
		if err == nil || !strings.HasPrefix(err.Error(), "console: ") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
