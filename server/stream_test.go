package server

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"agentd/internal/base/budget"
	"agentd/internal/http/transfer"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// eachFunc is a fake Streaming, which decides with echo.
type eachFunc func(ctx context.Context, begun func(), each func(input int, out *protocol.AgentOutput), outs []protocol.AgentOutput) error

func (eachFunc) Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	return echo(ctx, req)
}

func (f eachFunc) DecideEach(ctx context.Context, req *protocol.AgentRequest, begun func(), each func(int, *protocol.AgentOutput)) ([]protocol.AgentOutput, error) {
	outs, _ := echo(ctx, req)
	return nil, f(ctx, begun, each, outs)
}

// twoInputs are two candidates of input 0 and one of input 1.
const twoInputs = `{"request_id": "r", "inputs": [{"id": 7, "num_outputs": 2, "memory": {"n": 1e400}, ` +
	`"instruction": {"type": "user", "content": "a\u2028b"}}, {"id": 3, "instruction": {"type": "user", "content": "c"}}]}`

// backwards gives the candidates of twoInputs, last ones first.
func backwards(_ context.Context, begun func(), each func(int, *protocol.AgentOutput), outs []protocol.AgentOutput) error {
	begun()
	for i, out := range slices.Backward(outs) {
		each(i/2, &out)
	}
	return nil
}

// readLine is a line of an answer.
type readLine struct {
	Input      *int            `json:"input_index"`
	Index      *int            `json:"candidate_index"`
	Candidate  json.RawMessage `json:"candidate"`
	Candidates *int            `json:"candidates"`
}

func linesOf(t *testing.T, body string) (list []readLine) {
	t.Helper()
	for text := range strings.Lines(body) {
		var l readLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		list = append(list, l)
	}
	return list
}

func streamRequest(path, body string) request {
	return request{method: "POST", path: path, body: body, header: map[string]string{"Accept": transfer.NDJSON}}
}

func TestLinesHaveTheCandidatesOfTheJSONAnswer(t *testing.T) {
	s := newTest(t, Loading, nil)
	s.Ready(eachFunc(backwards))
	for _, path := range []string{"/v1/responses", "/magma/v1/responses"} {
		var want []json.RawMessage
		if err := json.Unmarshal((request{method: "POST", path: path, body: twoInputs}).do(t, s).Body.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		w := streamRequest(path, twoInputs).do(t, s)
		got := linesOf(t, w.Body.String())
		if kind := w.Header().Get("Content-Type"); w.Code != http.StatusOK || kind != transfer.NDJSON || len(got) != 4 {
			t.Fatalf("%s: %d %s %q", path, w.Code, kind, w.Body)
		}
		for i, place := range [][3]int{{1, 0, 2}, {0, 1, 1}, {0, 0, 0}} {
			if l := got[i]; *l.Input != place[0] || *l.Index != place[1] || !bytes.Equal(l.Candidate, want[place[2]]) {
				t.Errorf("%s: line %d is %d, %d, %s", path, i, *l.Input, *l.Index, l.Candidate)
			}
		}
		if end := got[3]; end.Candidates == nil || *end.Candidates != 3 {
			t.Errorf("%s: the last line is %+v", path, end)
		}
	}
	if text := s.metricsText(t); !strings.Contains(text, `agentd_candidates_total{code="",status="completed"} 12`) {
		t.Errorf("candidates are not counted: %s", text)
	}
}

func (s *Server) metricsText(t *testing.T) string {
	t.Helper()
	return request{method: "GET", path: pathMetrics}.do(t, s).Body.String()
}

func TestOnlyClientsThatAskGetLines(t *testing.T) {
	s := newTest(t, Loading, nil)
	s.Ready(eachFunc(backwards))
	for accept, want := range map[string]bool{
		"": false, "application/json": false, "*/*": false, "application/*": false, "application/x-ndjson;q=0": false,
		"Application/X-NDJSON": true, "application/json, application/x-ndjson": true,
	} {
		r := streamRequest("/v1/responses", twoInputs)
		r.header["Accept"] = accept
		if kind := r.do(t, s).Header().Get("Content-Type"); (kind == transfer.NDJSON) != want {
			t.Errorf("Accept: %s gives %s", accept, kind)
		}
	}
}

func TestRefusedBatchIsAnsweredAsWithoutLines(t *testing.T) {
	refusal := error(nil)
	s := newTest(t, Loading, nil)
	s.Ready(eachFunc(func(context.Context, func(), func(int, *protocol.AgentOutput), []protocol.AgentOutput) error {
		return refusal
	}))
	for name, test := range map[string]struct {
		body    string
		refusal error
		status  int
		text    string
	}{
		"a wrong field":    {strings.Replace(twoInputs, `"id": 3`, `"id": "3"`, 1), nil, 422, `"loc":["body","inputs",1,"id"]`},
		"no JSON":          {"{", nil, 422, "json_invalid"},
		"a wrong memory":   {twoInputs, protocol.Problems{protocol.NewProblem(protocol.TypeValue, "is bad", "inputs", 0, "memory")}, 422, "is bad"},
		"a full queue":     {twoInputs, &generation.QueueFullError{RetryAfter: 3 * time.Second}, 503, "the queue is full"},
		"a closed engine":  {twoInputs, generation.ErrClosed, 503, "shutting down"},
		"nothing at all":   {twoInputs, nil, 500, "internal error"},
		"an unknown error": {twoInputs, errors.New("secret"), 500, "internal error"},
	} {
		t.Run(name, func(t *testing.T) {
			refusal = test.refusal
			w := streamRequest("/v1/responses", test.body).do(t, s)
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.text) || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if after := w.Header().Get("Retry-After"); (after != "") != (test.status == 503) {
				t.Errorf("Retry-After is %q", after)
			}
		})
	}
}

func TestCandidatesMissingAtTheEndAreErrors(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"a closed engine": {generation.ErrClosed, "the server is shutting down"},
		"a busy engine":   {&generation.BusyError{Reason: "it takes no work"}, "it takes no work"},
		"a defect":        {nil, "internal error; the server's log has the request id"},
		"invalid output":  {errors.New("secret"), "internal error; the server's log has the request id"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := newTest(t, Loading, nil, func(o *Options) { o.Log = zerolog.New(&log) })
			s.Ready(eachFunc(func(_ context.Context, begun func(), each func(int, *protocol.AgentOutput), outs []protocol.AgentOutput) error {
				begun()
				each(0, &outs[1])
				outs[2].Memory = nil // it must be an object
				each(1, &outs[2])
				return test.err
			}))
			w := streamRequest("/v1/responses", twoInputs).do(t, s)
			got := linesOf(t, w.Body.String())
			if len(got) != 4 || *got[0].Index != 1 || *got[3].Candidates != 3 {
				t.Fatalf("%s", w.Body)
			}
			for i, input := range []int{0, 1} {
				outs, err := protocol.DecodeAgentOutputs([]byte("[" + string(got[1+i].Candidate) + "]"))
				if err != nil {
					t.Fatal(err)
				}
				e := outs[0].Error
				if *got[1+i].Input != input || outs[0].Status != protocol.StatusError || e.Message != test.want || e.Code != "model_error" {
					t.Errorf("line %d is of input %d: %+v", 1+i, *got[1+i].Input, e)
				}
			}
			if !strings.Contains(log.String(), `{"level":"error","error":"internal error; the server's log has the request id: response is invalid: `) {
				t.Errorf("the log does not name what is invalid: %s", log.String())
			}
		})
	}
}

func TestClientThatLeavesTheStreamEndsTheWork(t *testing.T) {
	ls := listen(t)
	ended := make(chan error, 1)
	ls.Ready(eachFunc(func(ctx context.Context, begun func(), each func(int, *protocol.AgentOutput), outs []protocol.AgentOutput) error {
		begun()
		each(0, &outs[0])
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}))
	conn := ls.dial(t)
	fmt.Fprintf(conn, "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\nContent-Length: %d\r\n\r\n%s", transfer.NDJSON, len(twoInputs), twoInputs)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first, err := bufio.NewReader(res.Body).ReadString('\n')
	if err != nil || *linesOf(t, first)[0].Index != 0 {
		t.Fatalf("%q, %v", first, err)
	}
	conn.Close()
	wait(t, "the end of the work", ended)
}

func TestCancelledWorkEndsTheStreamWithItsReason(t *testing.T) {
	ls := listen(t)
	ls.Ready(eachFunc(func(ctx context.Context, begun func(), _ func(int, *protocol.AgentOutput), _ []protocol.AgentOutput) error {
		begun()
		ls.CancelWork()
		<-ctx.Done()
		return ctx.Err()
	}))
	conn := ls.dial(t)
	io.WriteString(conn, raw("Accept: text/plain\r\nAccept: "+transfer.NDJSON+"\r\n"))
	res, body, _ := answer(t, bufio.NewReader(conn), http.MethodPost)
	if got := linesOf(t, body); res.StatusCode != http.StatusOK || len(got) != 2 || !strings.Contains(body, "the server is shutting down") {
		t.Errorf("%s %s", res.Status, body)
	}
}

// deaf is a connection whose client never reads: a write ends at its deadline.
type deaf struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deaf) SetWriteDeadline(at time.Time) error {
	d.until = at
	return nil
}

func (d *deaf) Write([]byte) (int, error) {
	time.Sleep(time.Until(d.until))
	return 0, os.ErrDeadlineExceeded
}

func TestClientThatNeverReadsEndsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newTest(t, Loading, nil, func(o *Options) { o.Log = zerolog.New(&log) })
		given := 0
		s.Ready(eachFunc(func(ctx context.Context, begun func(), each func(int, *protocol.AgentOutput), outs []protocol.AgentOutput) error {
			begun()
			for i := range outs { // which does not wait for the client
				each(i/2, &outs[i])
				given++
			}
			<-ctx.Done()
			return ctx.Err()
		}))
		began := time.Now()
		req := httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(twoInputs))
		req.Header.Set("Accept", transfer.NDJSON)
		s.Handler().ServeHTTP(&deaf{ResponseRecorder: httptest.NewRecorder()}, req)
		if took := time.Since(began); given != 3 || took > transfer.WriteTimeout || s.memory.Used() != 0 {
			t.Errorf("after %s: %d candidates were given, %d bytes are held", took, given, s.memory.Used())
		}
		if text := s.metricsText(t); !strings.Contains(text, `route="/v1/responses",status="499"} 1`) {
			t.Errorf("no client has left: %s", text)
		}
		s.Handler().ServeHTTP(&deaf{ResponseRecorder: httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/v1/info", nil))
		if n := strings.Count(log.String(), `"reason":"the client did not read its answer"`); n != 2 {
			t.Errorf("%d of 2 requests have a reason: %s", n, &log)
		}
	})
}

func TestSlowReaderOfLinesHoldsOnlyTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTest(t, Loading, nil)
		const work = 1 << 20
		s.Ready(eachFunc(func(ctx context.Context, begun func(), each func(int, *protocol.AgentOutput), outs []protocol.AgentOutput) error {
			return cmp.Or(budget.Add(ctx, work), backwards(ctx, begun, each, outs))
		}))
		read := make(chan struct{})
		go func() {
			defer close(read)
			req := httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(twoInputs))
			req.Header.Set("Accept", transfer.NDJSON)
			s.Handler().ServeHTTP(&deaf{ResponseRecorder: httptest.NewRecorder()}, req)
		}()
		synctest.Wait()
		if used := s.memory.Used(); used == 0 || used >= work {
			t.Errorf("after the work %d bytes are held", used)
		}
		<-read
	})
}

func TestQuietStreamHasSpacesBeforeItsNextLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTest(t, Loading, nil)
		s.Ready(eachFunc(func(ctx context.Context, begun func(), each func(int, *protocol.AgentOutput), outs []protocol.AgentOutput) error {
			time.Sleep(3 * keepAlive / 2) // a status may still follow
			begun()
			time.Sleep(2*keepAlive + keepAlive/4) // the first space comes half a pause after the beginning
			each(1, &outs[2])
			time.Sleep(3 * keepAlive / 4) // no pause since the line
			each(0, &outs[1])
			each(0, &outs[0])
			return nil
		}))
		body := streamRequest("/v1/responses", twoInputs).do(t, s).Body.String()
		if got := linesOf(t, body); len(got) != 4 || !strings.HasPrefix(body, `  {"input`) || strings.Contains(body, "\n ") {
			t.Errorf("%q", body)
		}
	})
}

func TestPanicOfALineEndsNoServer(t *testing.T) {
	s := newTest(t, Loading, nil)
	s.Ready(eachFunc(func(ctx context.Context, begun func(), each func(int, *protocol.AgentOutput), outs []protocol.AgentOutput) error {
		begun()
		each(9, &outs[0]) // there is no such input
		<-ctx.Done()
		return cmp.Or(ctx.Err(), errors.New("not cancelled"))
	}))
	w := streamRequest("/v1/responses", twoInputs).do(t, s)
	if strings.Contains(w.Body.String(), "candidates") {
		t.Errorf("the answer has an end: %s", w.Body)
	}
	if text := s.metricsText(t); !strings.Contains(text, "agentd_panics_total 1") {
		t.Errorf("no panic is counted: %s", text)
	}
}
