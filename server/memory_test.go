package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"agentd/coaching"
	"agentd/internal/base/budget"
	"agentd/protocol"
	"agentd/scheduler/generation"
	"agentd/server/openai"
)

func TestRequestBeyondAllMemoryIsTooLarge(t *testing.T) {
	s := newTest(t, Ready, func(ctx context.Context, _ *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
		return nil, budget.Add(ctx, 1<<30)
	})
	s.memory.SetLimit(64 << 20)
	w := request{method: "POST", path: "/v1/responses", body: validBody}.do(t, s)
	if w.Code != 413 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "send fewer inputs or candidates") {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
	if used := s.memory.Used(); used != 0 {
		t.Errorf("%d bytes are still held", used)
	}
}

// largeAnswer makes candidates that share a memory of 1 MiB.
func largeAnswer(_ context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	outs, _ := echo(context.Background(), req)
	shared := protocol.Raw(`{"map":"` + strings.Repeat("x", 1<<20) + `"}`)
	for i := range outs {
		outs[i].Memory = shared
	}
	return outs, nil
}

func TestLargeAnswerIsTheOneThatWasDecided(t *testing.T) {
	s := newTest(t, Ready, largeAnswer)
	body := strings.Replace(validBody, `"id": 1,`, `"id": 1, "num_outputs": 3,`, 1)
	req, err := protocol.DecodeAgentRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	outs, _ := largeAnswer(t.Context(), req)
	want := protocol.AgentOutputs(outs).AppendJSON(nil)
	w := request{method: "POST", path: "/v1/responses", body: body}.do(t, s)
	if w.Code != 200 || !bytes.Equal(w.Body.Bytes(), want) {
		t.Errorf("got %d, %d bytes, headers %v", w.Code, w.Body.Len(), w.Header())
	}
}

func TestAnswerThatNobodyReadsIsHeld(t *testing.T) {
	s := newTest(t, Ready, largeAnswer)
	ls := serve(t, s)
	conn := ls.dial(t)
	conn.(*net.TCPConn).SetReadBuffer(4096)
	body := strings.Replace(validBody, `"id": 1,`, `"id": 1, "num_outputs": 256,`, 1)
	fmt.Fprintf(conn, "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	// The candidates share 1 MiB, of which the answer is 256.
	if used := s.memory.Used(); used < 1<<20 || used > 4<<20 {
		t.Errorf("it holds %d bytes", used)
	}
	conn.Close()
}

func TestCoachingRequestIsHeldWhileTheCoachWorks(t *testing.T) {
	var s *Server
	var held int64
	f := &fakeCoach{coach: func(context.Context, *protocol.SpecializedCoachingRequest) (*protocol.SpecializedCoachingResponse, error) {
		held = s.memory.Used()
		return nil, coaching.ErrUnknown
	}}
	s = newTest(t, Ready, echo, coached(f))
	goal := strings.Repeat("x", 1<<20)
	body := `{"run_id":"a","request_id":"b","kind":"failure","stage":"` + goal + `","target_step_id":1,"reinjection_points":[],` +
		`"trajectory":[{"id":1,"input":{"id":1,"instruction":{"type":"user","content":""}}}]}`
	if w := (request{method: "POST", path: "/v1/coaching", body: body}).do(t, s); w.Code != 404 {
		t.Fatalf("got %d %.300s", w.Code, w.Body)
	}
	if held < 4<<20 {
		t.Errorf("a request of 1 MiB holds %d bytes", held)
	}
	if used := s.memory.Used(); used != 0 {
		t.Errorf("%d bytes are held after it", used)
	}
}

// lending is an Inference with a Model for OpenAI's API, and reports when it is taken.
type lending struct {
	inferenceFunc
	taken func()
}

func (l lending) OpenAI() (openai.Model, func()) {
	l.taken()
	return nowhere{}, func() {}
}

// nowhere is a model with no tokens.
type nowhere struct{ openai.Model }

func (nowhere) Tokenize(string, bool) ([]generation.Token, error) { return nil, nil }
func (nowhere) Served() generation.Served                         { return generation.Served{Name: "m"} }

func TestChatReadsTheBodyBeforeItTakesTheModel(t *testing.T) {
	s := newTest(t, Loading, nil, func(o *Options) { o.Completions = true })
	taken := make(chan struct{}, 1)
	s.Ready(lending{echo, func() { taken <- struct{}{} }})
	ls := serve(t, s)
	conn := ls.dial(t)
	const body = `{"prompt": "a b"}`
	fmt.Fprintf(conn, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	if _, err := io.ReadFull(conn, make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))); err != nil { // it waits for the body
		t.Fatal(err)
	}
	select {
	case <-taken:
		t.Error("the model is taken without a body")
	default:
	}
	io.WriteString(conn, body)
	wait(t, "the model's turn", taken)
}

func TestRefusedRequestHasItsReasonInTheLog(t *testing.T) {
	for name, test := range map[string]struct {
		r      request
		reason string
	}{
		"a chat":               {request{method: "POST", path: pathChat, body: `{"messages": 1}`}, "messages"},
		"a batch":              {request{method: "POST", path: "/v1/responses", body: `{"request_id": "r"}`}, "inputs"},
		"a batch with a cause": {request{method: "POST", path: "/v1/responses", body: validBody}, "the queue is full"},
		"an unknown path":      {request{method: "GET", path: "/nothing"}, "no such path"},
		"a wrong type":         {request{method: "POST", path: "/v1/responses", header: map[string]string{"Content-Type": "text/plain"}}, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := newTest(t, Loading, nil, func(o *Options) { o.Completions, o.Log = true, zerolog.New(&log) })
			s.Ready(lending{func(context.Context, *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
				return nil, &generation.QueueFullError{}
			}, func() {}})
			w := test.r.do(t, s)
			var line struct{ Message, Reason string }
			if err := json.Unmarshal(log.Bytes(), &line); err != nil {
				t.Fatalf("%v in %s", err, &log)
			}
			if line.Message != "request" || !strings.Contains(line.Reason, test.reason) || w.Code < 400 {
				t.Errorf("%d %s: the log has %+v", w.Code, w.Body, line)
			}
		})
	}
	var log bytes.Buffer
	s := newTest(t, Ready, echo, func(o *Options) { o.Log = zerolog.New(&log) })
	request{method: "POST", path: "/v1/responses", body: validBody}.do(t, s)
	if strings.Contains(log.String(), `"reason"`) {
		t.Errorf("a success has a reason: %s", &log)
	}
}
