package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/text/unicode/norm"

	"agentd/internal/base/waittest"
	"agentd/scheduler/generation"
)

// freezer makes an engine hang in all calls that a hang takes, until thaw is called.
type freezer struct {
	held    atomic.Bool
	release chan struct{}
}

// freeze makes f hang. hang returns false for a call that is answered.
func freeze(t *testing.T, f *fakeEngine, hang func(w http.ResponseWriter, path string) bool) (thaw func()) {
	z := &freezer{release: make(chan struct{})}
	z.held.Store(true)
	f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
		if !z.held.Load() || !hang(w, r.URL.Path) {
			return false
		}
		select {
		case <-z.release:
		case <-r.Context().Done():
		}
		return true
	})
	thaw = func() {
		if z.held.Swap(false) {
			close(z.release)
		}
	}
	t.Cleanup(thaw) // before the server is closed
	return thaw
}

// sends begins an answer that does not end.
func sends(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Length", "100")
	_, _ = w.Write([]byte(text))
	_ = http.NewResponseController(w).Flush()
}

// two are engines, of which the first takes the request.
func two(t *testing.T, adjust func(*limits)) (e *Engine, l *log, first, second *fakeEngine, r *generation.Request) {
	a, b := newFake(t, APIVLLM), newFake(t, APIVLLM)
	e, l = opened(t, a, b)
	adjust(&e.limits)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = request(1)
	r.Session = "s"
	if first, second = a, b; e.order(r)[0].url != a.URL {
		first, second = b, a
	}
	return e, l, first, second, r
}

func (e *Engine) has(f *fakeEngine) bool {
	for _, r := range e.replicas {
		if r.url == f.URL {
			return r.available()
		}
	}
	return false
}

func TestFrozenEngineIsFoundAndItsRequestsGoElsewhere(t *testing.T) {
	for name, before := range map[string]string{"accepts only": "", "in the middle of an answer": "{"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, l, first, second, r := two(t, func(of *limits) { of.probe = time.Second })
			thaw := freeze(t, first, func(w http.ResponseWriter, path string) bool {
				if path == "/v1/completions" && before != "" {
					sends(w, before)
				}
				return true
			})
			got, err := e.Generate(t.Context(), r)
			if err != nil || texts(got) != "ok<end>/stop" || second.count() != 1 {
				t.Fatalf("got %s, %v; the other engine had %d calls", texts(got), err, second.count())
			}
			if e.has(first) || !e.has(second) || !e.Healthy() {
				t.Error("the frozen engine is not left out, or the other one is")
			}
			waittest.Eventually(t, "the reason is logged", func() bool {
				return strings.Contains(l.String(), first.URL) && strings.Contains(l.String(), "/health: no answer within 1s to 2 probes in a row")
			})
			thaw()
			waittest.Eventually(t, "the engine comes back", func() bool { return e.has(first) })
			waittest.Eventually(t, "its return is logged", func() bool { return strings.Contains(l.String(), "reachable again") })
		})
	}
}

// An agentd that drains ends its work, and one that failed never will.
func TestEngineThatRefusesWorkKeepsItsRequestsUnlessItFailed(t *testing.T) {
	for status, elsewhere := range map[string]int{"draining": 0, "failed": 1, "stuck: context 0": 1} {
		t.Run(status, func(t *testing.T) {
			e, l, first, second, r := two(t, func(*limits) {})
			var began atomic.Bool
			first.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case r.URL.Path == "/health" && began.Load():
					w.WriteHeader(http.StatusServiceUnavailable)
					_, _ = w.Write([]byte(`{"status":"` + status + `"}`))
					return true
				case r.URL.Path == "/v1/completions":
					body, _ := io.ReadAll(r.Body) // so that the end of the call is noticed
					r.Body = io.NopCloser(bytes.NewReader(body))
					began.Store(true)
					for e.has(first) {
						time.Sleep(time.Millisecond)
					}
					if elsewhere > 0 {
						<-r.Context().Done()
					}
				}
				return false
			})
			got, err := e.Generate(t.Context(), r)
			if err != nil || texts(got) != "ok<end>/stop" || second.count() != elsewhere {
				t.Errorf("got %s, %v; the other engine had %d calls", texts(got), err, second.count())
			}
			waittest.Eventually(t, "the reason is logged", func() bool {
				return strings.Contains(l.String(), first.URL) && strings.Contains(l.String(), status)
			})
		})
	}
}

// Short times of clients say nothing of an engine that answers probes.
func TestRequestsWithShortTimesLeaveTheEngineIn(t *testing.T) {
	f := newFake(t, APIVLLM)
	e, l := opened(t, f)
	e.limits.late = time.Hour
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{})
	freeze(t, f, func(_ http.ResponseWriter, path string) bool {
		if path == "/v1/completions" {
			arrived <- struct{}{}
			return true
		}
		return false
	})
	for range 3 * lateRequests {
		late := deadline{t.Context(), make(chan struct{})}
		go func() {
			<-arrived
			close(late.done)
		}()
		if _, err := e.Generate(late, request(1)); !errors.As(err, new(*generation.LateError)) {
			t.Fatalf("got %v", err)
		}
	}
	if !e.has(f) || strings.Contains(l.String(), "unreachable") {
		t.Errorf("logged %s", l.String())
	}
}

// An engine that closes its connections has a new one for each probe. It is compared again by what
// it says of itself, not by its whole vocabulary.
func TestEngineThatClosesConnectionsIsNotComparedAgain(t *testing.T) {
	f := newFake(t, APIVLLM)
	var probes, texts atomic.Int64
	f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Connection", "close")
		switch r.URL.Path {
		case "/health":
			probes.Add(1)
		case "/tokenize":
			texts.Add(1)
		}
		return false
	})
	e, _ := opened(t, f)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := probes.Load()
	waittest.Eventually(t, "it is probed", func() bool { return probes.Load() > first+2 })
	compared := texts.Load()
	waittest.Eventually(t, "it is probed again", func() bool { return probes.Load() > first+12 })
	if n := texts.Load(); n != compared {
		t.Errorf("%d texts were tokenized again", n-compared)
	}
}

func TestAnswerThatStopsIsAskedElsewhere(t *testing.T) {
	t.Parallel()
	e, l, first, second, r := two(t, func(of *limits) { of.stall = 100 * time.Millisecond })
	freeze(t, first, func(w http.ResponseWriter, path string) bool {
		if path == "/v1/completions" {
			sends(w, "")
		}
		return path == "/v1/completions"
	})
	got, err := e.Generate(t.Context(), r)
	if err != nil || texts(got) != "ok<end>/stop" || second.count() != 1 || e.has(first) {
		t.Fatalf("got %s, %v; the other engine had %d calls", texts(got), err, second.count())
	}
	if s := l.String(); !strings.Contains(s, first.URL) || !strings.Contains(s, "the answer stopped for 100ms") {
		t.Errorf("logged %s", s)
	}
}

func TestSlowEngineThatAnswersProbesKeepsItsWork(t *testing.T) {
	f := newFake(t, APIVLLM)
	e, l := opened(t, f)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var probes atomic.Int64
	f.intercepts(func(_ http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/health":
			probes.Add(1)
		case "/v1/completions": // a long prefill
			for before := probes.Load(); probes.Load() < before+5 && r.Context().Err() == nil; {
				time.Sleep(time.Millisecond)
			}
		}
		return false
	})
	if got, err := e.Generate(t.Context(), request(1)); err != nil || texts(got) != "ok<end>/stop" {
		t.Errorf("got %s, %v", texts(got), err)
	}
	if s := l.String(); s != "" {
		t.Errorf("logged %s", s)
	}
}

// The connection of an answer that goes on shows that the engine lives, whatever the probes say.
func TestAnswerThatGoesOnIsProgress(t *testing.T) {
	f := newFake(t, APIVLLM)
	e, _ := opened(t, f)
	e.limits.probe = 100 * time.Millisecond
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var probes atomic.Int64
	var had bool
	f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/health":
			probes.Add(1)
			<-r.Context().Done()
			return true
		case "/v1/completions":
			body, _ := io.ReadAll(r.Body) // before the answer begins
			r.Body = io.NopCloser(bytes.NewReader(body))
			for before := probes.Load(); probes.Load() < before+4 && r.Context().Err() == nil; {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Millisecond)
			}
			had = e.has(f)
		}
		return false
	})
	if got, err := e.Generate(t.Context(), request(1)); err != nil || texts(got) != "ok<end>/stop" || !had {
		t.Errorf("got %s, %v; it had work: %t", texts(got), err, had)
	}
}

func TestRequestsThatTimeOutCountAgainstTheEngine(t *testing.T) {
	f := newFake(t, APIVLLM)
	e, l := opened(t, f)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{}, 1)
	var proofs atomic.Int64
	thaw := freeze(t, f, func(_ http.ResponseWriter, path string) bool {
		if path != "/v1/completions" {
			return false
		}
		if proofs.Add(1) <= lateRequests {
			arrived <- struct{}{}
		}
		return true
	})
	for range lateRequests {
		late := deadline{t.Context(), make(chan struct{})}
		go func() {
			<-arrived
			close(late.done)
		}()
		_, err := e.Generate(late, request(1))
		if of := (*generation.LateError)(nil); !errors.As(err, &of) || of.Engine != f.URL || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(e.limits.probeEvery) // those that end together count once
	}
	if s := l.String(); !strings.Contains(s, "engine unreachable") {
		t.Errorf("logged %s", s)
	}
	_, err := e.Generate(t.Context(), request(1))
	if busy := (*generation.BusyError)(nil); !errors.As(err, &busy) || !strings.Contains(err.Error(), "engine "+f.URL+": the time of 2 requests ended") {
		t.Errorf("got %v", err)
	}
	if n := e.Stats()[0].Errors["timeout"]; n != lateRequests {
		t.Errorf("%d timeouts are counted", n)
	}
	waittest.Eventually(t, "a token is asked for", func() bool { return proofs.Load() > lateRequests })
	if e.has(f) {
		t.Error("it gets work before it generated a token")
	}
	thaw()
	waittest.Eventually(t, "the engine comes back", func() bool { return e.has(f) })
}

func TestHangingEngineDoesNotHoldUpTheStart(t *testing.T) {
	for _, at := range []string{"/health", "/version", "/v1/models", "/tokenize"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			a, b := newFake(t, APIVLLM), newFake(t, APIVLLM)
			thaw := freeze(t, a, func(_ http.ResponseWriter, path string) bool { return path == at })
			e, l := opened(t, a, b)
			e.limits.others = 10 * time.Millisecond
			e.limits.probe, e.limits.describe = time.Minute, time.Minute
			if err := e.Start(t.Context()); err != nil || e.has(a) || !e.has(b) {
				t.Fatalf("%v; the hanging engine gets work: %t", err, e.has(a))
			}
			if got, err := e.Generate(t.Context(), request(1)); err != nil || texts(got) != "ok<end>/stop" {
				t.Errorf("got %s, %v", texts(got), err)
			}
			thaw()
			waittest.Eventually(t, "the engine joins", func() bool { return e.has(a) })
			if s := l.String(); strings.Contains(s, "before") {
				t.Errorf("logged %s", s)
			}
		})
	}
}

func TestLogSaysWhichEnginesTheStartWaitsFor(t *testing.T) {
	t.Parallel()
	a, b := newFake(t, APIVLLM), newFake(t, APIVLLM)
	e, l := opened(t, a, b)
	e.limits.probe, e.limits.describe = 100*time.Millisecond, 100*time.Millisecond
	freeze(t, a, func(http.ResponseWriter, string) bool { return true })
	freeze(t, b, func(_ http.ResponseWriter, path string) bool { return path == "/tokenize" })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Start(ctx) }()
	for url, what := range map[string]string{a.URL: "/health: no answer within 100ms", b.URL: "/tokenize: no answer within 100ms"} {
		waittest.Eventually(t, "the log says "+what, func() bool {
			for line := range strings.Lines(l.String()) {
				if strings.Contains(line, url) && strings.Contains(line, what) {
					return true
				}
			}
			return false
		})
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// again makes an engine be another process: its connections end.
func again(f *fakeEngine, change func()) {
	f.set(change)
	f.CloseClientConnections()
}

func TestEngineThatReturnsWithAnotherVocabularyIsLeftOut(t *testing.T) {
	for name, returns := range map[string]func(e *Engine, f *fakeEngine, change func()){
		"while no request runs": func(_ *Engine, f *fakeEngine, change func()) { again(f, change) },
		"after a lost request": func(e *Engine, f *fakeEngine, change func()) {
			f.set(change)
			e.lost(e.replicas[0], gone, &errUnreachable{errors.New("test")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, APIVLLM)
			e, l := opened(t, f)
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			returns(e, f, func() { f.model, f.tokens = "other", func(string) []int { return []int{1} } })
			waittest.Eventually(t, "it is left out", func() bool { return strings.Contains(l.String(), "does not fit") })
			if s := l.String(); e.has(f) || e.Healthy() || !strings.Contains(s, "its model other has another vocabulary than bytes.gguf, which agentd uses: token 1 of") {
				t.Errorf("it gets work: %t; logged %s", e.has(f), s)
			}
			_, err := e.Generate(t.Context(), request(1))
			if busy := (*generation.BusyError)(nil); !errors.As(err, &busy) || f.count() > 0 || !strings.Contains(err.Error(), "its model other has another vocabulary") {
				t.Errorf("got %v after %d calls", err, f.count())
			}
			again(f, func() { f.model, f.tokens = "m", nil })
			waittest.Eventually(t, "it gets work again", func() bool { return e.has(f) })
		})
	}
}

// normalizingModel makes tokens of a text in NFC, as Qwen's tokenizer does.
type normalizingModel struct{ bytesModel }

func (m normalizingModel) Tokenize(text string) ([]generation.Token, error) {
	return m.bytesModel.Tokenize(norm.NFC.String(text))
}

func TestEngineThatDoesNotNormalizeIsNotRefused(t *testing.T) {
	f := newFake(t, APILlamaServer)
	e, _ := openedFor(t, normalizingModel{}, f)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong := newFake(t, APILlamaServer)
	wrong.tokens = func(string) []int { return []int{1} }
	e, _ = openedFor(t, normalizingModel{}, wrong)
	if err := e.Start(t.Context()); err == nil {
		t.Error("an engine with other tokens is taken")
	}
}

func TestComparisonThatFailsIsMadeAgain(t *testing.T) {
	f := newFake(t, APIVLLM)
	e, l := opened(t, f)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
		busy := r.URL.Path == "/tokenize" && calls.Add(1) <= 4*probeCalls
		if busy {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return busy
	})
	again(f, func() { f.tokens = func(string) []int { return []int{1} } })
	waittest.Eventually(t, "it is left out", func() bool { return strings.Contains(l.String(), "has another vocabulary") })
	if e.has(f) {
		t.Error("it gets work")
	}
}

func TestEngineThatReturnsWithAnotherModelIsAskedForIt(t *testing.T) {
	f := newFake(t, APILlamaServer)
	f.window = 100
	e, l := opened(t, f)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := e.Generate(t.Context(), request(1)); err != nil || got.Version != "m" || e.Context() != 100 {
		t.Errorf("version %q, context %d, %v", got.Version, e.Context(), err)
	}
	again(f, func() { f.model, f.window = "m-2", 40 })
	waittest.Eventually(t, "the change is logged", func() bool { return strings.Contains(l.String(), "serves something else than before") })
	if s := l.String(); !strings.Contains(s, `"model":"m-2","model_before":"m","context":40,"context_before":100`) {
		t.Errorf("logged %s", s)
	}
	if got, err := e.Generate(t.Context(), request(1)); err != nil || got.Version != "m-2" || e.Served() != "m-2" {
		t.Errorf("version %q, served %q, %v", got.Version, e.Served(), err)
	}
	long := request(1)
	long.MaxTokens = 90
	if _, err := e.Generate(t.Context(), long); !errors.As(err, new(*generation.OverflowError)) {
		t.Errorf("a request beyond the new context: %v", err)
	}
}

func TestRequestGoesToTheEngineWhoseContextHoldsIt(t *testing.T) {
	small, large := newFake(t, APIVLLM), newFake(t, APIVLLM)
	small.window, large.window = 20, 200
	e := started(t, small, large)
	for i := range 16 {
		r := request(1)
		r.Session, r.MaxTokens = fmt.Sprint(i), 100
		if _, err := e.Generate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if small.count() != 0 || large.count() != 16 {
		t.Errorf("%d and %d calls", small.count(), large.count())
	}
}

func TestEngineThatReturnsWithAnotherAPIIsLeftOut(t *testing.T) {
	f := newFake(t, APIVLLM)
	e, l := opened(t, f)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	again(f, func() { f.api = APILlamaServer })
	waittest.Eventually(t, "it is left out", func() bool {
		return strings.Contains(l.String(), "it has the API llama-server, but the engines are used by that of vllm")
	})
	if e.has(f) {
		t.Error("it gets work")
	}
}

func TestErrorsAtStartSayWhatToWrite(t *testing.T) {
	for name, c := range map[string]struct {
		path   string // that answers the status
		status int
		key    bool
		want   []string
	}{
		"a wrong key":       {"/v1/models", 401, true, []string{"status 401", "it refused the key in the file of engine_key_file"}},
		"a wrong key early": {"/version", 403, true, []string{"status 403", "engine_key_file"}},
		"no key":            {"/v1/models", 401, false, []string{"it wants a key: name the file that holds it as engine_key_file"}},
		"no such path":      {"/health", 404, true, []string{"/health: status 404", "as engine, such as http://127.0.0.1:8000"}},
		"a redirect":        {"/health", 301, true, []string{"status 301", "as engine,"}},
		"no models":         {"/v1/models", 404, true, []string{"completions"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, APIVLLM)
			f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == c.path {
					w.WriteHeader(c.status)
				}
				return r.URL.Path == c.path
			})
			e, _ := opened(t, f)
			if !c.key {
				e.key = ""
			}
			err := e.Start(t.Context())
			if err == nil || !strings.Contains(err.Error(), f.URL) {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

func TestEngineWithoutTheModelNamesWhatItHas(t *testing.T) {
	e, _ := opened(t, newFake(t, APIVLLM))
	e.cfg.Model = "wanted"
	if err := e.Start(t.Context()); err == nil || !strings.Contains(err.Error(), `["m"] and not the model "wanted" of engine_model`) {
		t.Errorf("got %v", err)
	}
}

func TestEngineOfAnotherAPIIsNotUsedAsSGLang(t *testing.T) {
	f := newFake(t, APIVLLM)
	e, _ := opened(t, f)
	e.cfg.API = APISGLang
	f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/server_info" {
			fmt.Fprint(w, "{}")
		}
		return r.URL.Path == "/server_info"
	})
	if err := e.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "has no /generate") {
		t.Errorf("got %v", err)
	}
}

func TestEnginesAtStartMustHaveOneAPI(t *testing.T) {
	e, _ := opened(t, newFake(t, APIVLLM), newFake(t, APISGLang))
	if err := e.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "vllm") || !strings.Contains(err.Error(), "sglang") {
		t.Errorf("got %v", err)
	}
}

func TestURLEndsAreTrimmed(t *testing.T) {
	f := newFake(t, APIVLLM)
	deep := httptest.NewServer(http.StripPrefix("/models/a", http.HandlerFunc(f.serve)))
	t.Cleanup(deep.Close)
	for url, want := range map[string]string{
		f.URL + "/": f.URL, f.URL + "/v1": f.URL, f.URL + "/v1/": f.URL, f.URL + "//": f.URL,
		deep.URL + "/models/a/": deep.URL + "/models/a", deep.URL + "/models/a/v1": deep.URL + "/models/a",
	} {
		e, _ := opened(t, &fakeEngine{Server: &httptest.Server{URL: url}})
		if err := e.Start(t.Context()); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if got := e.Stats()[0].URL; got != want {
			t.Errorf("%s becomes %s, want %s", url, got, want)
		}
	}
}

// deadline is a context whose deadline passes when the test decides.
type deadline struct {
	context.Context
	done chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.done }

func (d deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestOnlyRequestsThatSayMoreOfASlowEngineCount: without a byte meanwhile, long enough, and not together with another.
func TestOnlyRequestsThatSayMoreOfASlowEngineCount(t *testing.T) {
	e, _ := opened(t, newFake(t, APIVLLM))
	e.limits.late, e.limits.probeEvery = time.Second, time.Minute
	r := e.replicas[0]
	for i, tc := range []struct {
		moved uint64
		took  time.Duration
		ago   time.Duration // of the last one that counts
		want  int
	}{
		{0, time.Second, time.Hour, 1},
		{0, time.Second - 1, time.Hour, 0},
		{1, time.Hour, time.Hour, 0},
		{0, time.Hour, time.Second, 0},
		{0, time.Hour, 2 * time.Minute, 1},
	} {
		r.mu.Lock()
		r.late, r.lateAt = 0, time.Now().Add(-tc.ago)
		r.mu.Unlock()
		if e.late(r, tc.moved, tc.took); r.late != tc.want {
			t.Errorf("%d: %d requests count, want %d", i, r.late, tc.want)
		}
	}
	r.late = lateRequests - 1
	r.lateAt = time.Time{}
	if e.late(r, 0, time.Hour); r.state != frozen {
		t.Errorf("%d requests in a row leave the engine in", lateRequests)
	}
}

// TestStuckEngineKeepsItsRequestsWhereThereIsNoOther that could answer them.
func TestStuckEngineKeepsItsRequestsWhereThereIsNoOther(t *testing.T) {
	for status, ends := range map[string]bool{"stuck: context 0": false, "failed": true, "draining": false} {
		f := newFake(t, APIVLLM)
		e, _ := opened(t, f)
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := e.replicas[0]
		life, _, end := r.begin()
		f.intercepts(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":"` + status + `"}`))
			return true
		})
		waittest.Eventually(t, "the engine is out", func() bool { return !e.Healthy() })
		if (life.Err() != nil) != ends {
			t.Errorf("%s: its calls end: %t, want %t", status, life.Err() != nil, ends)
		}
		end()
	}
}
