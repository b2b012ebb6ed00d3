package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/protocol"
)

// step is the internal step of a candidate.
func step(raw string, tokens int) protocol.Raw {
	s := protocol.InternalStep{
		ID: "step-0", Component: "commander", Origin: protocol.OriginModel, FullPrompt: "<|im_start|>the prompt",
		InputElements: fmt.Appendf(nil, `{"generation":{"prompt_tokens":100,"cached_tokens":60,"completion_tokens":%d}}`, tokens), OutputRaw: raw,
	}
	return s.AppendJSON(nil)
}

// decider answers as an agentd: change makes something of each candidate, the
// headers go before the answer.
func decider(t *testing.T, change func(i int, out *protocol.AgentOutput), headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		req, err := protocol.DecodeAgentRequest(body)
		if err != nil {
			t.Error(err)
			return
		}
		var outs []protocol.AgentOutput
		for i := range req.Inputs[0].NumOutputs {
			out := protocol.AgentOutput{
				RequestID: req.RequestID, SourceID: req.Inputs[0].ID, CandidateIndex: i, Status: protocol.StatusCompleted,
				Memory: protocol.Raw("{}"), Output: &protocol.AgentDecision{Say: "Hi"}, InternalSteps: []protocol.Raw{step(fmt.Sprintf("Hi %d<|im_end|>", i), 7)},
			}
			change(i, &out)
			outs = append(outs, out)
		}
		reply(http.StatusOK, string(protocol.AgentOutputs(outs).AppendJSON(nil)), headers...)(w, r)
	}
}

func same(int, *protocol.AgentOutput) {}

var limit = Options{MaxTokens: 99}

func failing(code string, tokens int) func(int, *protocol.AgentOutput) {
	return func(i int, out *protocol.AgentOutput) {
		if i == 1 {
			out.Status, out.Output, out.Error = protocol.StatusError, nil, &protocol.AgentError{Code: code, Message: "m"}
			out.InternalSteps = nil
			if tokens >= 0 {
				out.InternalSteps = []protocol.Raw{step("cut", tokens)}
			}
		}
	}
}

func agentd(t *testing.T, h http.Handler) *Agentd {
	t.Helper()
	return closing[*Agentd](t)(Open(KindAgentd, serve(t, h), "secret"))
}

func TestAgentdGetsOneRequestForAllCandidates(t *testing.T) {
	for _, greedy := range []bool{false, true} {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			if r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("headers %v", r.Header)
			}
			in := turn(2).Input
			in.NumOutputs, in.ExtraKeys = 2, protocol.Raw(fmt.Sprintf(`{"x":1.0,"inference_mode":%v}`, greedy))
			want := string((&protocol.AgentRequest{RequestID: "bench-9-3-2", Inputs: []protocol.AgentInput{in}}).AppendJSON(nil))
			if diff := cmp.Diff(want, string(body)); diff != "" {
				t.Error(diff)
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			decider(t, same)(w, r)
		})
		got, err := agentd(t, mux).Ask(t.Context(), turn(2), Options{Greedy: greedy, Seed: 9, MaxTokens: 7})
		if err != nil {
			t.Fatal(err)
		}
		want := Answer{
			Candidates:   []Candidate{{Tokens: 7}, {Tokens: 7}},
			PromptTokens: 100, ComputedTokens: 40, OutputTokens: 14, First: -1, Prompt: "<|im_start|>the prompt", Copies: greedy,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAgentdIsAskedForTokensOnlyOnRequest(t *testing.T) {
	var bodies []string
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, string(body))
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		decider(t, same)(w, r)
	})
	a := agentd(t, mux)
	for _, asks := range []bool{false, true} {
		o := limit
		o.Return = asks
		if _, err := a.Ask(t.Context(), turn(1), o); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(bodies[len(bodies)-1], `"return":["token_ids","logprobs"]`); got != asks {
			t.Errorf("asked for tokens: %t, want %t", got, asks)
		}
	}
}

func TestAgentdAnswers(t *testing.T) {
	for _, test := range []struct {
		name    string
		h       func(t *testing.T) http.HandlerFunc
		o       Options
		want    func(a *Answer) bool
		failure string // kind
		says    string
	}{
		{
			name: "the header tells TTFT",
			h: func(t *testing.T) http.HandlerFunc {
				return decider(t, same, "Server-Timing", "queue;dur=1, ttft;dur=2.5")
			},
			want: func(a *Answer) bool { return a.First == 5*msec/2 },
		},
		{
			name: "a candidate that failed has its code, and its tokens count",
			h:    func(t *testing.T) http.HandlerFunc { return decider(t, failing("invalid_output", 5)) },
			want: func(a *Answer) bool {
				return a.Candidates[1] == Candidate{Tokens: 5, Failure: "invalid_output"} && a.OutputTokens == 12
			},
		},
		{
			name: "without a step the tokens are not known",
			h:    func(t *testing.T) http.HandlerFunc { return decider(t, failing("context_overflow", -1)) },
			want: func(a *Answer) bool {
				return a.Candidates[1] == Candidate{Tokens: -1, Failure: "context_overflow"} && a.OutputTokens == -1 && a.PromptTokens == 100
			},
		},
		{name: "fixed tokens that are so many", h: func(t *testing.T) http.HandlerFunc { return decider(t, same) }, o: Options{FixedTokens: 7}, want: func(*Answer) bool { return true }},
		{name: "fixed tokens that are not", h: func(t *testing.T) http.HandlerFunc { return decider(t, same) }, o: Options{FixedTokens: 8}, failure: Contract, says: "has 7 tokens instead of 8"},
		{name: "fixed tokens that were read", h: func(t *testing.T) http.HandlerFunc { return decider(t, failing("truncated", 7)) }, o: Options{FixedTokens: 7}, failure: Contract, says: "candidate 1 is truncated"},
		{name: "fixed tokens and a failure that has none", h: func(t *testing.T) http.HandlerFunc { return decider(t, failing("model_error", -1)) }, o: Options{FixedTokens: 7}, want: func(a *Answer) bool { return a.Candidates[1].Failure == "model_error" }},
		{name: "more than the limit", h: func(t *testing.T) http.HandlerFunc { return decider(t, same) }, o: Options{MaxTokens: 6}, failure: Contract, says: "has 7 tokens, and the limit is 6; start agentd with the same"},
		{name: "a bad header", h: func(t *testing.T) http.HandlerFunc { return decider(t, same, "Server-Timing", "ttft;dur=x") }, failure: Contract, says: "dur of ttft"},
		{name: "another input's answer", h: func(t *testing.T) http.HandlerFunc {
			return decider(t, func(_ int, o *protocol.AgentOutput) { o.SourceID++ })
		}, failure: Contract, says: "source_id"},
		{name: "no answer of the protocol", h: func(*testing.T) http.HandlerFunc { return reply(200, `{"a":1}`) }, failure: Contract, says: "breaks the protocol"},
		{name: "busy", h: func(*testing.T) http.HandlerFunc {
			return reply(503, `{"detail":"the queue is full"}`, "Retry-After", "1")
		}, failure: Refused, says: "the queue is full"},
		{name: "too many requests", h: func(*testing.T) http.HandlerFunc { return reply(429, ``) }, failure: Refused, says: "429"},
		{name: "invalid", h: func(*testing.T) http.HandlerFunc {
			return reply(422, `{"detail":[{"type":"t","loc":["body","inputs"],"msg":"too bad"}]}`)
		}, failure: Status, says: "too bad"},
		{name: "a connection that ends early", h: func(*testing.T) http.HandlerFunc { return reply(200, "[", "Content-Length", "9") }, failure: Transport, says: "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.o == (Options{}) {
				test.o.MaxTokens = 99
			}
			got, err := agentd(t, test.h(t)).Ask(t.Context(), turn(2), test.o)
			if test.failure != "" {
				wantFailure(t, err, test.failure, test.says)
				return
			}
			if err != nil || !test.want(&got) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestMissingServerIsATransportFailure(t *testing.T) {
	s := agentd(t, http.NotFoundHandler())
	s.base = "http://127.0.0.1:1" // nothing listens on the port of TCP's multiplexer
	_, err := s.Ask(t.Context(), turn(1), limit)
	wantFailure(t, err, Transport, "127.0.0.1:1")
}

func TestCancelledRequestReturnsTheContextsError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := agentd(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that the client left
		cancel()
		<-r.Context().Done()
	}))
	if _, err := a.Ask(ctx, turn(1), limit); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestInvalidTurnIsNoServerFailure(t *testing.T) {
	var f *Failure
	_, err := agentd(t, http.NotFoundHandler()).Ask(t.Context(), turn(0), limit)
	if err == nil || errors.As(err, &f) || !strings.Contains(err.Error(), "agent 3, turn 2") {
		t.Error(err)
	}
}

// exposition is a part of agentd's /metrics.
const exposition = `# HELP agentd_build_info Always 1
# TYPE agentd_build_info gauge
agentd_build_info{go="go1.26",version="1.2"} 1
# TYPE agentd_model_info gauge
agentd_model_info{architecture="qwen3",device="CPU",format="qwen"} 1
agentd_prefill_tokens_total 11
agentd_prefix_cache_hits_total 12
agentd_generation_tokens_total 13
agentd_steps_total 14
agentd_step_tokens_total 1.5e2
agentd_sequences_evicted_total 16
agentd_kv_cache_cells_used 17
agentd_kv_cache_cells 18
agentd_num_requests_running 19
agentd_num_requests_waiting 20
# TYPE agentd_step_seconds_total counter
agentd_step_seconds_total{part="plan"} 0.25
agentd_step_seconds_total{part="decode"} 2
# TYPE agentd_request_queue_time_seconds histogram
agentd_request_queue_time_seconds_bucket{le="0.001"} 3
agentd_request_queue_time_seconds_bucket{le="+Inf"} 3
agentd_request_queue_time_seconds_sum 0.1
agentd_request_queue_time_seconds_count 3
`

func factsOfAgentd(metrics string) http.Handler {
	mux := http.NewServeMux()
	info := protocol.AgentInfo{ProtocolVersion: "2.0", AgentID: "full-history-agent", AgentVersion: "1.2", Capabilities: map[string]bool{"inference": true}}
	mux.HandleFunc("GET /v1/info", reply(200, string(info.AppendJSON(nil))))
	if metrics != "" {
		mux.HandleFunc("GET /metrics", reply(200, metrics, "Content-Type", "text/plain; version=0.0.4"))
	}
	return mux
}

func TestAgentdCountersAndFacts(t *testing.T) {
	a := agentd(t, factsOfAgentd(exposition))
	got, err := a.Counters(t.Context())
	want := Counters{Prefilled: 11, Steps: 14, Rows: 150, CellsUsed: 17,
		Phases: map[string]float64{"plan": 0.25, "decode": 2}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	facts, err := a.Describe(t.Context())
	wantFacts := map[string]string{"server": "agentd", "agent_id": "full-history-agent", "version": "1.2", "go": "go1.26", "architecture": "qwen3", "device": "CPU", "format": "qwen"}
	if diff := cmp.Diff(wantFacts, facts); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for name, metrics := range map[string]string{"no metrics": "", "no model yet": "agentd_panics_total 0\n"} {
		a := agentd(t, factsOfAgentd(metrics))
		if _, err := a.Counters(t.Context()); !errors.Is(err, ErrNoCounters) {
			t.Errorf("%s: %v", name, err)
		}
		if facts, err := a.Describe(t.Context()); err != nil || facts["version"] != "1.2" || facts["server"] != "full-history-agent" {
			t.Errorf("%s: %v, %v", name, facts, err)
		}
	}
	_, err = agentd(t, factsOfAgentd("agentd_steps_total many\n")).Counters(t.Context())
	wantFailure(t, err, Contract, "/metrics")
}

// A renamed metric would only be unknown.
func TestMetricNamesExistInAgentd(t *testing.T) {
	var source string
	for _, file := range []string{"../../scheduler/stats.go", "../../scheduler/core/stats.go", "../../inference/live/collector.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	for _, name := range []string{metricPrefilled, metricSteps, metricRows, metricCells, metricPhases, metricModel} {
		if !strings.Contains(source, strings.TrimPrefix(name, "agentd_")+`"`) {
			t.Errorf("agentd has no metric %s", name)
		}
	}
}

func FuzzMetrics(f *testing.F) {
	f.Add(exposition)
	f.Add("a NaN\nb{x=\"\\\"\"} -Inf 1\n# TYPE c summary\nc{quantile=\"1\"} 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := readMetrics([]byte(text))
		if err != nil {
			return
		}
		for name := range m {
			if x := m.number(name); x < 0 && x != -1 {
				t.Errorf("%s is %v", name, x)
			}
			m.by(name, "x")
		}
	})
}

func FuzzAgentdAnswer(f *testing.F) {
	req := &protocol.AgentRequest{RequestID: "r", Inputs: []protocol.AgentInput{{ID: 1, NumOutputs: 1}}}
	out := protocol.AgentOutput{RequestID: "r", SourceID: 1, Status: "completed", Memory: protocol.Raw("{}"), Output: &protocol.AgentDecision{}, InternalSteps: []protocol.Raw{step("x", 3)}}
	f.Add(protocol.AgentOutputs([]protocol.AgentOutput{out}).AppendJSON(nil), "queue;dur=1")
	f.Fuzz(func(t *testing.T, body []byte, timing string) {
		a, err := readAgentd(req, body, http.Header{"Server-Timing": {timing}}, Options{})
		if err == nil && len(a.Candidates) != 1 {
			t.Errorf("%d candidates", len(a.Candidates))
		}
	})
}
