package browser

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/protocol"
	"agentd/protocol/client"
)

// TestRepairFromFailureToCorrection runs the program itself, as agent server and as
// console: an orchestrator asks for coaching, a person corrects on the page, and
// the correction posted back to another agent server gives that decision.
func TestRepairFromFailureToCorrection(t *testing.T) {
	program := filepath.Join(t.TempDir(), "agentd")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "agentd/cmd/agentd").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	small := []string{"--context-length", "8192", "--max-new-tokens", "32"}
	first := connect(t, start(t, program, small...))
	people := start(t, program, "console", "--data-dir", t.TempDir())

	req, err := protocol.DecodeSpecializedCoachingRequest(fixture(t, "failure.json"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := protocol.NewCoachingSessionConfig()
	cfg.Provider, cfg.Endpoint = protocol.ProviderHuman, people
	if err := first.PutCoachingSession(t.Context(), req.RunID, cfg); err != nil {
		t.Fatal(err)
	}
	ended := make(chan outcome, 1)
	go func() {
		response, err := first.Coach(t.Context(), req)
		ended <- outcome{response, err}
	}()

	g := newPerson(t).open(people, desktop, high)
	g.claim("Ann")
	g.press("open_door")
	g.choose("furniture", "dishwasher")
	g.pressIn("fully", "yes")
	g.pressIn("Robot", "arm")
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")
	got := receive(t, ended)
	point, want := corrected(t, got)
	g.close()

	second := connect(t, start(t, program, small...))
	input := inputAt(t, req, point)
	input.ExtraKeys = protocol.SetMember(protocol.Raw(`{}`), "coaching", got.response.Proposals[0].ExtraKeys)
	outs, err := second.Responses(t.Context(), &protocol.AgentRequest{RequestID: "again", Inputs: []protocol.AgentInput{input}})
	if err != nil {
		t.Fatal(err)
	}
	if outs[0].Output == nil || string(outs[0].Output.AppendJSON(nil)) != want {
		t.Errorf("the other server answers %s\nwant the decision %s", protocol.AgentOutputs(outs).AppendJSON(nil), want)
	}
	if err := first.DeleteCoachingSession(t.Context(), req.RunID); err != nil {
		t.Error(err)
	}
}

// inputAt is the input of a reinjection point.
func inputAt(t *testing.T, req *protocol.SpecializedCoachingRequest, id string) protocol.AgentInput {
	t.Helper()
	for _, point := range req.ReinjectionPoints {
		if point.ID != id {
			continue
		}
		if point.Input != nil {
			return *point.Input
		}
		for _, step := range req.Trajectory {
			if step.ID == *point.InputStepID {
				return step.Input
			}
		}
	}
	t.Fatalf("the request has no point %s with an input", id)
	return protocol.AgentInput{}
}

// start runs the program on a free port until the test ends.
func start(t *testing.T, program string, args ...string) (url string) {
	t.Helper()
	c := exec.Command(program, append(args, "--port", "0", "--log-format", "json")...)
	log, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		<-read
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v", strings.Join(args, " "), err)
		}
	})
	listening := make(chan string, 1)
	go func() {
		defer close(read)
		for scanner := bufio.NewScanner(log); scanner.Scan(); {
			var line struct{ Message, URL string }
			if json.Unmarshal(scanner.Bytes(), &line) == nil && line.URL != "" {
				listening <- line.URL
				break
			}
		}
		_, _ = io.Copy(io.Discard, log) // it would wait for a reader of its log
		close(listening)
	}()
	return receive(t, listening)
}

// connect waits until an agent server is ready.
func connect(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if health, err := c.Health(t.Context()); err == nil && health.Status == protocol.HealthReady {
			return c
		} else if time.Now().After(deadline) {
			t.Fatalf("the agent server is not ready: %+v, %v", health, err)
		}
	}
}
