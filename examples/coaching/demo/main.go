// Command demo starts what an orchestrator of this example needs, an agent
// server and the scripted coach, runs the orchestrator, and stops what it
// started. It ends as the orchestrator ends.
//
//	go run ./examples/coaching/demo python3 examples/coaching/orchestrator.py
//
// The orchestrator finds both in its environment: AGENTD_URL and COACH_URL. One
// that is set already is used and not started. Without an orchestrator, demo
// waits for Ctrl-C.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"agentd/examples/coaching/coach"
)

// patience is how long a program may take to end after it was asked to.
const patience = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	var failed *exec.ExitError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.As(err, &failed): // the orchestrator has said why
		os.Exit(1)
	default:
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	program := flags.String("agentd", "./agentd", "`path` of agentd, as make builds it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	agentURL, coachURL := os.Getenv("AGENTD_URL"), os.Getenv("COACH_URL")

	if agentURL == "" {
		server, err := startAgentd(ctx, *program)
		if err != nil {
			return err
		}
		defer server.stop()
		agentURL = server.url
		fmt.Printf("Started agentd at %s, with the default model. AGENTD_URL=http://... uses yours.\n", agentURL)
	}
	if coachURL == "" {
		url, stop, err := startCoach(ctx)
		if err != nil {
			return err
		}
		defer stop()
		coachURL = url
	}
	environment := []string{"AGENTD_URL=" + agentURL, "COACH_URL=" + coachURL}

	if flags.NArg() == 0 {
		fmt.Printf("Ready; Ctrl-C ends it.\n\n  export %s\n", strings.Join(environment, " "))
		<-ctx.Done()
		return nil
	}
	orchestrator := command(ctx, flags.Arg(0), flags.Args()[1:]...)
	orchestrator.Env = append(os.Environ(), environment...)
	orchestrator.Stdout, orchestrator.Stderr = os.Stdout, os.Stderr
	return orchestrator.Run()
}

// command is a program that is interrupted when ctx ends. It gets its own process
// group, so that Ctrl-C reaches it once and through us: the server
// must outlive the orchestrator, which deletes its session at the end.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // running the user's program is the purpose
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
	c.WaitDelay = patience
	return c
}

// server is an agentd that was started here.
type server struct {
	url  string
	stop func()
}

// startAgentd starts agentd with the default model on a free port and waits until it listens.
func startAgentd(ctx context.Context, program string) (*server, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it is stopped after the orchestrator
	c := command(ctx, program, "--host", "127.0.0.1", "--port", "0", "--log-format", "json", "--context-length", "16384")
	stop := func() {
		cancel()
		_ = c.Wait() // it was interrupted
	}
	log, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("agentd can't be started (make builds it): %w", err)
	}

	var lines strings.Builder
	for scanner := bufio.NewScanner(log); scanner.Scan(); {
		var line struct{ Message, URL string }
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Message == "listening" {
			// It would wait for a reader of its log otherwise.
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return &server{line.URL, stop}, nil
		}
		fmt.Fprintln(&lines, scanner.Text())
	}
	stop()
	return nil, fmt.Errorf("agentd does not listen. Its log:\n%s", lines.String())
}

// startCoach serves the scripted coach on a free port of this machine.
func startCoach(ctx context.Context) (url string, stop func(), err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	// Its words go into the orchestrator's transcript.
	said := func(a coach.Answer) { fmt.Printf("  coach   %q\n", a.Why) }
	s := &http.Server{Handler: coach.Handler(said), ReadHeaderTimeout: patience}
	go func() { _ = s.Serve(listener) }() // returns when it is closed
	return "http://" + listener.Addr().String() + "/v1", func() { _ = s.Close() }, nil
}
