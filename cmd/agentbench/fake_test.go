package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"agentd/protocol"
)

// fake is an agent server without a model. All candidates have the same length, and half
// of each prompt is cached.
type fake struct {
	// refuse reports whether a request, counted from 1, is answered 503.
	refuse func(n int) bool
	// before is called before the answer to the nth request; it may be nil.
	before func(ctx context.Context, n int)
	prompt string // full_prompt of the answers

	mu                          sync.Mutex
	requests, computed, written int
}

// Token counts of the fake.
const (
	fakePrompt = 100
	fakeOutput = 7
)

func (f *fake) serve(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, _ *http.Request) {
		info := protocol.AgentInfo{
			ProtocolVersion: protocol.Version, AgentID: "full-history-agent", AgentVersion: "fake-1",
			Capabilities: map[string]bool{protocol.CapabilityInference: true, protocol.CapabilityCoaching: true}, CoachingResume: true,
			SpecializedCoaching: protocol.CoachingKinds(), CoachingSessionVersion: protocol.CoachingSessionVersion,
		}
		w.Write(info.AppendJSON(nil))
	})
	mux.HandleFunc("GET /metrics", f.metrics)
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) { f.respond(t, w, r) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func (f *fake) metrics(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, x := range map[string]int{
		"agentd_prefill_tokens_total":    f.computed,
		"agentd_generation_tokens_total": f.written, "agentd_steps_total": 2 * f.requests, "agentd_step_tokens_total": 6 * f.requests,
		"agentd_kv_cache_cells_used": 10 * f.requests,
	} {
		fmt.Fprintf(w, "%s %d\n", name, x)
	}
	fmt.Fprintf(w, "agentd_step_seconds_total{part=\"decode\"} %g\n", float64(f.requests)/8)
}

func (f *fake) respond(t *testing.T, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	req, err := protocol.DecodeAgentRequest(body)
	if err != nil {
		t.Error(err)
		return
	}
	f.mu.Lock()
	f.requests++
	n := f.requests
	f.mu.Unlock()
	if f.before != nil {
		f.before(r.Context(), n)
	}
	if f.refuse != nil && f.refuse(n) {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `{"detail":"the queue is full"}`)
		return
	}
	f.mu.Lock()
	f.computed += fakePrompt / 2
	f.written += fakeOutput * req.Inputs[0].NumOutputs
	f.mu.Unlock()
	in := &req.Inputs[0]
	outs := make([]protocol.AgentOutput, in.NumOutputs)
	for i := range outs {
		step := protocol.InternalStep{
			ID: "step-0", Component: "commander", Origin: protocol.OriginModel, FullPrompt: f.prompt,
			InputElements: fmt.Appendf(nil, `{"generation":{"prompt_tokens":%d,"cached_tokens":%d,"completion_tokens":%d}}`, fakePrompt, fakePrompt/2, fakeOutput),
			OutputRaw:     fmt.Sprintf("Hi %d", i),
		}
		outs[i] = protocol.AgentOutput{
			RequestID: req.RequestID, SourceID: in.ID, CandidateIndex: i, Status: protocol.StatusCompleted,
			Memory: protocol.Raw("{}"), Output: &protocol.AgentDecision{Say: "Hi"}, InternalSteps: []protocol.Raw{step.AppendJSON(nil)},
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Server-Timing", "queue;dur=0.5, ttft;dur=1")
	w.Write(protocol.AgentOutputs(outs).AppendJSON(nil))
}

// bench runs agentbench and returns its output.
func bench(ctx context.Context, args ...string) (string, error) {
	var out strings.Builder
	err := run(ctx, args, &out, io.Discard)
	return out.String(), err
}

// mustBench is bench without an error.
func mustBench(t *testing.T, args ...string) string {
	t.Helper()
	out, err := bench(t.Context(), args...)
	if err != nil {
		t.Fatalf("agentbench %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}
