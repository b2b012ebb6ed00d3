package workload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/protocol"
)

// peer is an agent server that keeps what it got and answers with its length.
type peer struct {
	mu     sync.Mutex
	bodies []string
	header http.Header
}

func (p *peer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	p.mu.Lock()
	p.bodies = append(p.bodies, string(body))
	p.header = req.Header
	p.mu.Unlock()
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Peer", req.Host)
	w.WriteHeader(http.StatusTeapot)
	_, _ = io.WriteString(w, req.Method+" "+req.URL.Path)
}

// recording is a recorder between a client and a peer.
type recording struct {
	*Recorder
	t      *testing.T
	peer   *peer
	trace  bytes.Buffer
	url    string
	now    time.Time
	served chan struct{} // a value for each request that is over
}

func record(t *testing.T, change ...func(*RecorderOptions)) *recording {
	t.Helper()
	r := &recording{t: t, peer: new(peer), now: time.Unix(1000, 0), served: make(chan struct{}, 100)}
	server := httptest.NewServer(r.peer)
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := RecorderOptions{Target: target, Now: func() time.Time { return r.now }}
	for _, f := range change {
		f(&o)
	}
	if r.Recorder, err = NewRecorder(&r.trace, o); err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer func() { r.served <- struct{}{} }() // also when the handler gives up
		r.ServeHTTP(w, req)
	}))
	t.Cleanup(front.Close)
	r.url = front.URL
	return r
}

// send sends a request and returns the status and the body of the answer.
func (r *recording) send(method, path, body string, header ...string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// ask posts a request of some inputs.
func (r *recording) ask(inputs ...protocol.AgentInput) {
	r.t.Helper()
	req := protocol.AgentRequest{RequestID: "r", Inputs: inputs}
	for i := range req.Inputs {
		req.Inputs[i].ID = int64(i)
	}
	if status, _ := r.send("POST", responses, string(req.AppendJSON(nil))); status != http.StatusTeapot {
		r.t.Fatalf("got %d", status)
	}
}

// end closes the recorder and reads the trace.
func (r *recording) end() (*Trace, Recording) {
	r.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	counts, err := r.Close()
	if err != nil {
		r.t.Fatal(err)
	}
	return reread(r.t, r.trace.String()), counts
}

func told(content string) protocol.AgentInput {
	return protocol.AgentInput{Instruction: protocol.AgentInstruction{Type: protocol.InstructionUser, Content: content}}
}

// then is the input after one that was answered.
func then(t *testing.T, in protocol.AgentInput, say, content string) protocol.AgentInput {
	t.Helper()
	m, err := remember(&in, protocol.AgentDecision{Say: say})
	if err != nil {
		t.Fatal(err)
	}
	return protocol.AgentInput{Instruction: protocol.AgentInstruction{Type: protocol.InstructionEnv, Content: content}, Memory: m}
}

// TestARecordedTraceIsTheOneThatWasSent: agents and turns are found again, and the
// same is asked when it is sent once more.
func TestARecordedTraceIsTheOneThatWasSent(t *testing.T) {
	for _, kind := range kinds {
		r := record(t)
		sent := generate(t, small(kind))
		for i := range sent.Turns {
			body := `{"request_id":"r","inputs":[` + string(sent.Turns[i].Input) + `]}`
			r.send("POST", responses, body)
		}
		got, counts := r.end()
		if len(got.Turns) != len(sent.Turns) || counts.Turns != len(sent.Turns) || len(counts.Skipped) != 0 {
			t.Fatalf("%s: %+v", kind, counts)
		}
		if kind == Synthetic && counts.Agents != sent.Header.Options.Agents {
			t.Errorf("%d agents", counts.Agents)
		}
		for i := range sent.Turns {
			want, turn := sent.Turns[i], got.Turns[i]
			if kind == Household { // a new conversation is a new agent there
				want.Agent, want.Turn = turn.Agent, len(parsed(t, &want).History)/2
			}
			if diff := cmp.Diff(want, turn); diff != "" {
				t.Fatalf("%s, line %d: %s", kind, i, diff)
			}
		}
	}
}

func TestRequestsReachTheServerAsTheyCame(t *testing.T) {
	r := record(t)
	const body = "{ \"request_id\": \"r\",\n \"inputs\": [ {\"id\":1, \"instruction\":{\"type\":\"user\",\"content\":\"<\\u0041>\"}} ] }"
	if status, text := r.send("POST", responses, body, "Authorization", "Bearer secret", "X-Request-Id", "7"); status != http.StatusTeapot || text != "POST "+responses {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.send("GET", "/v1/info", ""); status != http.StatusTeapot || text != "GET /v1/info" {
		t.Errorf("%d %s", status, text)
	}
	if diff := cmp.Diff([]string{body, ""}, r.peer.bodies); diff != "" {
		t.Error(diff)
	}
	trace, counts := r.end()
	if counts.Turns != 1 || strings.Contains(r.trace.String(), "secret") {
		t.Errorf("%+v in %s", counts, &r.trace)
	}
	if got := string(trace.Turns[0].Input); got != `{"id":1,"instruction":{"type":"user","content":"<\u0041>"}}` {
		t.Errorf("recorded as %s", got)
	}
}

func TestAgentsAreToldApartByTheirHistories(t *testing.T) {
	r := record(t)
	a, b := told("go"), told("go") // two who begin alike
	r.ask(a, b)
	r.now = r.now.Add(1500 * time.Millisecond)
	b = then(t, b, "no", "why")
	a = then(t, a, "yes", "well")
	r.ask(b) // whoever comes first goes on with the first of them
	r.ask(a)
	a2 := then(t, a, "good", "bye")
	r.ask(then(t, b, "so", "now"), a2, a2) // two branches of one
	rules := told("go")
	rules.Memory = protocol.Raw(`{"memory_list":["Be kind."]}`)
	r.ask(rules)
	r.ask(then(t, rules, "yes", "well")) // as a's first, under other rules
	trace, counts := r.end()
	var got [][3]int
	for _, turn := range trace.Turns {
		got = append(got, [3]int{turn.Agent, turn.Turn, int(time.Duration(turn.At) / time.Millisecond)})
	}
	want := [][3]int{{0, 0, 0}, {1, 0, 0}, {0, 1, 1500}, {1, 1, 1500}, {0, 2, 1500}, {1, 2, 1500}, {2, 0, 1500}, {3, 0, 1500}, {3, 1, 1500}}
	if diff := cmp.Diff(want, got); diff != "" || counts.Agents != 4 {
		t.Errorf("%s\n%+v", diff, counts)
	}
}

func TestWhatIsNotRecordedIsCounted(t *testing.T) {
	r := record(t)
	r.most = 1000
	correction := told("go")
	correction.ExtraKeys = protocol.Raw(`{"coaching":{"kind":"replace_say","text":"x"}}`)
	none := told("on")
	none.ExtraKeys = protocol.Raw(`{"coaching":null}`)
	r.ask(correction, none)
	r.send("POST", responses, `{"request_id":"r"}`)
	r.send("POST", responses, `{"request_id":"r","inputs":[{"id":1,"instruction":{"type":"user","content":""},"memory":{"history":7}}]}`)
	r.send("POST", responses, "")
	r.send("POST", responses, "zip", "Content-Encoding", "gzip")
	r.send("POST", responses, "{}", "Content-Encoding", "br")
	r.send("POST", responses, strings.Repeat(" ", 1001))
	_, counts := r.end()
	want := Recording{Turns: 1, Agents: 1, Skipped: map[string]int{SkippedCorrection: 1, SkippedInvalid: 5, SkippedLarge: 1}}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
	if n := len(r.peer.bodies); n != 7 || len(r.peer.bodies[6]) != 1001 {
		t.Errorf("%d bodies reached the server", n)
	}
	if held := r.held.Load(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

func TestCompressedBodiesAreRecorded(t *testing.T) {
	r := record(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, `{"request_id":"r","inputs":[{"id":1,"instruction":{"type":"user","content":"go"},"num_outputs":3}]}`)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r.send("POST", responses, zipped.String(), "Content-Encoding", "GZIP")
	if trace, _ := r.end(); trace.Turns[0].Candidates != 3 || r.peer.bodies[0] != zipped.String() {
		t.Errorf("%+v", trace)
	}
}

// TestABodyWithoutAnEndIsNotRecorded: the client leaves in the middle of it.
func TestABodyWithoutAnEndIsNotRecorded(t *testing.T) {
	r := record(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST "+responses+" HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{\"request_id\":"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	<-r.served
	r.ask(told("go"))
	if _, counts := r.end(); counts.Skipped[SkippedIncomplete] != 1 || counts.Turns != 1 {
		t.Errorf("%+v", counts)
	}
}

// TestWithoutMemoryABodyIsPassedOn: what other bodies hold leaves no room.
func TestWithoutMemoryABodyIsPassedOn(t *testing.T) {
	r := record(t)
	r.held.Store(heldBytes)
	r.ask(told("one"))
	r.held.Store(0)
	r.ask(told("two"))
	trace, counts := r.end()
	if counts.Skipped[SkippedLarge] != 1 || decoded(t, &trace.Turns[0]).Instruction.Content != "two" || len(r.peer.bodies) != 2 {
		t.Errorf("%+v", counts)
	}
}

func TestAfterCloseNothingIsRecorded(t *testing.T) {
	r := record(t)
	r.ask(told("one"))
	_, counts := r.end()
	r.ask(told("two"))
	if trace, again := r.end(); len(trace.Turns) != 1 || again.Turns != counts.Turns || len(r.peer.bodies) != 2 {
		t.Errorf("%+v", again)
	}
}

func TestATraceThatCannotBeWrittenIsSaidOnce(t *testing.T) {
	var mu sync.Mutex
	var said []error
	r := record(t, func(o *RecorderOptions) {
		o.Failed = func(err error) { mu.Lock(); said = append(said, err); mu.Unlock() }
	})
	r.w = failing{}
	r.ask(told("one"), told("two"))
	r.ask(told("three"))
	http.DefaultClient.CloseIdleConnections()
	counts, err := r.Close()
	if err == nil || !strings.Contains(err.Error(), "disk full") || len(said) != 1 || !errors.Is(err, said[0]) {
		t.Errorf("%v, said %v", err, said)
	}
	if counts.Turns != 0 || counts.Skipped[SkippedFailed] != 3 || len(r.peer.bodies) != 2 {
		t.Errorf("%+v", counts)
	}
	if _, err := NewRecorder(failing{}, RecorderOptions{Target: &url.URL{Scheme: "http", Host: "x"}}); err == nil {
		t.Error("a header that could not be written is no error")
	}
}

func TestAServerThatIsNotThereIsSaid(t *testing.T) {
	r := record(t, func(o *RecorderOptions) { o.Target = &url.URL{Scheme: "http", Host: "127.0.0.1:1"} })
	status, text := r.send("POST", responses, `{"request_id":"r","inputs":[{"id":1,"instruction":{"type":"user","content":"go"}}]}`)
	if detail, _ := protocol.DecodeErrorBody([]byte(text)); status != http.StatusBadGateway || !strings.HasPrefix(detail, "the recorded server gave no answer: ") {
		t.Errorf("%d %s", status, text)
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := r.Close(); err != nil {
		t.Error(err)
	}
	for _, wrong := range []*url.URL{nil, {Scheme: "ftp", Host: "x"}, {Scheme: "http"}} {
		if _, err := NewRecorder(io.Discard, RecorderOptions{Target: wrong}); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:8888") {
			t.Errorf("got %v for %v", err, wrong)
		}
	}
}

// TestManyMayAskAtOnce, and every line is whole.
func TestManyMayAskAtOnce(t *testing.T) {
	r := record(t)
	sent := generate(t, small(Synthetic))
	var all sync.WaitGroup
	for _, turns := range byAgent(sent) {
		all.Go(func() {
			for _, turn := range turns {
				r.send("POST", responses, `{"request_id":"r","inputs":[`+string(turn.Input)+`]}`)
			}
		})
	}
	all.Wait()
	trace, counts := r.end()
	if len(trace.Turns) != len(sent.Turns) || counts.Agents != sent.Header.Options.Agents {
		t.Errorf("%+v", counts)
	}
}
