package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// processOf is a process of the program itself.
func processOf(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), env...), programVariable+"=1")
	return cmd
}

// TestServerOutlivesTheReaderOfItsLog, as in agentd 2>&1 | head.
func TestServerOutlivesTheReaderOfItsLog(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := processOf(t, nil, "--port", "0", "--log-format", "json", "--threads", "1", "--context-length", "1024", "--device", "cpu")
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	_ = write.Close()
	url := ""
	for lines := bufio.NewScanner(read); url == "" && lines.Scan(); {
		var line struct{ URL string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("no JSON: %s", lines.Bytes())
		}
		url = line.URL
	}
	_ = read.Close()
	for range 3 { // each is a line of the log
		answer, err := http.Get(url + "/v1/info")
		if err != nil {
			t.Fatalf("%v; the process ended with %v", err, wait(t, "the end of the process", ended))
		}
		_ = answer.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, "the end of the process", ended); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func TestWrongSettingHasTheStatusThatSupervisorsDoNotRepeat(t *testing.T) {
	unit, err := os.ReadFile("../../deploy/systemd/agentd.service")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(unit), "\nRestartPreventExitStatus=64\n") || !strings.Contains(string(unit), "\nStartLimitIntervalSec=") {
		t.Errorf("the unit starts a server with a wrong option for ever:\n%s", unit)
	}
	collector := "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	for name, test := range map[string]struct {
		env, args []string
		status    int
		want      string
	}{
		"an unknown option":  {nil, []string{"--prot", "1"}, 64, "agentd: option --prot is unknown; did you mean --port?\n"},
		"a wrong value":      {nil, []string{"--port", "x"}, 64, "agentd: --port: "},
		"a wrong variable":   {[]string{collector, "OTEL_BSP_MAX_QUEUE_SIZE=-5"}, []string{"--port", "0"}, 64, "agentd: OTEL_BSP_MAX_QUEUE_SIZE is"},
		"a broken template":  {nil, []string{"--port", "0", "--chat-template", "{{"}, 64, "agentd: --chat-template: "},
		"no such thinking":   {nil, []string{"--port", "0", "--enable-thinking"}, 64, "agentd: --enable-thinking: "},
		"in a log of JSON":   {[]string{collector, "OTEL_BSP_MAX_QUEUE_SIZE=-5"}, []string{"--port", "0", "--log-format", "json"}, 64, `"level":"error"`},
		"an unknown command": {nil, []string{"run", "m"}, 1, "agentd MODEL.gguf and agentd --hf OWNER/REPO serve a model"},
		"help":               {nil, []string{"--help"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := processOf(t, test.env, test.args...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			err := cmd.Run()
			status := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				status = exit.ExitCode()
			}
			if status != test.status || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("status %d, want %d: %s", status, test.status, &stderr)
			}
			if !strings.Contains(name, "JSON") {
				return
			}
			for line := range strings.Lines(stderr.String()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %s", line)
				}
			}
		})
	}
}

func TestSignalEndsTheWaitForAPipe(t *testing.T) {
	for _, command := range []string{"export", "calibrate"} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := processOf(t, nil, command, pipe)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the command reads
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		wait(t, "the end of agentd "+command, ended)
	}
}

func TestFullDiskIsAnErrorOfEveryPage(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range []string{"version", "help", "man", "completion bash", "check --list"} {
		cmd := processOf(t, nil, strings.Fields(args)...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &stderr
		if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%s: %v, %s", args, err, &stderr)
		}
	}
}

func TestHelpEndsQuietlyWithItsReader(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	defer write.Close()
	cmd := processOf(t, nil, "--help")
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = write, &stderr
	if err := cmd.Run(); stderr.Len() > 0 {
		t.Errorf("%v: %s", err, &stderr)
	}
}
