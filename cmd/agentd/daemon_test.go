package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/cmd/agentd/internal/commands"
	"agentd/cmd/agentd/serve"
	"agentd/cmd/internal/cli"
	"agentd/coaching/backend"
	"agentd/inference/load"
	"agentd/internal/base/waittest"
	"agentd/protocol"
)

// fakeModel waits until it is released before it decides.
type fakeModel struct {
	started chan struct{}
	release chan struct{}
	closed  chan struct{}
}

func newFakeModel() *fakeModel {
	return &fakeModel{make(chan struct{}, 8), make(chan struct{}), make(chan struct{})}
}

func (m *fakeModel) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	m.started <- struct{}{}
	select {
	case <-m.release:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return []protocol.AgentOutput{{
		RequestID: req.RequestID, SourceID: req.Inputs[0].ID, Status: "completed",
		Memory: protocol.Raw("{}"), Output: &protocol.AgentDecision{Say: "done"},
	}}, nil
}
func (*fakeModel) Ask(context.Context, backend.Question) (backend.Answer, error) {
	return backend.Answer{}, &backend.Error{Kind: backend.KindFailed, Detail: "a fake"}
}
func (*fakeModel) Window() int { return 4096 }
func (*fakeModel) Collector() prometheus.Collector {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: "fake"})
}
func (*fakeModel) Info() load.EngineInfo { return load.EngineInfo{Path: "fake.gguf"} }
func (m *fakeModel) Close() error        { close(m.closed); return nil }

// startFake runs a daemon whose model comes from load.
func startFake(t *testing.T, load func(context.Context) (serve.Model, error), args ...string) *running {
	t.Helper()
	return startAt(t, load, time.Now, args...)
}

// startAt is startFake with a clock for signals, and without load a server of the real model.
func startAt(t *testing.T, load func(context.Context) (serve.Model, error), now func() time.Time, args ...string) *running {
	t.Helper()
	r, _ := startChanged(t, func(d *serve.Daemon) {
		d.Now = now
		if load != nil {
			d.Load = load
		}
	}, append([]string{"--log-level", "debug"}, args...)...)
	return r
}

// startChanged runs a daemon that change changes before it starts, and returns its configuration, too.
func startChanged(t *testing.T, change func(d *serve.Daemon), args ...string) (*running, *serve.Config) {
	t.Helper()
	args = append([]string{"--port", "0", "--log-format", "json"}, args...)
	c, from, err := serve.Parse(args, func(string) (string, bool) { return "", false }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, func(ctx context.Context, stderr io.Writer) error {
		d := serve.New(c, from, stderr)
		change(d)
		return d.Run(ctx)
	}), c
}

func ready(m *fakeModel) func(context.Context) (serve.Model, error) {
	return func(context.Context) (serve.Model, error) { return m, nil }
}

const oneInput = `{"request_id": "r", "inputs": [{"id": 1, "instruction": {"type": "user", "content": "hi"}}]}`

// exchange sends a request on its own connection and returns status and body.
func exchange(method, url, body string) (status int, answer string, err error) {
	status, _, answer, err = exchangeHeader(method, url, body, nil)
	return status, answer, err
}

// exchangeHeader is exchange with headers.
func exchangeHeader(method, url, body string, send http.Header) (status int, header http.Header, answer string, err error) {
	return exchangeWithin(context.Background(), method, url, body, send)
}

// exchangeWithin is exchangeHeader by a client that leaves when ctx ends.
func exchangeWithin(ctx context.Context, method, url, body string, send http.Header) (status int, header http.Header, answer string, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	maps.Copy(req.Header, send)
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(raw), err
}

// health waits until /health answers what is wanted.
func (r *running) health(want string) {
	r.t.Helper()
	waittest.Eventually(r.t, "health is "+want, func() bool {
		select {
		case err := <-r.done:
			r.done <- err
			r.t.Fatalf("the server ended while waiting for %s: %v\n%s", want, err, r.log)
		default:
		}
		_, body, err := exchange("GET", r.url+"/health", "")
		return err == nil && strings.Contains(body, want)
	})
}

// post sends one request for candidates in the background and delivers "status body".
func (r *running) post(body string) <-chan string { return r.later("/v1/responses", body) }

// later posts a body in the background and delivers "status body".
func (r *running) later(path, body string) <-chan string { return r.laterHeader(path, body, nil) }

func (r *running) laterHeader(path, body string, header http.Header) <-chan string {
	answer := make(chan string, 1)
	go func() {
		status, _, text, err := exchangeHeader("POST", r.url+path, body, header)
		if err != nil {
			text = err.Error()
		}
		answer <- fmt.Sprint(status, " ", text)
	}()
	return answer
}

func interrupt(t *testing.T) { interruptWith(t, syscall.SIGTERM) }

func interruptWith(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(syscall.Getpid(), signal); err != nil {
		t.Fatal(err)
	}
}

func TestPortAnswersWhileTheModelLoads(t *testing.T) { atBase(t, portAnswersWhileLoading) }

func portAnswersWhileLoading(t *testing.T, base string) {
	proceed, m := make(chan struct{}), newFakeModel()
	close(m.release)
	r := startFake(t, func(context.Context) (serve.Model, error) {
		<-proceed
		return m, nil
	}).at(base)
	r.health("loading")
	early := r.post(oneInput)
	if status, body, err := exchange("GET", r.url+"/v1/info", ""); status != 200 || !strings.Contains(body, `"inference":true`) {
		t.Errorf("info while loading: %d %s %v", status, body, err)
	}
	close(proceed)
	r.health("ready")
	if got := wait(t, "the answer", early); !strings.HasPrefix(got, "200 ") {
		t.Errorf("work from before it was ready: %s", got)
	}
	if got := wait(t, "the answer", r.post(oneInput)); !strings.HasPrefix(got, "200 ") {
		t.Errorf("work when ready: %s", got)
	}
}

func TestZeroLoadingWaitRefusesWorkWhileLoading(t *testing.T) {
	r := startFake(t, func(ctx context.Context) (serve.Model, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, "--loading-wait", "0s")
	if got := wait(t, "the refusal", r.post(oneInput)); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "loading") {
		t.Errorf("got %s", got)
	}
}

func TestFailedLoadIsReportedToWaitingRequests(t *testing.T) {
	fail := make(chan struct{})
	r := startFake(t, func(context.Context) (serve.Model, error) {
		<-fail
		return nil, errors.New("x.gguf is broken")
	})
	answer := r.post(oneInput)
	r.becomes("agentd_http_requests_in_flight", 2) // it, and the one that asks for this number
	close(fail)
	if got := wait(t, "the answer", answer); !strings.HasPrefix(got, "503 ") {
		t.Errorf("got %s", got)
	}
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "x.gguf is broken") {
		t.Errorf("run returned %v", err)
	}
}

func TestSignalWhileLoadingStopsTheLoad(t *testing.T) {
	r := startFake(t, func(ctx context.Context) (serve.Model, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	interrupt(t)
	if err := r.end(); err != nil {
		t.Errorf("run returned %v", err)
	}
}

func TestModelLoadedAfterSignalIsClosed(t *testing.T) {
	m := newFakeModel()
	r := startFake(t, func(ctx context.Context) (serve.Model, error) {
		<-ctx.Done()
		return m, nil
	})
	interrupt(t)
	if err := r.end(); err != nil {
		t.Errorf("run returned %v", err)
	}
	wait(t, "the model's end", m.closed)
}

// startWork starts a server whose model computes one request.
func startWork(t *testing.T, base string, args ...string) (m *fakeModel, r *running, answer <-chan string) {
	t.Helper()
	return startWorkAt(t, base, time.Now, args...)
}

// startWorkAt is startWork with a clock for signals.
func startWorkAt(t *testing.T, base string, now func() time.Time, args ...string) (m *fakeModel, r *running, answer <-chan string) {
	t.Helper()
	m = newFakeModel()
	r = startAt(t, ready(m), now, args...).at(base)
	r.health("ready")
	answer = r.post(oneInput)
	wait(t, "the work's start", m.started)
	return m, r, answer
}

func TestFirstSignalDrains(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		atBase(t, func(t *testing.T, base string) { firstSignalDrains(t, base, signal) })
	}
}

func firstSignalDrains(t *testing.T, base string, signal syscall.Signal) {
	m, r, answer := startWork(t, base)
	interruptWith(t, signal)
	r.health("draining")
	if got := wait(t, "the refusal", r.post(oneInput)); !strings.HasPrefix(got, "503 ") {
		t.Errorf("new work while draining: %s", got)
	}
	close(m.release)
	if got := wait(t, "the answer", answer); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "done") {
		t.Errorf("work in flight: %s", got)
	}
	if err := r.end(); err != nil {
		t.Errorf("run returned %v", err)
	}
	wait(t, "the model's end", m.closed)
}

// secondsApart is a clock that is a second later at each look.
func secondsApart() func() time.Time {
	var looks atomic.Int64
	return func() time.Time { return time.Unix(looks.Add(1), 0) }
}

func TestSecondSignalEndsAtOnce(t *testing.T) { atBase(t, secondSignalEnds) }

func secondSignalEnds(t *testing.T, base string) {
	m, r, answer := startWorkAt(t, base, secondsApart())
	interrupt(t)
	r.health("draining")
	interrupt(t)
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "second signal") || !strings.Contains(err.Error(), "1 requests unanswered") {
		t.Errorf("run returned %v", err)
	}
	if got := wait(t, "the client's end", answer); strings.HasPrefix(got, "200 ") {
		t.Errorf("cancelled work was answered %s", got)
	}
	wait(t, "the model's end", m.closed)
}

// TestRepeatedSignalsCountOnce: timeout(1) sends two.
func TestRepeatedSignalsCountOnce(t *testing.T) { atBase(t, repeatedSignalsCountOnce) }

func repeatedSignalsCountOnce(t *testing.T, base string) {
	looks := make(chan struct{}, 3)
	m, r, answer := startWorkAt(t, base, func() time.Time {
		looks <- struct{}{}
		return time.Unix(1, 0)
	})
	for range cap(looks) {
		interrupt(t)
		wait(t, "the signal", looks)
	}
	close(m.release)
	if got := wait(t, "the answer", answer); !strings.HasPrefix(got, "200 ") {
		t.Errorf("work in flight: %s", got)
	}
	if err := r.end(); err != nil {
		t.Errorf("run returned %v", err)
	}
	wait(t, "the model's end", m.closed)
}

func TestTakenPortIsExplained(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	err = run(context.Background(), []string{"--port", port}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "port "+port) || !strings.Contains(err.Error(), "--port") {
		t.Errorf("run returned %v", err)
	}
}

// TestEachSecretFileIsKnownAsOne: an option for a token or key warns of a file that others can read.
func TestEachSecretFileIsKnownAsOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	writeFile(t, path, "x")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	found := 0
	for name, command := range lines() {
		for _, o := range command.Options {
			if !strings.HasSuffix(o.Name, "token-file") && !strings.HasSuffix(o.Name, "key-file") && o.Name != "tls-key" {
				continue
			}
			found++
			if err := o.Value.Set(path); err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(command.ExposedSecrets(), "\n"); !strings.Contains(text, "--"+o.Name+": ") {
				t.Errorf("%s --%s: the warnings are %q", name, o.Name, text)
			}
		}
	}
	if found < 8 {
		t.Errorf("%d options for secret files were found", found)
	}
}

func TestServerWarnsOfTokensThatOthersCanRead(t *testing.T) {
	for mode, warns := range map[os.FileMode]bool{0o644: true, 0o600: false} {
		tokens := filepath.Join(t.TempDir(), "tokens")
		writeFile(t, tokens, "SECRET-0123456789abcdef\n")
		if err := os.Chmod(tokens, mode); err != nil {
			t.Fatal(err)
		}
		r := startFake(t, ready(newFakeModel()), "--auth-token-file", tokens)
		r.health("ready")
		r.stop()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if got := strings.Contains(r.log.String(), "run: chmod 600 "+tokens); got != warns {
			t.Errorf("mode %04o: a warning: %t, want %t\n%s", mode, got, warns, r.log)
		}
	}
}

func TestMisspeltVariableIsWarnedOf(t *testing.T) {
	t.Setenv("AGENTD_PROT", "1")
	r := startFake(t, ready(newFakeModel()))
	r.health("ready")
	if want := `"level":"warn"`; !strings.Contains(r.log.String(), want) || !strings.Contains(r.log.String(), "AGENTD_PROT is unknown; did you mean AGENTD_PORT?") {
		t.Errorf("the log lacks the warning:\n%s", r.log)
	}
}

func TestConfigurationIsLoggedWithoutSecrets(t *testing.T) {
	tokens := t.TempDir() + "/tokens"
	writeFile(t, tokens, "SECRET-0123456789abcdef\n")
	m := newFakeModel()
	r := startFake(t, ready(m), "--auth-token-file", tokens, "--max-new-tokens", "77", "--chat-template", "{{ "+strings.Repeat("x", 100)+" }}")
	r.health("ready")
	if status, _, err := exchange("GET", r.url+"/v1/info", ""); status != 401 {
		t.Errorf("without a token: %d, %v", status, err)
	}
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	for _, part := range []string{`"max_new_tokens":"77 (--max-new-tokens)"`, "Jinja text of 106 bytes", "fake.gguf", `"message":"ready"`, `"message":"stopped"`} {
		if !strings.Contains(r.log.String(), part) {
			t.Errorf("the log lacks %s:\n%s", part, r.log)
		}
	}
	if strings.Contains(r.log.String(), "SECRET") {
		t.Errorf("the log holds a token:\n%s", r.log)
	}
}

func TestHelpListsEveryCommand(t *testing.T) {
	var page bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, &page, io.Discard); err != nil {
		t.Fatal(err)
	}
	unknown := run(t.Context(), []string{"sreve"}, io.Discard, io.Discard)
	for name := range commands.Runners {
		if line := strings.Replace("\n  agentd "+name, "serve", "[serve]", 1); strings.Count(page.String(), line) != 1 {
			t.Errorf("want %q once in\n%s", line, &page)
		}
		if !strings.Contains(unknown.Error(), name) {
			t.Errorf("%q lacks %s", unknown, name)
		}
	}
	if len(cli.Commands) != len(commands.Runners) {
		t.Errorf("the help has %d commands, the program %d", len(cli.Commands), len(commands.Runners))
	}
}

func TestSubcommands(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		out  string
		err  string
	}{
		"version":                {[]string{"version"}, "agentd ", ""},
		"--version":              {[]string{"--version"}, "agentd ", ""},
		"serve --version":        {[]string{"serve", "--version"}, "agentd ", ""},
		"help":                   {[]string{"help"}, "--max-new-tokens TOKENS", ""},
		"help of a command":      {[]string{"help", "pull"}, "HF_HUB_OFFLINE", ""},
		"help of nothing":        {[]string{"help", "sreve"}, "", `"sreve"`},
		"--help":                 {[]string{"--help"}, "Examples", ""},
		"serve -h":               {[]string{"serve", "-h"}, "Signals", ""},
		"an unknown command":     {[]string{"sreve"}, "", `"sreve"`},
		"a hub's name":           {[]string{"owner/repo"}, "", "or use --hf owner/repo"},
		"a missing model":        {[]string{"/nonexistent/m.gguf"}, "", "--model: /nonexistent/m.gguf does not exist"},
		"serve, missing model":   {[]string{"serve", "/nonexistent/m.gguf"}, "", "--model: /nonexistent/m.gguf does not exist"},
		"pull --help":            {[]string{"pull", "--help"}, "HF_HUB_OFFLINE", ""},
		"pull without a name":    {[]string{"pull"}, "", "name one repository"},
		"pull, bad name":         {[]string{"pull", "x"}, "", "want OWNER/REPO"},
		"a bad option":           {[]string{"--port", "x"}, "", "--port"},
		"convert, no directory":  {[]string{"convert", "testdata", "/nonexistent/m.gguf"}, "", "FILE: /nonexistent is not a directory"},
		"make-model --help":      {[]string{"make-model", "--help"}, "--shape", ""},
		"make-model without out": {[]string{"make-model"}, "", "--out"},
		"make-model, bad arch":   {[]string{"make-model", "--arch", "x", "--out", "/nonexistent/x"}, "", "--arch"},
		"make-model, bad type":   {[]string{"make-model", "--type", "x", "--out", "/nonexistent/x"}, "", "--type: got"},
		"make-model, bad option": {[]string{"make-model", "--x"}, "", "--help"},
		"make-model, argument":   {[]string{"make-model", "x"}, "", `"x"`},
		"make-model, file there": {[]string{"make-model", "--out", "/dev/null"}, "", "/dev/null exists"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, log bytes.Buffer
			err := run(context.Background(), test.args, &out, &log)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if !strings.Contains(out.String(), test.out) || test.out == "" && out.Len() > 0 {
				t.Errorf("output %q lacks %q", &out, test.out)
			}
		})
	}
}

func TestMakeModelWritesAModel(t *testing.T) {
	path := t.TempDir() + "/m.gguf"
	var out bytes.Buffer
	if err := run(context.Background(), []string{"make-model", "--arch", "gpt-oss", "--out", path}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || !strings.Contains(out.String(), "random weights") {
		t.Errorf("%v, %s", err, &out)
	}
}
