package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"agentd/internal/base/tracing"
	"agentd/internal/base/waittest"
	"agentd/scheduler/generation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var realAPIs = []string{APIVLLM, APISGLang, APILlamaServer}

func TestCompletionsComeInOrderFromEachAPI(t *testing.T) {
	for _, api := range realAPIs {
		t.Run(api, func(t *testing.T) {
			f := newFake(t, api)
			f.reply = func(seed uint32) string { return fmt.Sprint(seed) }
			e := started(t, f)
			if e.API() != api || e.Served() != "m" {
				t.Errorf("detected %s, model %s", e.API(), e.Served())
			}
			got, err := e.Generate(t.Context(), request(2))
			if err != nil {
				t.Fatal(err)
			}
			if want := "100<end>/stop 101<end>/stop"; texts(got) != want {
				t.Errorf("got %s, want %s", texts(got), want)
			}
			if got.PromptTokens != 3 || got.CachedTokens != 2 {
				t.Errorf("prompt tokens %d, cached %d", got.PromptTokens, got.CachedTokens)
			}
			if f.count() != 1 {
				t.Errorf("%d calls for one input", f.count())
			}
			if h := f.header[0].Get("Authorization"); h != "Bearer k3y" {
				t.Errorf("authorization %q", h)
			}
			s := e.Stats()[0]
			if s.Requests != 1 || s.PromptTokens != 3 || s.CachedTokens != 2 || s.CompletionTokens != 8 {
				t.Errorf("counted %+v", s)
			}
		})
	}
}

func TestSGLangThatIgnoresSeedsGetsOneRequest(t *testing.T) {
	f := newFake(t, APISGLang)
	f.unseeded = true
	if _, err := started(t, f).Generate(t.Context(), request(2)); err != nil {
		t.Fatal(err)
	}
	sampling, one := f.calls[0]["sampling_params"].(map[string]any)
	if !one || sampling["n"] != 2.0 {
		t.Errorf("the call is %v", f.calls[0])
	}
}

func TestCallCarriesGrammarAndForbiddenTokens(t *testing.T) {
	for _, api := range realAPIs {
		t.Run(api, func(t *testing.T) {
			f := newFake(t, api)
			r := request(1)
			r.Grammar, r.SuppressControl, r.Session = "OK", true, "run-7"
			f.reply = func(uint32) string { return "OK" }
			e := started(t, f)
			const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
			ctx := tracing.Extract(t.Context(), http.Header{"Traceparent": {trace}})
			if _, err := e.Generate(ctx, r); err != nil {
				t.Fatal(err)
			}
			if h := f.header[0].Get("Traceparent"); h != trace {
				t.Errorf("trace context %q", h)
			}
			sent := fmt.Sprint(f.calls[0])
			for _, want := range []string{"ok", "257"} {
				if !strings.Contains(sent, want) {
					t.Errorf("%q is missing in %s", want, sent)
				}
			}
			if h := f.header[0].Get("X-Session-Id"); h != "run-7" {
				t.Errorf("session header %q", h)
			}
		})
	}
}

func TestViolationOfTheGrammarIsAskedAgain(t *testing.T) {
	f := newFake(t, APIVLLM)
	tries := map[uint32]int{}
	f.reply = func(seed uint32) string {
		tries[seed]++
		if seed == 101 {
			return "no"
		}
		return "ok"
	}
	e := started(t, f)
	r := request(3)
	r.Grammar = "ok"
	got, err := e.Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if want := "ok<end>/stop ok<end>/stop ok<end>/stop"; texts(got) != want {
		t.Errorf("got %s, want %s", texts(got), want)
	}
	if f.count() != 2 || f.calls[1]["n"] != 1.0 {
		t.Errorf("%d calls, the second for %v completions", f.count(), f.calls[1]["n"])
	}
}

func TestTextThatEndsBeforeItsGrammarIsAskedAgain(t *testing.T) {
	f := newFake(t, APIVLLM)
	f.reply = func(seed uint32) string { return map[bool]string{true: "o", false: "ok"}[seed == 100] }
	e := started(t, f)
	r := request(1)
	r.Grammar = "ok"
	if got, err := e.Generate(t.Context(), r); err != nil || texts(got) != "ok<end>/stop" || f.count() != 2 {
		t.Errorf("%s after %d calls, %v", texts(got), f.count(), err)
	}
}

func TestWhatOnlyTheEmbeddedEngineHasIsRefused(t *testing.T) {
	for name, set := range map[string]func(r *generation.Request){
		"distinct completions":  func(r *generation.Request) { r.Distinct = &generation.Distinct{} },
		"given answers":         func(r *generation.Request) { r.Choice = &generation.Choice{} },
		"scores of the prompt":  func(r *generation.Request) { r.ScoreFrom = 1 },
		"masks":                 func(r *generation.Request) { r.Masks = true },
		"an answer to continue": func(r *generation.Request) { r.Resume = &generation.Result{} },
		"top logprobs":          func(r *generation.Request) { r.Top = 1 },
		"a salt":                func(r *generation.Request) { r.Salt = "a" },
		"tokens that stop":      func(r *generation.Request) { r.Stop = &generation.Stop{Tokens: []generation.Token{1}} },
	} {
		f := newFake(t, APIVLLM)
		r := request(2)
		set(r)
		if _, err := started(t, f).Generate(t.Context(), r); err == nil || !strings.Contains(err.Error(), "engine") || f.count() != 0 {
			t.Errorf("%s: error %v after %d calls", name, err, f.count())
		}
	}
}

func TestLastViolationIsReturnedForTheCheck(t *testing.T) {
	f := newFake(t, APIVLLM)
	f.reply = func(uint32) string { return "no" }
	e := started(t, f)
	r := request(1)
	r.Grammar = "ok"
	got, err := e.Generate(t.Context(), r)
	if err != nil || texts(got) != "no<end>/stop" || f.count() != 3 {
		t.Errorf("got %s after %d calls, %v", texts(got), f.count(), err)
	}
}

func TestWideRequestIsSplitBySlots(t *testing.T) {
	f := newFake(t, APILlamaServer)
	f.reply = func(seed uint32) string { return fmt.Sprint(seed) }
	e := started(t, f)
	got, err := e.Generate(t.Context(), request(5))
	if err != nil {
		t.Fatal(err)
	}
	if want := "100<end>/stop 101<end>/stop 102<end>/stop 103<end>/stop 104<end>/stop"; texts(got) != want {
		t.Errorf("got %s", texts(got))
	}
	if f.count() != 3 {
		t.Errorf("%d calls for 5 completions of 2 slots", f.count())
	}
}

func TestEngineErrors(t *testing.T) {
	answer := func(status int, text string, header ...string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/completions" {
				return false
			}
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
			return true
		}
	}
	for name, c := range map[string]struct {
		before func(http.ResponseWriter, *http.Request) bool
		want   string
		busy   time.Duration
	}{
		"429 is busy with its time":     {answer(429, "{}", "Retry-After", "7"), "is busy", 7 * time.Second},
		"503 without time is busy":      {answer(503, ""), "is busy", time.Second},
		"400 shows the message":         {answer(400, `{"error": {"message": "prompt\u001b[31m\n too long"}}`), "status 400: prompt [31m too long", 0},
		"redirect is not followed":      {answer(307, "", "Location", "http://127.0.0.1:1/"), "status 307", 0},
		"no JSON":                       {answer(200, "hello"), "invalid character", 0},
		"too few completions":           {answer(200, `{"choices": []}`), "0 completions where 1", 0},
		"an error with status 200":      {answer(200, `{"error": {"message": "no GPU is free", "code": 502}}`), "no GPU is free", 0},
		"an error beside a null":        {answer(500, `{"detail": null, "error": "no GPU is free"}`), ": no GPU is free", 0},
		"choices of null":               {answer(200, `{"choices": null}`), "0 completions where 1", 0},
		"an index twice":                {answer(200, `{"choices": [{"index": 1, "token_ids": [1], "finish_reason": "stop"}]}`), "completion 1 of 1", 0},
		"no token ids":                  {answer(200, `{"choices": [{"index": 0, "finish_reason": "stop"}]}`), "return_token_ids", 0},
		"more completions":              {answer(200, `{"choices": [`+strings.Repeat(`{"index": 0, "token_ids": [1], "finish_reason": "stop"},`, 9)+`{}]}`), "more than the 1 completions", 0},
		"more tokens than asked for":    {answer(200, `{"choices": [{"index": 0, "token_ids": [1`+strings.Repeat(",1", 200_000)+`], "finish_reason": "stop"}]}`), "has 200001 tokens where at most 32", 0},
		"one token more":                {answer(200, `{"choices": [{"index": 0, "token_ids": [1`+strings.Repeat(",1", 32)+`], "finish_reason": "length"}]}`), "has 33 tokens where at most 32", 0},
		"a negative token":              {answer(200, `{"choices": [{"index": 0, "token_ids": [1, -1], "finish_reason": "stop"}]}`), "the token -1, which is not one of the 258", 0},
		"a token beyond the vocabulary": {answer(200, `{"choices": [{"index": 0, "token_ids": [258], "finish_reason": "stop"}]}`), "the token 258, which is not one of the 258", 0},
		"a token of 64 bits":            {answer(200, `{"choices": [{"index": 0, "token_ids": [1099511627776], "finish_reason": "stop"}]}`), "cannot unmarshal number", 0},
		"an index of none":              {answer(200, `{"choices": [{"index": -1, "token_ids": [1], "finish_reason": "stop"}]}`), "completion -1 of 1", 0},
		"an answer larger than allowed": {answer(200, strings.Repeat(" ", 2<<20)), "more than", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, APIVLLM)
			e := started(t, f)
			f.intercepts(c.before)
			_, err := e.Generate(t.Context(), request(1))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), f.URL) {
				t.Fatalf("got %v, want %q and the engine", err, c.want)
			}
			var busy *generation.BusyError
			if errors.As(err, &busy) != (c.busy > 0) || busy != nil && busy.RetryAfter != c.busy {
				t.Errorf("busy: %+v", busy)
			}
		})
	}
}

func TestAnswerWithoutTokensIsAnError(t *testing.T) {
	for _, api := range APIs[1:] {
		f := newFake(t, api)
		e := started(t, f)
		f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != dialectOf(identity{api: api}).path() {
				return false
			}
			_, _ = w.Write([]byte(`{"choices": [{"finish_reason": "stop"}], "meta_info": {"finish_reason": {"type": "stop"}}, "stop_type": "eos"}`))
			return true
		})
		if got, err := e.Generate(t.Context(), request(1)); err == nil || !strings.Contains(err.Error(), "has no ") {
			t.Errorf("%s: got %+v, %v", api, got, err)
		}
	}
}

// TestAnswersEndAsTheEngineSays, unless a stop text came before.
func TestAnswersEndAsTheEngineSays(t *testing.T) {
	for name, c := range map[string]struct {
		ids, finish string
		set         func(r *generation.Request)
		want        string
		tokens      int
	}{
		"no token before the limit":     {ids: "", finish: "length", want: "/length"},
		"no token before the end":       {ids: "", finish: "stop", want: "/stop"},
		"the end alone":                 {ids: "256", finish: "stop", want: "<end>/stop"},
		"an end that is ignored":        {ids: "97, 256", finish: "length", set: func(r *generation.Request) { r.IgnoreEnd = true }, want: "a<end>/length", tokens: 2},
		"a limit without the stop text": {ids: "97, 98", finish: "length", set: stopAt("c"), want: "ab/length", tokens: 2},
		"a limit after the stop text":   {ids: "97, 98, 99", finish: "length", set: stopAt("b"), want: "ab/stop", tokens: 2},
		"a stop text at the end":        {ids: "97, 98, 256", finish: "stop", set: stopAt("b"), want: "ab/stop", tokens: 2},
		"a reason of the engine's own":  {ids: "97", finish: "abort", want: "a/error", tokens: 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, APIVLLM)
			e := started(t, f)
			f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != dialectOf(identity{api: APIVLLM}).path() {
					return false
				}
				_, _ = fmt.Fprintf(w, `{"choices": [{"index": 0, "token_ids": [%s], "finish_reason": %q}]}`, c.ids, c.finish)
				return true
			})
			r := request(1)
			if c.set != nil {
				c.set(r)
			}
			got, err := e.Generate(t.Context(), r)
			if err != nil || texts(got) != c.want || len(got.Completions[0].Tokens) != c.tokens {
				t.Errorf("%+v, %v; want %s of %d tokens", got.Completions, err, c.want, c.tokens)
			}
		})
	}
}

func stopAt(text string) func(*generation.Request) {
	return func(r *generation.Request) { r.Stop = &generation.Stop{Texts: []string{text}} }
}

// An end may be one token more than the tokens asked for, and counts stay within the prompt.
func TestEndAndCountsOfAnAnswerAreBounded(t *testing.T) {
	for api, text := range map[string]string{
		APIVLLM:        `{"choices": [{"index": 0, "token_ids": [%s], "finish_reason": "stop"}], "usage": {"prompt_tokens": -5, "prompt_tokens_details": {"cached_tokens": 4611686018427387904}}}`,
		APISGLang:      `{"output_ids": [%s], "meta_info": {"finish_reason": {"type": "stop"}, "prompt_tokens": -5, "cached_tokens": 4611686018427387904}}`,
		APILlamaServer: `[{"index": 0, "tokens": [%s], "stop_type": "eos", "tokens_evaluated": -5, "timings": {"cache_n": 4611686018427387904}}]`,
	} {
		t.Run(api, func(t *testing.T) {
			f := newFake(t, api)
			e := started(t, f)
			ids := strings.Repeat("97,", 32) + "256"
			f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != dialectOf(identity{api: api}).path() {
					return false
				}
				_, _ = fmt.Fprintf(w, text, ids)
				return true
			})
			got, err := e.Generate(t.Context(), request(1))
			if err != nil || len(got.Completions[0].Tokens) != 32 || got.CachedTokens != 3 {
				t.Errorf("got %+v, %v", got, err)
			}
			if s := e.Stats()[0]; s.PromptTokens != 0 || s.CachedTokens != 3 {
				t.Errorf("counted %+v", s)
			}
			ids = "97," + ids
			if _, err := e.Generate(t.Context(), request(1)); err == nil || !strings.Contains(err.Error(), "has 33 tokens") {
				t.Errorf("one more: %v", err)
			}
		})
	}
}

func TestReasonOfAnEngineForAnEndIsCut(t *testing.T) {
	f := newFake(t, APIVLLM)
	e := started(t, f)
	f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/completions" {
			return false
		}
		_, _ = w.Write([]byte(`{"choices": [{"index": 0, "token_ids": [1], "finish_reason": "` + strings.Repeat("x", 5000) + `"}]}`))
		return true
	})
	got, err := e.Generate(t.Context(), request(1))
	if err != nil {
		t.Fatal(err)
	}
	if text := got.Completions[0].Err.Error(); len(text) > 2*errorText || !strings.HasPrefix(text, "engine "+f.URL+" ended the completion: x") {
		t.Errorf("got %s", text)
	}
}

func TestLostEngineIsReplacedAndComesBack(t *testing.T) {
	a, b := newFake(t, APIVLLM), newFake(t, APIVLLM)
	e := started(t, a, b)
	r := request(1)
	r.Session = "s"
	first, second := a, b
	if e.order(r)[0].url != a.URL {
		first, second = b, a
	}
	broken := make(chan struct{})
	first.intercepts(func(w http.ResponseWriter, _ *http.Request) bool {
		select {
		case <-broken:
			return false
		default:
		}
		panic(http.ErrAbortHandler) // before the first byte
	})
	got, err := e.Generate(t.Context(), r)
	if err != nil || texts(got) != "ok<end>/stop" || second.count() != 1 {
		t.Fatalf("got %s, %v; the other engine had %d calls", texts(got), err, second.count())
	}
	if e.replicas[0].available() && e.replicas[1].available() || !e.Healthy() {
		t.Error("the lost engine is not left out")
	}
	close(broken)
	waittest.Eventually(t, "the engine comes back", func() bool { return e.replicas[0].available() && e.replicas[1].available() })
	if e.order(r)[0].url != first.URL {
		t.Error("the session did not return to its engine")
	}
}

func TestAllEnginesLostIsBusy(t *testing.T) {
	f := newFake(t, APIVLLM)
	e := started(t, f)
	f.intercepts(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
	_, err := e.Generate(t.Context(), request(1))
	var busy *generation.BusyError
	if !errors.As(err, &busy) || e.Healthy() {
		t.Errorf("got %v, healthy %v", err, e.Healthy())
	}
}

func TestAnswerThatBreaksOffIsNotRepeated(t *testing.T) {
	a, b := newFake(t, APIVLLM), newFake(t, APIVLLM)
	e := started(t, a, b)
	for _, f := range []*fakeEngine{a, b} {
		f.intercepts(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/completions" {
				return false
			}
			f.mu.Lock()
			f.calls = append(f.calls, nil)
			f.mu.Unlock()
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
	}
	_, err := e.Generate(t.Context(), request(1))
	if err == nil || !strings.Contains(err.Error(), "broke off") || a.count()+b.count() != 1 {
		t.Errorf("got %v after %d calls", err, a.count()+b.count())
	}
}

func TestCallerThatLeavesClosesTheConnection(t *testing.T) {
	f := newFake(t, APIVLLM)
	e := started(t, f)
	arrived, gone := make(chan struct{}), make(chan struct{})
	f.intercepts(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/completions" {
			return false
		}
		close(arrived)
		buffer := make([]byte, 1<<16)
		for { // the server notices a closed connection once the body is read
			if _, err := r.Body.Read(buffer); err != nil {
				break
			}
		}
		<-r.Context().Done()
		close(gone)
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := e.Generate(ctx, request(1))
		ended <- err
	}()
	<-arrived
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-gone
	if !e.Healthy() {
		t.Error("the engine counts as lost since its caller left")
	}
}

func TestClosedEngineRefuses(t *testing.T) {
	e := started(t, newFake(t, APIVLLM))
	e.Close()
	e.lost(e.replicas[0], gone, context.Canceled) // as a probe that Close ended does
	if _, err := e.Generate(t.Context(), request(1)); !errors.Is(err, generation.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestOtherVocabularyIsRefusedWithTheFirstDifference(t *testing.T) {
	f := newFake(t, APIVLLM)
	f.tokens = func(string) []int { return []int{1} }
	e, err := New(Config{URLs: []string{f.URL}, API: APIAuto}, bytesModel{}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	err = e.Start(t.Context())
	if mismatch := (*MismatchError)(nil); !errors.As(err, &mismatch) {
		t.Errorf("got %v", err)
	}
}

func TestSessionsSpreadAndStay(t *testing.T) {
	e := &Engine{}
	for i := range 4 {
		e.replicas = append(e.replicas, &replica{index: i, state: serving, url: fmt.Sprintf("http://10.0.0.%d:8000", i)})
	}
	var loads [4]int
	before := map[int]int{}
	r := request(1)
	for i := range 4000 {
		r.Session = fmt.Sprint("run-", i)
		first := e.order(r)[0].index
		before[i] = first
		loads[first]++
	}
	for i, n := range loads {
		if n < 850 || n > 1150 {
			t.Errorf("engine %d has %d of 4000 sessions", i, n)
		}
	}
	e.replicas[2].state = out
	for i := range 4000 {
		r.Session = fmt.Sprint("run-", i)
		if first := e.order(r)[0].index; first != before[i] && before[i] != 2 || first == 2 {
			t.Fatalf("session %d moved from %d to %d", i, before[i], first)
		}
	}
}

func TestSecondEngineTakesOverWhenTheFirstIsBehind(t *testing.T) {
	e := &Engine{replicas: []*replica{{index: 0, state: serving, url: "http://a"}, {index: 1, state: serving, url: "http://b"}}}
	r := request(1)
	r.Session = "s"
	first, second := e.order(r)[0], e.order(r)[1]
	for load, want := range map[int]*replica{overloadSlack: first, overloadSlack + 1: second} {
		first.inFlight = load
		if got := e.order(r)[0]; got != want {
			t.Errorf("with %d in flight the order begins with %s", load, got.url)
		}
	}
}

func TestConfigProblems(t *testing.T) {
	for want, cfg := range map[string]Config{
		"name at least one":  {API: APIAuto},
		"is not a URL":       {API: APIAuto, URLs: []string{"localhost:8000"}},
		"give the key":       {API: APIAuto, URLs: []string{"http://u:p@h"}},
		"no user":            {API: APIAuto, URLs: []string{"http://u:p/w@h"}},
		"number 1 is not":    {API: APIAuto, URLs: []string{"http://u:SECRET/v1"}},
		"named twice":        {API: APIAuto, URLs: []string{"http://h", "http://h/v1/"}},
		"not a URL such as":  {API: APIAuto, URLs: []string{"http://:8000"}},
		"is not one of auto": {API: "tgi", URLs: []string{"http://h"}},
		"17 is not in 0":     {API: APIAuto, URLs: []string{"http://h"}, Retries: 17},
		"-1 is not in 0":     {API: APIAuto, URLs: []string{"http://h"}, Retries: -1},
		"-1 is negative":     {API: APIAuto, URLs: []string{"http://h"}, Connections: -1},
		"user, query or":     {API: APIAuto, URLs: []string{"http://h?a"}},
		"query or fragment;": {API: APIAuto, URLs: []string{"http://h#a"}},
	} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, retries := range []int{0, MaxRetries} {
		cfg := Config{API: APIAuto, URLs: []string{"http://h", "https://h:1/v1"}, Retries: retries}
		if err := cfg.Validate(); err != nil {
			t.Errorf("%d retries: %v", retries, err)
		}
	}
}

func TestEndedCallGivesItsPlacesBack(t *testing.T) {
	e := started(t, newFake(t, "vllm"))
	a, err := e.Admit(3)
	if err != nil {
		t.Fatal(err)
	}
	a.GenerateAll(t.Context(), []generation.Request{*request(2)}, func(int, *generation.Result, error) {})
	if got := e.Totals().Admitted; got != 1 {
		t.Errorf("%d of 3 completions are admitted when 2 have ended", got)
	}
	a.Release()
	a.Release()
	if got := e.Totals().Admitted; got != 0 {
		t.Errorf("%d are left after Release", got)
	}
}

// TestStopTextEndsAnAnswerOfAnEngine also where the engine goes on, since it looks for none in visible text.
func TestStopTextEndsAnAnswerOfAnEngine(t *testing.T) {
	for _, api := range []string{APIVLLM, APISGLang, APILlamaServer} {
		for visible, sent := range map[bool]bool{false: true, true: false} {
			f := newFake(t, api)
			f.reply = func(uint32) string { return "one two three" }
			e := started(t, f)
			r := request(1)
			r.Grammar = "one two thre" // the text ends before it, and at three breaks it
			r.Stop = &generation.Stop{Texts: []string{"four", "wo"}}
			if visible {
				r.Stop.Visible = func(text string) string { return text }
			}
			got, err := e.Generate(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if texts(got) != "one two/stop" || len(got.Completions[0].All()) != len("one two") {
				t.Errorf("%s: %s, tokens %v", api, texts(got), got.Completions[0].All())
			}
			settings := f.calls[len(f.calls)-1]
			if api == APISGLang {
				settings = settings["sampling_params"].(map[string]any)
			}
			if _, has := settings["stop"]; has != sent {
				t.Errorf("%s: the engine got stop texts: %t, want %t", api, has, sent)
			}
		}
	}
}

func TestLeastTokensAreAskedForWhereAnEngineHasThem(t *testing.T) {
	for api, field := range map[string]string{APIVLLM: "min_tokens:3", APISGLang: "min_new_tokens:3", APILlamaServer: ""} {
		f := newFake(t, api)
		e := started(t, f)
		r := request(1)
		r.Least = 3
		_, err := e.Generate(t.Context(), r)
		if field == "" && !errors.Is(err, generation.ErrRemote) || field != "" && (err != nil || !strings.Contains(fmt.Sprint(f.calls), field)) {
			t.Errorf("%s: %v, sent %v", api, err, f.calls)
		}
	}
}
