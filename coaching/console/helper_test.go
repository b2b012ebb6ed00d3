package console

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"agentd/internal/base/waittest"
	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen; only failures take it.
const patience = time.Minute

// fakePage stands for the page: the API is tested without it.
var fakePage = fstest.MapFS{
	"index.html":    {Data: []byte("<!doctype html><title>page</title>")},
	"js/app.js":     {Data: []byte("export {}")},
	"js/notes.txt":  {Data: []byte("not served")},
	"css/large.css": {Data: bytes.Repeat([]byte("a{}"), 4096)},
}

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

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

// fixture is a console that listens on a loopback port.
type fixture struct {
	t       *testing.T
	console *Console
	clock   *clock
	url     string
	http    *http.Client
	path    string
	stop    func()
}

// open starts a console on a new file.
func open(t *testing.T, change ...func(*Options)) *fixture {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "console.db"), newClock(), change...)
}

func openAt(t *testing.T, path string, clock *clock, change ...func(*Options)) *fixture {
	t.Helper()
	secrets := 0
	o := Options{
		Path: path,
		Log:  zerolog.Nop(),
		Now:  clock.now,
		NewSecret: func() string { // called within transactions, of which one runs at a time
			secrets++
			return path + strconv.Itoa(secrets)
		},
		Page: fakePage,
	}
	for _, f := range change {
		f(&o)
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- c.Serve(listener) }()
	transport := &http.Transport{DisableCompression: true}
	f := &fixture{
		t: t, console: c, clock: clock, path: path,
		url:  "http://" + listener.Addr().String(),
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	f.stop = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// detail is the sentence of an error, or its problems dotted.
func (r reply) detail() string {
	detail, problems := protocol.DecodeErrorBody(r.body)
	if len(problems) > 0 {
		return problems.All()
	}
	return detail
}

// call sends a request as the page does, body being a text or a value to encode.
func (f *fixture) call(method, path string, body any, change ...func(*http.Request)) reply {
	f.t.Helper()
	r, err := f.try(context.Background(), method, path, body, change...)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) try(ctx context.Context, method, path string, body any, change ...func(*http.Request)) (reply, error) {
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			return reply{}, err
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, f.url+path, reader)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(path, "/api/") {
		req.Header.Set(headerConsole, "1")
	}
	for _, f := range change {
		f(req)
	}
	res, err := f.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, raw}, err
}

// want calls and fails the test unless the status is as wanted; the answer goes
// into `into`, unless that is nil.
func (f *fixture) want(status int, method, path string, body, into any) reply {
	f.t.Helper()
	r := f.call(method, path, body)
	if r.status != status {
		f.t.Fatalf("%s %s: status %d, want %d: %s", method, path, r.status, status, r.body)
	}
	if into != nil {
		if err := json.Unmarshal(r.body, into); err != nil {
			f.t.Fatalf("%s %s: %v in %s", method, path, err, r.body)
		}
	}
	return r
}

// posted is an agent that waits for its answer.
type posted struct {
	t      *testing.T
	leave  context.CancelFunc
	result chan reply
	failed chan error
}

// post posts a task as an agent does and returns once it is waiting.
func (f *fixture) post(task string) *posted {
	f.t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	p := &posted{f.t, leave, make(chan reply, 1), make(chan error, 1)}
	before := f.connections()
	go func() {
		r, err := f.try(ctx, http.MethodPost, "/v1/coaching/requests", task)
		if err != nil {
			p.failed <- err
			return
		}
		p.result <- r
	}()
	f.t.Cleanup(leave)
	f.eventually("the agent waits", func() bool { return f.connections() > before })
	return p
}

// connections counts the agents' waiting requests.
func (f *fixture) connections() int {
	d := f.console.tasks
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, p := range d.open {
		n += p.waiting
	}
	return n
}

// eventually waits for the effect of another goroutine or process.
func (f *fixture) eventually(what string, happened func() bool) {
	f.t.Helper()
	waittest.Eventually(f.t, what, happened)
}

// answer is the response to the agent.
func (p *posted) answer() *protocol.HumanCoachingResponse {
	p.t.Helper()
	r := p.reply()
	if r.status != http.StatusOK {
		p.t.Fatalf("the agent got status %d: %s", r.status, r.body)
	}
	response, err := protocol.DecodeHumanCoachingResponse(r.body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response
}

func (p *posted) reply() reply {
	p.t.Helper()
	select {
	case r := <-p.result:
		return r
	case err := <-p.failed:
		p.t.Fatalf("the agent's request failed: %v", err)
	case <-time.After(patience):
		p.t.Fatal("the agent got no answer")
	}
	return reply{}
}

// foreign is a task of another agent, without a coaching request.
func foreign(id string) string {
	return `{"request_id":` + strconv.Quote(id) + `,"payload_id":7,"payload_type":"SuboptimalFixPayload",
		"payload":{"stage_goal":"Cube in box","run_id":"run-9","tools_api":[{"name":"pick","description":"Pick up","parameters":{"object":{"type":"string","description":"which"}}}],
		"task_attributes":{"known_robots":["arm"]}},"rendered_prompt":"Improve it.","allow_force_save_example":true}`
}

// claimed claims a task for a person and returns the claim.
func (f *fixture) claimed(id, person string) string {
	f.t.Helper()
	var c changed
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/"+id+"/claim", map[string]any{"person": person}, &c)
	return c.Claim
}

// tasks lists tasks.
func (f *fixture) tasks(state string) []summary {
	f.t.Helper()
	var list taskList
	f.want(http.StatusOK, http.MethodGet, "/api/tasks?state="+state, nil, &list)
	return list.Tasks
}

type object = map[string]any

// coachingRequest is an orchestrator's request to an agentd server: a wrong
// call at step 7, and two points to correct it at.
const coachingRequest = `{"run_id":"run-1","request_id":"c-1","kind":"failure","stage":{"id":2,"goal":"Cube in box","hint":null},
	"active_errors":[{"code":"E1","description":"unreachable","details":{"x":0.50}}],"target_step_id":7,
	"trajectory":[{"id":7,"input":{"id":3,"instruction":{"type":"user","content":"Put the cube into the box."},
		"tools":[{"name":"pick","description":"Pick up an object","parameters":{"object":{"type":"string","description":"Which one"}}}],
		"attributes":{"known_robots":["arm"]},"num_outputs":3,"extra_keys":{"coaching":{"kind":"replace_say","text":"old"},"inference_mode":true}},
		"output":{"say":"","tool_calls":[{"name":"pick","arguments":{"object":"box"},"target_robot_name":"arm"}]}}],
	"reinjection_points":[{"id":"p0","input_step_id":7},{"id":"p1","input":{"id":9,"instruction":{"type":"env","content":"Go on."}}}]}`

// ours is a task as an agentd server posts it.
func ours(id string) string {
	return `{"request_id":` + strconv.Quote(id) + `,"payload_id":1,"payload_type":"FailureFixPayload",
		"payload":{"stage_goal":"Cube in box","coaching_request":` + coachingRequest + `},"rendered_prompt":"# Failure","allow_force_save_example":false}`
}

// unsure is a task of an agent that lets people choose among its options.
func unsure(id string) string {
	at := strings.Index(coachingRequest, `"output":`)
	return `{"request_id":` + strconv.Quote(id) + `,"payload_id":1,"payload_type":"FailureFixPayload","rendered_prompt":"p","payload":{"coaching_request":` +
		coachingRequest[:at] + `"error":{"code":"unsure","message":"?","component":"commander"}}],"reinjection_points":[{"id":"now","input_step_id":7}],
		"additional_info":{"options":["unsure",{"tool_calls":[{"name":"pick","arguments":{"object": "cube"},"target_robot_name":"arm"}]}]}}}}`
}

// pick is a decision that fits the point p0.
func pick(what string) object {
	return object{"say": "", "tool_calls": []object{{"name": "pick", "arguments": object{"object": what}, "target_robot_name": "arm"}}}
}
