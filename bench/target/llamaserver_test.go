package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// timingsJSON is the timings object of the sources, whole.
func timingsJSON(computed int, promptMS, predictedMS float64) string {
	return fmt.Sprintf(`{"cache_n":1,"prompt_n":%d,"prompt_ms":%g,"prompt_per_token_ms":1.0,"prompt_per_second":null,"predicted_n":4,"predicted_ms":%g,"predicted_per_token_ms":1.0,"predicted_per_second":1.0}`,
		computed, promptMS, predictedMS)
}

// final is the last answer of a candidate.
func final(index int, content string, tokens int, stop string, timings string) string {
	return fmt.Sprintf(`{"index":%d,"content":%q,"stop":true,"stop_type":%q,"tokens_predicted":%d,"tokens_evaluated":3,"timings":%s}`, index, content, stop, tokens, timings)
}

// partial is a part of a stream, as the sources send one for each token.
func partial(index int, content string, tokens int) string {
	return fmt.Sprintf(`{"index":%d,"content":%q,"tokens":[1],"stop":false,"id_slot":-1,"tokens_predicted":%d,"tokens_evaluated":3}`, index, content, tokens)
}

func llamaServer(t *testing.T, mode Mode, h http.Handler) *LlamaServer {
	t.Helper()
	return closing[*LlamaServer](t)(NewLlamaServer(serve(t, h), mode))
}

func TestLlamaServerIsAskedForTheSameAsAgentd(t *testing.T) {
	base := map[string]any{
		"prompt": []any{5.0, 6.0, 7.0}, "n_cmpl": 2.0, "n_predict": 99.0, "ignore_eos": false, "grammar": `root ::= "x"`, "cache_prompt": true,
		"samplers": []any{"temperature"}, "temperature": 1.0, "top_k": 0.0, "top_p": 1.0, "min_p": 0.0, "seed": 8.0, "stream": false,
		"response_fields": []any{"index", "content", "stop", "stop_type", "tokens_predicted", "tokens_evaluated", "timings"},
	}
	for _, test := range []struct {
		name   string
		o      Options
		change map[string]any
	}{
		{"sampled, with the grammar", Options{MaxTokens: 99, Seed: 8}, nil},
		{"a seed is kept from standing for any", Options{MaxTokens: 99, Seed: 1<<40 + 8}, nil},
		{"greedy", Options{MaxTokens: 99, Seed: 8, Greedy: true}, map[string]any{"samplers": []any{"top_k"}, "top_k": 1.0, "temperature": 0.0}},
		{"fixed tokens have no grammar and no end", Options{MaxTokens: 99, Seed: 8, FixedTokens: 4}, map[string]any{"n_predict": 4.0, "ignore_eos": true, "grammar": nil}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := map[string]any{}
			for name, value := range base {
				want[name] = value
			}
			for name, value := range test.change {
				if want[name] = value; value == nil {
					delete(want, name)
				}
			}
			s := llamaServer(t, ModeN, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method+r.URL.Path != "POST/completion" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				if diff := cmp.Diff(want, bodyOf(t, r)); diff != "" {
					t.Error(diff)
				}
				reply(200, "["+final(0, "a", 4, "eos", timingsJSON(2, 1, 3))+","+final(1, "b", 4, "eos", timingsJSON(2, 1, 3))+"]")(w, r)
			}))
			got, err := s.Ask(t.Context(), turn(2), test.o)
			if err != nil || got.PromptTokens != 3 || got.ComputedTokens != 2 || got.OutputTokens != 8 || got.Prompt != "" ||
				!slices.Equal(got.Candidates, []Candidate{{Text: "a", Tokens: 4}, {Text: "b", Tokens: 4}}) || got.First < 0 || got.Queue < 0 || got.Queue > got.First {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestSeparateRequestsAreOneAnswer(t *testing.T) {
	var mu sync.Mutex
	seeds := map[float64]bool{}
	var together sync.WaitGroup
	together.Add(3) // all at once, or this never ends
	s := llamaServer(t, ModeSeparate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bodyOf(t, r)
		if body["n_cmpl"] != 1.0 {
			t.Errorf("n_cmpl %v", body["n_cmpl"])
		}
		mu.Lock()
		seeds[body["seed"].(float64)] = true
		mu.Unlock()
		together.Done()
		together.Wait()
		reply(200, final(0, fmt.Sprint(body["seed"]), 4, "limit", timingsJSON(2, 1, 3)))(w, r)
	}))
	got, err := s.Ask(t.Context(), turn(3), Options{MaxTokens: 4, Seed: 20})
	want := Answer{PromptTokens: 3, ComputedTokens: 6, OutputTokens: 12, First: got.First, Queue: got.Queue,
		Candidates: []Candidate{{"20", 4, "truncated"}, {"21", 4, "truncated"}, {"22", 4, "truncated"}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" || len(seeds) != 3 {
		t.Error(err, diff, seeds)
	}
}

func TestARefusedCandidateEndsTheOthers(t *testing.T) {
	s := llamaServer(t, ModeSeparate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bodyOf(t, r)["seed"] == 1.0 {
			reply(503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`)(w, r)
			return
		}
		<-r.Context().Done()
	}))
	_, err := s.Ask(t.Context(), turn(3), Options{MaxTokens: 4})
	wantFailure(t, err, Refused, "Loading model")
}

func TestASumOfUnknownsIsUnknown(t *testing.T) {
	answers := []Answer{{ComputedTokens: 2, OutputTokens: -1, Queue: -1, First: 9}, {ComputedTokens: 3, OutputTokens: 4, Queue: 5, First: 7}}
	got, err := separate(t.Context(), 2, func(_ context.Context, i int) (Answer, error) { return answers[i], nil })
	if want := (Answer{ComputedTokens: 5, OutputTokens: -1, Queue: 5, First: 7}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestTheFirstTokensTimeIsFoundFromTheTimings: the candidate that took longest has
// ended when the answer comes.
func TestTheFirstTokensTimeIsFoundFromTheTimings(t *testing.T) {
	start := time.Unix(50, 0)
	for _, test := range []struct {
		name         string
		took         time.Duration
		zero, one    float64 // predicted_ms of the candidates
		prompt       float64
		first, queue time.Duration
	}{
		{name: "queue, prompt, tokens", took: 100 * msec, zero: 5, one: 60, prompt: 30, first: 40 * msec, queue: 10 * msec},
		{name: "whichever took longest", took: 100 * msec, zero: 70, one: 5, prompt: 30, first: 30 * msec, queue: 0},
		{name: "clocks that disagree", took: 10 * msec, zero: 5, one: 11, prompt: 3, first: 0, queue: 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCompletions(3, 2)
			if err := c.read([]byte("[" + final(1, "b", 4, "eos", timingsJSON(2, 1, test.one)) + "," + final(0, "a", 2, "eos", timingsJSON(2, test.prompt, test.zero)) + "]")); err != nil {
				t.Fatal(err)
			}
			a, err := c.answer(Options{}, start, start.Add(test.took))
			if err != nil || a.First != test.first || a.Queue != test.queue || a.Candidates[0].Text != "a" {
				t.Errorf("got %+v, %v", a, err)
			}
		})
	}
}

func TestLlamaServersStream(t *testing.T) {
	start := time.Unix(50, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * msec) }
	c := newCompletions(3, 2)
	for _, e := range []struct {
		at   int
		data string
	}{
		{20, partial(0, "a", 1)},
		{21, partial(1, "x", 1)},
		{30, partial(0, "é", 3)}, // a character of two tokens
		{31, partial(1, "", 2)},  // the end token
		{31, final(1, "", 2, "eos", timingsJSON(0, 15, 10))},
		{45, final(0, "", 3, "limit", timingsJSON(2, 15, 25))},
	} {
		if err := c.event([]byte(e.data), at(e.at)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.answer(Options{}, start, at(46))
	want := Answer{
		PromptTokens: 3, ComputedTokens: 2, OutputTokens: 5, First: 20 * msec, Queue: 5 * msec,
		Gaps:       []time.Duration{5 * msec, 5 * msec, 10 * msec},
		Candidates: []Candidate{{"aé", 3, "truncated"}, {"x", 2, ""}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestAStreamIsReadFromTheServer(t *testing.T) {
	for _, test := range []struct{ name, stream, kind, says string }{
		{"whole", "data: " + partial(0, "a", 1) + "\n\n:\n\ndata: " + final(0, "", 1, "eos", timingsJSON(2, 1, 1)) + "\n\n", "", ""},
		{"cut", "data: " + partial(0, "a", 1) + "\n\n", Transport, "ended before candidate 0"},
		{"broken", `data: {"error":{"code":500,"message":"no room","type":"server_error"}}` + "\n\n", Status, "no room"},
		{"garbled", "data: {\n\n", Contract, "can't be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := llamaServer(t, ModeN, reply(200, test.stream, "Content-Type", "text/event-stream"))
			got, err := s.Ask(t.Context(), turn(1), Options{MaxTokens: 9, Stream: true})
			if test.kind != "" {
				wantFailure(t, err, test.kind, test.says)
			} else if err != nil || got.Candidates[0] != (Candidate{Text: "a", Tokens: 1}) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestAnswersThatCantBeCounted(t *testing.T) {
	ok := final(0, "a", 4, "eos", timingsJSON(2, 1, 3))
	for _, test := range []struct {
		name, body, says string
		o                Options
	}{
		{name: "no JSON", body: "x", says: "can't be read"},
		{name: "a broken list", body: "[{]", says: "can't be read"},
		{name: "too few", body: "[]", says: "0 candidates where 1"},
		{name: "too many", body: "[" + ok + "," + ok + "]", says: "2 candidates where 1"},
		{name: "another index", body: strings.Replace(ok, `"index":0`, `"index":1`, 1), says: "candidate 1 where 1"},
		{name: "no counts", body: `{"index":0,"stop":true}`, says: "lacks tokens_predicted"},
		{name: "another prompt", body: strings.Replace(ok, `"tokens_evaluated":3`, `"tokens_evaluated":4`, 1), says: "has 4 tokens at the server; 3 were sent"},
		{name: "no end", body: partial(0, "a", 4), says: "has not ended"},
		{name: "no timings", body: final(0, "a", 4, "eos", "null"), says: "lacks timings"},
		{name: "negative times", body: final(0, "a", 4, "eos", timingsJSON(2, -1, 3)), says: "no times"},
		{name: "not so long", body: ok, o: Options{FixedTokens: 5}, says: "has 4 tokens where every one shall have 5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.o == (Options{}) {
				test.o.MaxTokens = 9
			}
			_, err := llamaServer(t, ModeN, reply(200, test.body)).Ask(t.Context(), turn(1), test.o)
			wantFailure(t, err, Contract, test.says)
		})
	}
	t.Run("one index twice", func(t *testing.T) {
		_, err := llamaServer(t, ModeN, reply(200, "["+ok+","+ok+"]")).Ask(t.Context(), turn(2), Options{MaxTokens: 9})
		wantFailure(t, err, Contract, "candidate 0 twice")
	})
}

func TestLlamaServerNeedsARenderedTraceAndALimit(t *testing.T) {
	s := llamaServer(t, ModeN, http.NotFoundHandler())
	bare := turn(1)
	bare.Tokens = nil
	var f *Failure
	if _, err := s.Ask(t.Context(), bare, Options{MaxTokens: 1}); errors.As(err, &f) || !strings.Contains(err.Error(), "render the trace") {
		t.Errorf("without tokens: %v", err)
	}
	if _, err := s.Ask(t.Context(), turn(1), Options{}); errors.As(err, &f) || !strings.Contains(err.Error(), "limit") {
		t.Errorf("without a limit: %v", err)
	}
	if _, err := s.Ask(t.Context(), turn(0), Options{MaxTokens: 1}); err == nil {
		t.Error("without candidates: no error")
	}
	if _, err := NewLlamaServer("http://h", "both"); err == nil || !strings.Contains(err.Error(), `mode "both"`) {
		t.Errorf("got %v", err)
	}
	for _, url := range []string{"", "h:80", "ftp://h", "http://", "http://h/?x=1", "http://h/#x", "http://h:x"} {
		if _, err := NewLlamaServer(url, ModeN); err == nil {
			t.Errorf("URL %q is taken", url)
		}
	}
}

const llamaMetrics = `# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 100
llamacpp:prompt_tokens_cached_total 200
llamacpp:tokens_predicted_total 300
llamacpp:n_decode_total 40
llamacpp:n_busy_slots_per_decode 2.5
llamacpp:requests_processing 5
llamacpp:requests_deferred 6
`

func TestLlamaServersCountersAndFacts(t *testing.T) {
	slots := reply(200, `[{"id":0,"n_prompt_tokens":12},{"id":1},{"id":2,"n_prompt_tokens":30}]`)
	off := reply(501, `{"error":{"code":501,"message":"Start it with --slots","type":"not_supported_error"}}`)
	server := func(metrics, slots http.HandlerFunc) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /metrics", metrics)
		mux.HandleFunc("GET /slots", slots)
		mux.HandleFunc("GET /props", reply(200, `{"build_info":"b1-abc","model_path":"m.gguf","model_ftype":"BF16","total_slots":8,"default_generation_settings":{"n_ctx":4096}}`))
		return mux
	}
	want := Counters{Prefilled: 100, Cached: 200, Generated: 300, Steps: 40, Rows: 200, Running: 5, Waiting: 6, Evicted: -1, Cells: -1, CellsUsed: 42}
	s := llamaServer(t, ModeSeparate, server(reply(200, llamaMetrics), slots))
	got, err := s.Counters(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	facts, err := s.Describe(t.Context())
	wantFacts := map[string]string{"server": "llama-server", "mode": "separate", "version": "b1-abc", "model": "m.gguf", "model_type": "BF16", "slots": "8", "slot_context": "4096"}
	if diff := cmp.Diff(wantFacts, facts); err != nil || diff != "" {
		t.Error(err, diff)
	}
	got, err = llamaServer(t, ModeN, server(reply(200, llamaMetrics), off)).Counters(t.Context())
	if want.CellsUsed = -1; err != nil || !cmp.Equal(want, got) {
		t.Errorf("without slots: %+v, %v", got, err)
	}
	for name, h := range map[string]http.HandlerFunc{"switched off": off, "of another server": reply(200, "x 1\n")} {
		if _, err := llamaServer(t, ModeN, server(h, slots)).Counters(t.Context()); !errors.Is(err, ErrNoCounters) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = llamaServer(t, ModeN, server(reply(200, llamaMetrics), reply(200, "{"))).Counters(t.Context())
	wantFailure(t, err, Contract, "/slots")
}

// TestTheNamesAreLlamaServers holds the names of fields and metrics against the
// sources of llama.cpp that agentd links, from which they are.
func TestTheNamesAreLlamaServers(t *testing.T) {
	const dir = "../../third_party/llama.cpp/tools/server/"
	read := func(name string) string {
		text, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatalf("%v; run make first", err)
		}
		return string(text)
	}
	wants := func(source, name string) {
		if !strings.Contains(source, `"`+name+`"`) {
			t.Errorf("llama-server has no field %s", name)
		}
	}
	requests := read("server-schema.cpp") + read("server-context.cpp")
	body, err := llamaRequest(turn(1), Options{MaxTokens: 1}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		wants(requests, name)
	}
	answers := read("server-task.cpp") + read("server-common.cpp") + requests
	for _, name := range append(slices.Clone(answerFields), "limit", "prompt_n", "prompt_ms", "predicted_ms", "build_info", "model_path", "model_ftype", "total_slots", "default_generation_settings", "n_ctx", "n_prompt_tokens") {
		wants(answers, name)
	}
	for line := range strings.Lines(llamaMetrics) {
		if name, ok := strings.CutPrefix(strings.Fields(line)[0], "llamacpp:"); ok {
			wants(answers, name)
		}
	}
}

func FuzzCompletions(f *testing.F) {
	f.Add([]byte("[" + final(0, "a", 4, "eos", timingsJSON(2, 1, 3)) + "," + final(1, "", 0, "limit", timingsJSON(2, 1, 3)) + "]"))
	f.Add([]byte(partial(1, "é", 3)))
	f.Fuzz(func(t *testing.T, body []byte) {
		whole := newCompletions(3, 2)
		if whole.read(body) == nil {
			if a, err := whole.answer(Options{}, time.Time{}, time.Time{}); err == nil && (len(a.Candidates) != 2 || a.First < -1 || a.OutputTokens < 0) {
				t.Errorf("%s gives %+v", body, a)
			}
		}
		stream := newCompletions(3, 2)
		_ = stream.event(body, time.Unix(1, 0))
		_ = stream.event(body, time.Unix(2, 0))
		_, _ = stream.answer(Options{}, time.Unix(0, 0), time.Unix(3, 0))
	})
}
