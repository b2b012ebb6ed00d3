package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"agentd/internal/base/version"
)

// programVariable makes a process of this test binary the program itself.
const programVariable = "TEST_IS_AGENTD"

// startAlone starts the program with the default model in a directory and an environment, and waits until it is
// ready. end sends a signal, and returns what the program said then and how it ended.
func startAlone(t *testing.T, dir string, env []string) (end func(syscall.Signal) (said string, err error)) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "--port", "0", "--log-format", "json", "--threads", "1", "--context-length", "2048", "--device", "cpu")
	cmd.Dir, cmd.Env = dir, append(env, programVariable+"=1")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	var before strings.Builder
	for !strings.Contains(before.String(), `"message":"ready"`) {
		line, err := lines.ReadString('\n')
		if before.WriteString(line); err != nil {
			t.Fatalf("%v; it said %s", err, before.String())
		}
	}
	return func(signal syscall.Signal) (string, error) {
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		after, err := io.ReadAll(lines)
		if err != nil {
			t.Fatal(err)
		}
		return string(after), cmd.Wait()
	}
}

func TestCrashLineNamesBuild(t *testing.T) {
	after, err := startAlone(t, "", os.Environ())(syscall.SIGABRT)
	var end *exec.ExitError
	if !errors.As(err, &end) || end.ExitCode() != 2 {
		t.Errorf("it ended with %v", err)
	}
	want := fmt.Sprintf(`(?m)^\S+: fatal signal SIGABRT \(sent by process %d\) on thread \d+ .*; build: %s, llama\.cpp`, os.Getpid(), regexp.QuoteMeta(version.Line("agentd")))
	if !regexp.MustCompile(want).MatchString(after) {
		t.Errorf("%s is not in %s", want, after)
	}
}
