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
	"time"
)

func TestConsoleOptionsHaveDefaultsAndAreRefusedWithTheFix(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/data")
	c, err := loadConsoleConfig(nil)
	if err != nil || c.Host != "127.0.0.1" || c.Port != 8890 || c.Claim != 2*time.Minute || c.Keep != 168*time.Hour || c.DataDir != "/data/agentd/console" {
		t.Errorf("defaults: %+v (%v)", c, err)
	}
	dir := t.TempDir()
	file, tokens := filepath.Join(dir, "file"), filepath.Join(dir, "tokens")
	writeFile(t, file, "short\n")
	writeFile(t, tokens, "0123456789abcdef\n")
	c, err = loadConsoleConfig([]string{"--port=0", "--claim", "30s", "--keep", "720h", "--agents-from", "10.0.0.1, ::1,10.1.0.0/16",
		"--public-host", "a.example.org,b.example.org", "--agent", "http://127.0.0.1:8888", "--agent-token-file", tokens, "--auth-token-file", tokens})
	if err != nil || c.Keep != 720*time.Hour || c.Claim != 30*time.Second || c.Port != 0 {
		t.Errorf("flags: %+v (%v)", c, err)
	}
	if prefixes, err := readPrefixes(c.AgentsFrom); err != nil || len(prefixes) != 3 || prefixes[0].String() != "10.0.0.1/32" || prefixes[2].String() != "10.1.0.0/16" {
		t.Errorf("--agents-from is %v (%v)", prefixes, err)
	}
	for name, test := range map[string]struct {
		args  []string
		wants []string
	}{
		"unknown option":           {[]string{"--prot", "1"}, []string{"--prot", "did you mean port"}},
		"argument":                 {[]string{"serve"}, []string{`"serve"`, "agentd console --help"}},
		"host name":                {[]string{"--host", "example.org"}, []string{"--host", "0.0.0.0"}},
		"port":                     {[]string{"--port", "70000"}, []string{"--port", "65535"}},
		"public host with a port":  {[]string{"--public-host", "a.org:80"}, []string{"--public-host", "without scheme and port"}},
		"networks":                 {[]string{"--agents-from", "10.0.0.0/8,x"}, []string{"--agents-from", `"x"`, "10.0.0.0/8"}},
		"half of TLS":              {[]string{"--tls-cert", file}, []string{"--tls-cert", "--tls-key"}},
		"the other half":           {[]string{"--tls-key", file}, []string{"--tls-key", "--tls-cert"}},
		"a file as a directory":    {[]string{"--data-dir", file}, []string{"--data-dir", "not a directory"}},
		"a claim too short":        {[]string{"--claim", "1s"}, []string{"--claim", "10s"}},
		"keeping nothing":          {[]string{"--keep", "0s"}, []string{"--keep", "168h"}},
		"tokens too short":         {[]string{"--auth-token-file", file}, []string{"--auth-token-file", "line 1"}},
		"no token file":            {[]string{"--auth-token-file", file + "x"}, []string{"--auth-token-file", "no such file"}},
		"token of no agent":        {[]string{"--agent-token-file", tokens}, []string{"--agent-token-file", "--agent"}},
		"agent that is no URL":     {[]string{"--agent", "localhost:8888"}, []string{"--agent", "http"}},
		"log level":                {[]string{"--log-level", "loud"}, []string{"--log-level", "debug"}},
		"several problems at once": {[]string{"--host", "x", "--claim", "1s"}, []string{"--host", "--claim"}},
	} {
		_, err := loadConsoleConfig(test.args)
		for _, want := range test.wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", name, err, want)
			}
		}
	}
}

func TestConsoleHelpListsEveryOption(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"console", "--help"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, o := range consoleOptions(new(consoleConfig)) {
		if !strings.Contains(out.String(), "  --"+o.name) {
			t.Errorf("--%s is missing", o.name)
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
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Agentd-Console", "1")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && v != nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		t.Errorf("%s: %v in %s", url, err, raw)
	}
	return resp.StatusCode
}

func TestConsoleIsStoppedByASignalAndLosesNothing(t *testing.T) {
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
	for deadline := time.Now().Add(patience); len(list.Tasks) == 0; time.Sleep(time.Millisecond) {
		if send(t, http.MethodGet, first.url+"/api/tasks", "", token, &list); time.Now().After(deadline) {
			t.Fatal("the task did not come")
		}
	}
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
