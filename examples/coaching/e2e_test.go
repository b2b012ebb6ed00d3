// Package coaching_test runs the example as a newcomer does, against agentd as
// it is built from this source.
package coaching_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/protocol"
	"agentd/protocol/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a program may take; only failures take it.
const patience = 4 * time.Minute

// build is the path of agentd.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agentd")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "agentd/cmd/agentd").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// orchestrator is the command of the orchestrator.
var orchestrator = []string{"python3", "-B", "orchestrator.py"}

// demo is the command of the demo with further arguments.
func demo(agentd string, more ...string) []string {
	return append([]string{"python3", "-B", "demo.py", "--agentd", agentd}, more...)
}

// outcome is the result of a program that has ended.
type outcome struct {
	code           int
	stdout, stderr string
	logs           []string // contents of the coaching logs
}

// execute runs a command that ends with the options of an orchestrator. The
// environment names neither an agent server nor a coach, unless env does.
func execute(t *testing.T, env []string, command ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	logs := t.TempDir()
	c := exec.CommandContext(ctx, command[0], append(command[1:], "--logs", logs)...)
	c.Env = append(os.Environ(), "AGENTD_URL=", "COACH_URL=", "COACH_MODEL=")
	c.Env = append(c.Env, env...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); c.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%s: %v, %v", command, err, ctx.Err())
	}
	o := outcome{code: c.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	files, err := filepath.Glob(filepath.Join(logs, "household-*", "step-*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o.logs = append(o.logs, string(text))
	}
	return o
}

// finished checks a run in which every step that failed was repaired.
func (o outcome) finished(t *testing.T) {
	t.Helper()
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", o.code, o.stdout, o.stderr)
	}
	for _, part := range []string{"Step 1\n", "  FAILED  ", "  repair  ", "  again   arm.unlock ", "Finished after ", "The medicine is on the table.", "Logs:  "} {
		if !strings.Contains(o.stdout, part) {
			t.Errorf("the transcript has no %q:\n%s", part, o.stdout)
		}
	}
	if corrections := strings.Count(o.stdout, "  repair  "); len(o.logs) != corrections {
		t.Errorf("%d logs of %d corrections", len(o.logs), corrections)
	}
	for _, log := range o.logs {
		if !strings.Contains(log, "again-at-step-") {
			t.Errorf("a log without the point:\n%s", log)
		}
	}
}

// unfinished checks a run that had to be given up.
func (o outcome) unfinished(t *testing.T, reason string) {
	t.Helper()
	if o.code != 1 || !strings.Contains(o.stderr, "The task is not finished") || !strings.Contains(o.stderr, reason) {
		t.Errorf("exit code %d\n%s\n%s", o.code, o.stdout, o.stderr)
	}
	if strings.Contains(o.stdout, "Finished") || len(o.logs) == 0 {
		t.Errorf("%d logs, and:\n%s", len(o.logs), o.stdout)
	}
}

var (
	runID   = regexp.MustCompile(`The run (household-\w+):`)
	started = regexp.MustCompile(`Started agentd at http://(\S+),`)
	exports = regexp.MustCompile(`export (AGENTD_URL=\S+) (COACH_URL=\S+)`)
)

// sessionIsGone checks that the orchestrator has deleted its session.
func (o outcome) sessionIsGone(t *testing.T, agentURL string) {
	t.Helper()
	found := runID.FindStringSubmatch(o.stdout)
	if found == nil {
		t.Fatalf("no run:\n%s", o.stdout)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	agent, err := client.New(agentURL, client.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.DeleteCoachingSession(t.Context(), found[1]); !client.IsStatus(err, http.StatusNotFound) {
		t.Errorf("deleting the session once more: %v", err)
	}
}

func refusesConnections(t *testing.T, address string) {
	t.Helper()
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Errorf("%s still listens", address)
	}
}

func TestExample(t *testing.T) {
	agentd := build(t)

	t.Run("one command starts everything, finishes the task and leaves nothing running", func(t *testing.T) {
		o := execute(t, nil, demo(agentd, orchestrator...)...)
		o.finished(t)
		found := started.FindStringSubmatch(o.stdout)
		if found == nil {
			t.Fatalf("agentd was not started:\n%s", o.stdout)
		}
		refusesConnections(t, found[1])
		if said := strings.Count(o.stdout, "  coach   "); said == 0 || said > len(o.logs) {
			t.Errorf("the coach spoke %d times in %d coachings:\n%s", said, len(o.logs), o.stdout)
		}
		// The default model needs the coach only for the lock.
		for _, part := range []string{"Finished after 7 steps, corrections: 1.\n", `agent   says "Done: the medicine is on the table."`} {
			if !strings.Contains(o.stdout, part) {
				t.Errorf("the transcript has no %q:\n%s", part, o.stdout)
			}
		}
	})

	t.Run("Ctrl-C ends everything in good order", func(t *testing.T) { interrupted(t, agentd) })

	t.Run("an orchestrator that fails makes the command fail", func(t *testing.T) {
		o := execute(t, nil, demo(agentd, "sh", "-c", "exit 3")...)
		if o.code != 1 {
			t.Errorf("exit code %d\n%s", o.code, o.stderr)
		}
	})

	t.Run("a missing agentd is said", func(t *testing.T) {
		o := execute(t, nil, demo(agentd+"-missing", orchestrator...)...)
		if o.code != 1 || !strings.Contains(o.stderr, "make builds it") {
			t.Errorf("exit code %d\n%s", o.code, o.stderr)
		}
	})

	t.Run("with a server that runs already", func(t *testing.T) { withServer(t, agentd) })
}

// interrupted ends the example while a person is being waited for.
func interrupted(t *testing.T, agentd string) {
	asked, withdrawn := make(chan struct{}, 1), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusNotFound) // this console knows no withdrawal but a closed connection
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // the server sees a closed connection only after that
		asked <- struct{}{}
		<-r.Context().Done()
		close(withdrawn)
	}))
	defer s.Close()
	command := append(demo(agentd, orchestrator...), "--human", s.URL, "--logs", t.TempDir())
	demo := exec.CommandContext(t.Context(), command[0], command[1:]...)
	demo.Env = append(os.Environ(), "AGENTD_URL=", "COACH_URL=")
	var stdout, stderr bytes.Buffer
	demo.Stdout, demo.Stderr = &stdout, &stderr
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the question to the person", asked)
	if err := demo.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = demo.Wait()
	if demo.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "The task is not finished") {
		t.Errorf("exit code %d\n%s\n%s", demo.ProcessState.ExitCode(), &stdout, &stderr)
	}
	wait(t, "the withdrawal of the question", withdrawn)
	if found := started.FindStringSubmatch(stdout.String()); found == nil {
		t.Errorf("agentd was not started:\n%s", &stdout)
	} else {
		refusesConnections(t, found[1])
	}
}

func wait(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
}

// withServer has one server for all runs, the one that demo starts for those
// who want to run an orchestrator themselves.
func withServer(t *testing.T, agentd string) {
	command := demo(agentd)
	running := exec.CommandContext(t.Context(), command[0], command[1:]...)
	running.Env = append(os.Environ(), "AGENTD_URL=", "COACH_URL=")
	running.Stderr = os.Stderr
	stdout, err := running.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	var env []string
	for lines := bufio.NewScanner(stdout); env == nil && lines.Scan(); {
		if found := exports.FindStringSubmatch(lines.Text()); found != nil {
			env = found[1:]
		}
	}
	if env == nil {
		t.Fatal("demo does not say what to export")
	}
	agentURL := strings.TrimPrefix(env[0], "AGENTD_URL=")
	declining := httptest.NewServer(http.HandlerFunc(decline))
	defer declining.Close()

	t.Run("demo starts nothing that the environment names", func(t *testing.T) {
		o := execute(t, env, demo(agentd+"-missing", orchestrator...)...)
		o.finished(t)
		if started.MatchString(o.stdout) {
			t.Error("it started agentd")
		}
	})
	plan := coach(t)
	wrong := func(string, int) *protocol.HumanCoachingResponse { return completed(wrongCode) }
	right := func(question string, _ int) *protocol.HumanCoachingResponse { return planned(t, plan(question)) }
	for name, test := range map[string]struct {
		env    []string
		person func(question string, tasks int) *protocol.HumanCoachingResponse // nil: a model coaches
		reason string                                                           // why the task is not finished
		parts  []string                                                         // of the transcript
	}{
		"the scripted coach":                             {},
		"the scripted coach, at the base path for MAGMA": {env: []string{env[0] + "/magma"}},
		"a coach that declines":                          {env: []string{"COACH_URL=" + declining.URL}, reason: "It can't be helped."},
		"a person":                                       {person: right},
		"a repair that fails is repaired itself": {
			person: func(question string, tasks int) *protocol.HumanCoachingResponse {
				if tasks == 1 {
					return completed(wrongCode)
				}
				return planned(t, plan(question))
			},
			parts: []string{"arm.unlock: The lock of the cupboard does not take the code", "repair  failure, corrected at again-at-step-"},
		},
		"a coach who is always wrong": {person: wrong, reason: "it still fails after 3 corrections"},
		"a person who skips the task": {person: func(string, int) *protocol.HumanCoachingResponse {
			return &protocol.HumanCoachingResponse{Status: protocol.HumanSkipped, Error: "Lunch first."}
		}, reason: "Lunch first."},
	} {
		t.Run(name, func(t *testing.T) {
			command := orchestrator
			if test.person != nil {
				s := httptest.NewServer(person(t, test.person))
				defer s.Close()
				command = append(slices.Clone(command), "--human", s.URL)
			}
			o := execute(t, slices.Concat(env, test.env), command...)
			if test.reason == "" {
				o.finished(t)
			} else {
				o.unfinished(t, test.reason)
			}
			for _, part := range test.parts {
				if !strings.Contains(o.stdout, part) {
					t.Errorf("the transcript has no %q:\n%s", part, o.stdout)
				}
			}
			o.sessionIsGone(t, agentURL)
		})
	}

	if err := running.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := running.Wait(); err != nil {
		t.Errorf("demo ends with %v", err)
	}
	refusesConnections(t, strings.TrimPrefix(agentURL, "http://"))
}

// decline is a model that coaches nothing.
func decline(w http.ResponseWriter, _ *http.Request) {
	answer := `{"outcome":"abandoned","why":"It can't be helped.","reinjection_point_id":"","decision":{"say":"","tool_calls":[]}}`
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":0,"model":"m","choices":[{"index":0,"finish_reason":"stop",
		"message":{"role":"assistant","content":%q}}]}`, answer)
}

// wrongCode is a correction that fails, in the form of the history.
const wrongCode = `{"say":"","action":{"arm":{"name":"unlock","arguments":{"furniture":"cupboard","code":"0000"}}}}`

func completed(output string) *protocol.HumanCoachingResponse {
	return &protocol.HumanCoachingResponse{Status: protocol.HumanCompleted, Output: &output}
}

// planned answers as the scripted coach does.
func planned(t *testing.T, p proposal) *protocol.HumanCoachingResponse {
	d := protocol.AgentDecision{Say: p.Decision.Say}
	for _, c := range p.Decision.Calls {
		d.ToolCalls = append(d.ToolCalls, protocol.ToolCall{Name: c.Name, Arguments: c.Arguments, TargetRobotName: c.Robot})
	}
	return completed(string(d.AppendJSON(nil)))
}

// person is a console at which somebody answers at once. Tasks come one after the other, and are counted from 1.
func person(t *testing.T, answer func(question string, tasks int) *protocol.HumanCoachingResponse) http.Handler {
	mux, tasks := http.NewServeMux(), 0
	mux.HandleFunc("POST /v1/coaching/requests", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		task, err := protocol.DecodeHumanCoachingRequest(body)
		if err != nil {
			t.Error(err)
			return
		}
		tasks++
		response := answer(task.RenderedPrompt+string(task.Payload), tasks)
		response.RequestID = task.RequestID
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(response.AppendJSON(nil))
	})
	return mux
}
