package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/coaching"
	"agentd/coaching/console"
	"agentd/protocol"
	"agentd/protocol/client"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// house is a console on a loopback port, and agents that ask it.
type house struct {
	t       *testing.T
	clock   *clock
	url     string
	address string
	options console.Options
	stop    func()
	coaches *coaching.Service
}

func newHouse(t *testing.T, change ...func(*console.Options)) *house {
	t.Helper()
	h := &house{t: t, clock: &clock{at: time.Now()}, address: "127.0.0.1:0"}
	h.options = console.Options{
		Path: filepath.Join(t.TempDir(), "console.db"),
		Log:  zerolog.Nop(),
		Now:  h.clock.now,
	}
	for _, f := range change {
		f(&h.options)
	}
	h.start()
	t.Cleanup(func() { h.stop() })
	return h
}

// start opens the console; after a stop, again on the same port and file.
func (h *house) start() {
	h.t.Helper()
	c, err := console.Open(h.options)
	if err != nil {
		h.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.address = listener.Addr().String()
	h.url = "http://" + h.address
	served := make(chan error, 1)
	go func() { served <- c.Serve(listener) }()
	h.stop = sync.OnceFunc(func() {
		// Pages keep connections open: Close ends them.
		if err := c.Close(); err != nil {
			h.t.Errorf("Close: %v", err)
		}
		if err := <-served; err != nil {
			h.t.Errorf("Serve: %v", err)
		}
	})
}

// sessions is the coaching of an agent server, whose people are at this
// console.
func (h *house) sessions() *coaching.Service {
	h.t.Helper()
	if h.coaches != nil {
		return h.coaches
	}
	s, err := coaching.New(coaching.Options{Log: zerolog.Nop()})
	if err != nil {
		h.t.Fatal(err)
	}
	h.coaches = s
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			h.t.Errorf("closing the sessions: %v", err)
		}
	})
	return s
}

// outcome is how a coaching request ended.
type outcome struct {
	response *protocol.SpecializedCoachingResponse
	err      error
}

// coach sends the request of a file as an orchestrator would, with people as
// its coaches.
func (h *house) coach(file string) <-chan outcome {
	h.t.Helper()
	req, err := protocol.DecodeSpecializedCoachingRequest(fixture(h.t, file))
	if err != nil {
		h.t.Fatal(err)
	}
	return h.coachRequest(req)
}

func (h *house) coachRequest(req *protocol.SpecializedCoachingRequest) <-chan outcome {
	h.t.Helper()
	cfg := protocol.NewCoachingSessionConfig()
	cfg.Provider, cfg.Endpoint = protocol.ProviderHuman, h.url
	if err := h.sessions().Configure(context.Background(), req.RunID, cfg); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.t.Cleanup(cancel)
	ended := make(chan outcome, 1)
	go func() {
		response, err := h.coaches.Coach(ctx, req)
		ended <- outcome{response, err}
	}()
	return ended
}

// post sends a request of an agent that asks people itself.
func (h *house) post(file string) <-chan *protocol.HumanCoachingResponse {
	h.t.Helper()
	body := fixture(h.t, file)
	ctx, cancel := context.WithCancel(context.Background())
	h.t.Cleanup(cancel)
	ended := make(chan *protocol.HumanCoachingResponse, 1)
	go func() {
		defer close(ended)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/v1/coaching/requests", bytes.NewReader(body))
		if err != nil {
			return
		}
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			return
		}
		if decoded, err := protocol.DecodeHumanCoachingResponse(answer); err == nil {
			ended <- decoded
		}
	}()
	return ended
}

func fixture(t *testing.T, file string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// receive waits for what an agent gets.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got, ok := <-from:
		if !ok {
			t.Fatal("the agent got no answer")
		}
		return got
	case <-time.After(patience):
		t.Fatal("the agent still waits")
	}
	panic("unreachable")
}

// corrected is the decision that the first proposal of an outcome makes of an
// input at its point.
func corrected(t *testing.T, got outcome) (point string, decision string) {
	t.Helper()
	if got.err != nil {
		t.Fatal(got.err)
	}
	if got.response.Status != protocol.CoachingCorrected {
		t.Fatalf("status %s: %s", got.response.Status, got.response.Reason)
	}
	proposal := got.response.Proposals[0]
	correction, err := protocol.DecodeCorrection(proposal.ExtraKeys)
	if err != nil {
		t.Fatal(err)
	}
	switch c := correction.(type) {
	case *protocol.ReplaceSay:
		return proposal.ReinjectionPointID, c.Text
	case *protocol.ReplaceDecision:
		return proposal.ReinjectionPointID, string(c.Decision.AppendJSON(nil))
	}
	t.Fatalf("an unknown correction: %T", correction)
	return "", ""
}

// agentServer answers POST /v1/responses with these decisions, one after the
// other.
func agentServer(t *testing.T, decisions ...string) func(*console.Options) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		req, err := protocol.DecodeAgentRequest(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		outs := make([]map[string]any, req.Inputs[0].NumOutputs)
		for i := range outs {
			outs[i] = map[string]any{
				"request_id": req.RequestID, "source_id": req.Inputs[0].ID, "candidate_index": i, "status": "completed",
				"output": json.RawMessage(decisions[i%len(decisions)]), "memory": json.RawMessage(`{}`),
			}
		}
		_ = json.NewEncoder(w).Encode(outs)
	}))
	t.Cleanup(server.Close)
	agent, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *console.Options) { o.Agent = agent }
}
