package check

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"agentd/coaching"
	"agentd/household/dataset/playbacktest"
	"agentd/protocol"
	"agentd/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "a-token-of-this-server"

// rightServer answers as the protocol says. With off it has no coaching.
func rightServer(t *testing.T, off bool, tokens ...string) http.Handler {
	t.Helper()
	info := protocol.AgentInfo{
		ProtocolVersion: protocol.Version, AgentID: fullHistory, AgentVersion: "1", CoachingResume: true,
		Capabilities: map[string]bool{"inference": true, "coaching": !off},
	}
	o := server.Options{Info: info, Log: zerolog.Nop(), Tokens: tokens}
	if off {
		o.Info.CoachingUnavailableReason = "coaching is switched off in this test"
	} else {
		o.Info.SpecializedCoaching, o.Info.CoachingSessionVersion = protocol.CoachingKinds(), protocol.CoachingSessionVersion
		coach, err := coaching.New(coaching.Options{Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = coach.Close(context.Background()) })
		o.Coach = coach
	}
	lost, err := playbacktest.New() // it says the same to every prompt
	if err != nil {
		t.Fatal(err)
	}
	return serving(t, o, calling{lost})
}

func serving(t *testing.T, o server.Options, d server.Inference) http.Handler {
	t.Helper()
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.Ready(d)
	return s.Handler()
}

// fault changes the answers to some requests.
type fault struct {
	when   string // a part of the requests: method, URI, headers and body
	from   int    // the first of them that it is about, counted from 1
	status int    // 0: the right one
	body   string // "": the right one
	old    string // a regular expression, whose first match in the answer is replaced
	new    string
	before func(body string) // is called before the request is served
}

// serve answers with the fault.
func (f *fault) serve(right http.Handler) http.Handler {
	var count atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if f.when == "" || !strings.Contains(wire(r, body), f.when) || int(count.Add(1)) < f.from {
			right.ServeHTTP(w, r)
			return
		}
		if f.before != nil {
			f.before(string(body))
		}
		answer := httptest.NewRecorder()
		right.ServeHTTP(answer, r)
		text := []byte(cmp.Or(f.body, answer.Body.String()))
		if f.old != "" {
			pattern := regexp.MustCompile(f.old)
			if at := pattern.FindSubmatchIndex(text); at != nil {
				changed := pattern.Expand(bytes.Clone(text[:at[0]]), []byte(f.new), text, at)
				text = append(changed, text[at[1]:]...)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if f.body != "" {
			w.Header().Set("Content-Type", "text/html")
		}
		w.WriteHeader(cmp.Or(f.status, answer.Code))
		_, _ = w.Write(text)
	})
}

// wire is a request as faults see it. It ends with a zero.
func wire(r *http.Request, body []byte) string {
	return fmt.Sprintf("%s %s\n%s %s %s %s\n%s\x00", r.Method, r.URL.RequestURI(), r.Header["Content-Type"], r.Header["X-Request-Id"],
		r.Header["Authorization"], r.Header["Origin"], body)
}

// broken is the fault for a rule of steps: the last one is answered wrongly.
func broken(t *testing.T, r rule) *fault {
	t.Helper()
	f, last := &fault{}, r.steps[len(r.steps)-1]
	sent := last.sent
	ofSessions := strings.HasPrefix(sent.path, "/v1/coaching/sessions/") // each rule has its own
	for _, s := range r.steps {
		if ofSessions && s.sent.path == sent.path || s.sent.text == sent.text && slices.Equal(s.sent.header, sent.header) && s.sent.path == sent.path {
			f.from++
		}
	}
	for _, wrong := range []*exchange{
		{status: http.StatusOK, body: []byte("[]")}, {status: http.StatusTeapot, body: []byte("<p>no</p>")},
	} {
		if last.right.judge(wrong) == Pass {
			continue
		}
		f.status, f.body = wrong.status, string(wrong.body)
		if ofSessions {
			f.when = " " + basePath(r.needs) + strings.ReplaceAll(sent.path, runName, runOf(r.id)) + "\n"
			return f
		}
		seen := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			f.when = wire(r, body)
		}))
		defer seen.Close()
		k := kit{base: seen.URL, transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
		k.single = k.transport
		if slices.Contains(r.needs, needToken) {
			k.config.Token = token
		}
		if _, err := k.exchange(t.Context(), sent, r.id); err != nil {
			t.Fatal(err)
		}
		return f
	}
	t.Fatalf("%s is right about everything", r.id)
	return nil
}

// basePath is where the right server declares what rules need.
func basePath(needs []need) string {
	if slices.Contains(needs, needSession0) {
		return "/magma"
	}
	return ""
}

// judged are the ids of the rules that fail on a server with a fault.
func judged(t *testing.T, f *fault, needs []need, only ...string) (failed []string, results map[string]*Result) {
	t.Helper()
	c := Config{Level: May, Only: only, Coaching: "auto"}
	var tokens []string
	if slices.Contains(needs, needToken) {
		c.Token = token
		tokens = []string{token}
	}
	if slices.Contains(needs, needLoad) {
		c.Load = 2
	}
	s := httptest.NewServer(f.serve(rightServer(t, slices.Contains(needs, needNoCoaching), tokens...)))
	defer s.Close()
	c.URL = s.URL + basePath(needs)
	report, err := Run(t.Context(), c, func(*Result) {})
	if err != nil {
		t.Fatal(err)
	}
	results = map[string]*Result{}
	for _, r := range report.Results {
		results[r.ID] = r
		if r.Verdict == Fail {
			failed = append(failed, r.ID)
		}
	}
	return failed, results
}

// small is a custom agent: it has no history, no corrections and no coaching.
type small struct{}

func (small) Decide(_ context.Context, req *protocol.AgentRequest) (outs []protocol.AgentOutput, err error) {
	for _, in := range req.Inputs {
		for i := range in.NumOutputs {
			outs = append(outs, protocol.AgentOutput{
				RequestID: req.RequestID, SourceID: in.ID, CandidateIndex: i, Status: protocol.StatusCompleted,
				Memory: in.Memory, Output: &protocol.AgentDecision{Say: "I use no tools."},
			})
		}
	}
	return outs, nil
}

func TestInferenceAloneIsEnough(t *testing.T) {
	web := httptest.NewServer(serving(t, server.Options{Log: zerolog.Nop(), Info: protocol.AgentInfo{
		ProtocolVersion: protocol.Version, AgentID: "small", AgentVersion: "1", CoachingUnavailableReason: "it has none",
		Capabilities: map[string]bool{"inference": true, "coaching": false},
	}}, small{}))
	defer web.Close()
	report, err := Run(t.Context(), Config{URL: web.URL, Level: Should, Coaching: "auto"}, func(*Result) {})
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Count(func(x *Result) bool { return x.Verdict == Fail }); n > 0 {
		t.Errorf("%d rules fail: %s", n, report.Summary())
	}
	if n := report.Count(func(x *Result) bool { return x.Verdict == Pass }); n < 70 {
		t.Errorf("%d rules pass: %s", n, report.Summary())
	}
}

func TestRightServerPassesEveryRule(t *testing.T) {
	passed := map[string]bool{}
	for needs, only := range map[need][]string{
		"": nil, needNoCoaching: {"session", "coaching"}, needToken: {"token"}, needLoad: {"load", "order"}, needSession0: {"session", "correction"},
	} {
		failed, results := judged(t, &fault{}, []need{needs}, only...)
		for _, id := range failed {
			t.Errorf("%s: %s", id, results[id].Seen)
		}
		for id, r := range results {
			passed[id] = passed[id] || r.Verdict == Pass
		}
	}
	for id, yes := range passed {
		if !yes {
			t.Errorf("%s never passed", id)
		}
	}
}

// TestServerWithTLS: all that is sent, also what no HTTP client sends, goes over TLS.
func TestServerWithTLS(t *testing.T) {
	s := httptest.NewTLSServer(rightServer(t, false))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	report, err := Run(t.Context(), Config{URL: s.URL, Roots: roots, Level: May, Only: []string{"http", "health", "session", "cancel"}, Coaching: "on"},
		func(r *Result) {
			if r.Verdict == Fail {
				t.Errorf("%s: %s", r.ID, r.Seen)
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Count(func(x *Result) bool { return x.Verdict == Pass }); n < 30 {
		t.Errorf("%d rules pass: %s", n, report.Summary())
	}
}

// TestCurlLineRepeatsTheRequest: bytes, headers and long bodies arrive as the kit sent them.
func TestCurlLineRepeatsTheRequest(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	got := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- wire(r, body)
	}))
	defer s.Close()
	k := kit{base: s.URL, transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, config: Config{Token: token, URL: s.URL}}
	repeated := 0
	for _, r := range rules() {
		if !slices.Contains([]string{
			"health/head", "token/wrong", "request/empty", "request/utf-8", "request/type-absent", "input/content-unicode",
			"bound/depth", "bound/inputs-beyond", "session/run-escaped", "session/delete-unknown",
		}, r.id) {
			continue
		}
		x, err := k.exchange(t.Context(), r.steps[0].sent, r.id)
		if err != nil {
			t.Fatal(err)
		}
		want := <-got
		line := exec.CommandContext(t.Context(), "bash", "-c", x.request.curl(&k.config))
		line.Env = append(os.Environ(), "TOKEN="+token)
		if out, err := line.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", r.id, err, out)
		}
		if again := <-got; again != want {
			t.Errorf("%s: got %.500q, want %.500q\n%.500s", r.id, again, want, line.Args[2])
		}
		repeated++
	}
	if repeated != 10 {
		t.Errorf("%d requests were repeated", repeated)
	}
}

// TestInterruptedCheckBlamesNoServer, and closes its session.
func TestInterruptedCheckBlamesNoServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	right := rightServer(t, false)
	var open sync.Map
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + r.URL.Path {
		case "POST/v1/coaching":
			cancel()
		case "PUT" + r.URL.Path:
			open.Store(r.URL.Path, true)
		case "DELETE" + r.URL.Path:
			open.Delete(r.URL.Path)
		}
		right.ServeHTTP(w, r)
	}))
	report, err := Run(ctx, Config{URL: s.URL, Level: May, Only: []string{"coaching/no-points"}, Coaching: "on"}, func(*Result) {})
	s.Close()
	if _, err := Run(ctx, Config{URL: s.URL, Level: May, Coaching: "on"}, nil); err == nil || strings.Contains(err.Error(), "server") {
		t.Errorf("before the first rule: %v", err)
	}
	open.Range(func(path, _ any) bool { t.Errorf("%s is open", path); return true })
	if !errors.Is(err, context.Canceled) || report.Count(func(r *Result) bool { return r.Verdict == Fail }) > 0 {
		t.Errorf("%v; %+v", err, report)
	}
}
