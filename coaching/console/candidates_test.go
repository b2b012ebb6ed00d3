package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"agentd/protocol"
	"agentd/protocol/client"
)

// withAgent lets a console ask an agent server that answers with f.
func withAgent(t *testing.T, f http.HandlerFunc) func(*Options) {
	t.Helper()
	server := httptest.NewServer(f)
	transport := new(http.Transport)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	agent, err := client.New(server.URL, client.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Agent = agent }
}

func TestDeterministicInputIsAskedOnceAndSampled(t *testing.T) {
	for _, c := range []struct {
		rule, extra string
		n           int
		want        []string
	}{
		{"sampled anyway", `{"a":1}`, 3, []string{`3 {"a":1}`}},
		{"without chance, one candidate", `{"inference_mode":true}`, 1, []string{`1 {"inference_mode":true}`}},
		{"without chance, several", `{"inference_mode":true,"a":1.0}`, 3, []string{`1 {"inference_mode":true,"a":1.0}`, `2 {"inference_mode":false,"a":1.0}`}},
		{"a correction in it", `{"coaching":{}}`, 2, []string{`2 {}`}},
		{"no coach is asked, and nothing continued", `{"ask":"r","candidates":{"distinct":true},"continue":[[1]]}`, 3, []string{`3 {}`}},
		{"options, no more than there are", `{"inference_mode":true,"options":["unsure",{}],"ask":"r"}`, 3, []string{`2 {"inference_mode":true,"options":["unsure",{}]}`}},
	} {
		var got []string
		for _, in := range questions(protocol.AgentInput{ID: 7, ExtraKeys: protocol.Raw(c.extra)}, c.n) {
			got = append(got, fmt.Sprintf("%d %s", in.NumOutputs, in.ExtraKeys))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.rule, got, c.want)
		}
	}
}

func TestCandidatesAreDecisionsOfTheAgent(t *testing.T) {
	var asked protocol.AgentRequest
	f := open(t, withAgent(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		req, err := protocol.DecodeAgentRequest(body)
		if err != nil {
			t.Error(err)
			return
		}
		asked = *req
		outs := make([]protocol.AgentOutput, 3)
		for i := range outs {
			// The second input gives the second and the third.
			outs[i] = protocol.AgentOutput{RequestID: req.RequestID, SourceID: req.Inputs[min(i, 1)].ID, CandidateIndex: max(i-1, 0), Status: "completed", Memory: protocol.Raw("{}")}
		}
		outs[0].Output = &protocol.AgentDecision{ToolCalls: []protocol.ToolCall{{Name: "pick", Arguments: protocol.Raw(`{"object":"cube"}`), TargetRobotName: "arm"}}}
		outs[1].Output = &protocol.AgentDecision{ToolCalls: []protocol.ToolCall{{Name: "drop", Arguments: protocol.Raw(`{}`), TargetRobotName: "arm"}}}
		outs[2].Status, outs[2].Error = "error", &protocol.AgentError{Code: "truncated", Message: "too long"}
		w.Header().Set("Content-Type", "application/json")
		w.Write(protocol.AgentOutputs(outs).AppendJSON(nil))
	}))
	var who me
	if f.want(http.StatusOK, http.MethodGet, "/api/me", nil, &who); !who.Agent {
		t.Error("the page is not told that there is an agent")
	}
	f.post(ours("r1"))
	var got struct{ Candidates []candidate }
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/candidates", object{"point": "p0", "n": 3}, &got)
	if len(asked.Inputs) != 2 || asked.Inputs[0].Instruction.Content != "Put the cube into the box." ||
		asked.Inputs[0].NumOutputs != 1 || string(asked.Inputs[0].ExtraKeys) != `{"inference_mode":true}` ||
		asked.Inputs[1].NumOutputs != 2 || string(asked.Inputs[1].ExtraKeys) != `{"inference_mode":false}` {
		t.Errorf("the agent was asked %s", asked.AppendJSON(nil))
	}
	if len(got.Candidates) != 3 {
		t.Fatalf("%d candidates", len(got.Candidates))
	}
	if c := got.Candidates[0]; c.Status != "completed" || !c.Valid || len(c.Problems) != 0 || c.Error != nil || !strings.Contains(string(c.Decision), "cube") {
		t.Errorf("the first is %+v", c)
	}
	if c := got.Candidates[1]; c.Valid || len(c.Problems) != 1 || dotted(c.Problems[0].Loc) != "tool_calls,0,name" {
		t.Errorf("the second is %+v", c)
	}
	if c := got.Candidates[2]; c.Status != "error" || c.Valid || *c.Error != "too long" || string(c.Decision) != "null" {
		t.Errorf("the third is %+v", c)
	}
	f.want(http.StatusUnprocessableEntity, http.MethodPost, "/api/tasks/1/candidates", object{"point": "p9", "n": 1}, nil)
	f.post(foreign("r2")) // whose points have no input
	f.want(http.StatusUnprocessableEntity, http.MethodPost, "/api/tasks/2/candidates", object{"point": "", "n": 1}, nil)
}

func TestFailedAgentServerIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		status int
		detail string
	}{
		"busy": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			w.Write(protocol.AppendErrorBody(nil, "the queue is full"))
		}, http.StatusBadGateway, "the queue is full"},
		"no agent server": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }, http.StatusBadGateway, "log"},
		"cut":             {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, http.StatusBadGateway, "log"},
	} {
		f := open(t, withAgent(t, test.answer))
		f.post(ours("r1"))
		if r := f.call(http.MethodPost, "/api/tasks/1/candidates", object{"point": "p0", "n": 1}); r.status != test.status || !strings.Contains(r.detail(), test.detail) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	f := open(t)
	f.post(ours("r1"))
	if r := f.call(http.MethodPost, "/api/tasks/1/candidates", object{"point": "p0", "n": 1}); r.status != http.StatusConflict || !strings.Contains(r.detail(), "without an agent server") {
		t.Errorf("without an agent server: %d %s", r.status, r.body)
	}
}

func TestClosedPageOrConsoleCancelsCandidates(t *testing.T) {
	arrived, gone := make(chan struct{}, maxAsking), make(chan struct{}, maxAsking)
	f := open(t, withAgent(t, func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		arrived <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	f.post(ours("r1"))
	ask := func(ctx context.Context) <-chan reply {
		for {
			got := make(chan reply, 1)
			go func() {
				r, _ := f.try(ctx, http.MethodPost, "/api/tasks/1/candidates", object{"point": "p0", "n": 1})
				got <- r
			}()
			select {
			case <-arrived:
				return got
			case <-got: // the place of the page that left is not free yet
			}
		}
	}
	ctx, leave := context.WithCancel(context.Background())
	ask(ctx)
	leave()
	<-gone

	var waiting []<-chan reply
	for range maxAsking {
		waiting = append(waiting, ask(context.Background()))
	}
	if r := f.call(http.MethodPost, "/api/tasks/1/candidates", object{"point": "p0", "n": 1}); r.status != http.StatusServiceUnavailable {
		t.Errorf("one question too many: %d %s", r.status, r.body)
	}
	f.stop()
	for _, got := range waiting {
		if r := <-got; r.status != http.StatusServiceUnavailable {
			t.Errorf("when the console stopped: %d %s", r.status, r.body)
		}
	}
}

func TestTaskListHasTheConsolesClock(t *testing.T) {
	f := open(t)
	var list struct{ Now json.RawMessage }
	f.want(http.StatusOK, http.MethodGet, "/api/tasks", nil, &list)
	if string(list.Now) != `"2026-01-02T03:04:05Z"` {
		t.Errorf("now is %s", list.Now)
	}
}
