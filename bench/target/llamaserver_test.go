package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
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

func llamaServer(t *testing.T, h http.Handler) *LlamaServer {
	t.Helper()
	return closing[*LlamaServer](t)(Open(KindLlamaServer, serve(t, h), ""))
}

func TestLlamaServerGetsTheLoadOfAgentd(t *testing.T) {
	base := map[string]any{
		"prompt": []any{5.0, 6.0, 7.0}, "n_cmpl": 2.0, "n_predict": 99.0, "ignore_eos": false, "grammar": `root ::= "x"`, "cache_prompt": true,
		"samplers": []any{"temperature"}, "temperature": 1.0, "top_k": 0.0, "top_p": 1.0, "min_p": 0.0, "seed": 8.0,
		"response_fields": []any{"index", "stop", "stop_type", "tokens_predicted", "tokens_evaluated", "timings"},
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
			s := llamaServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
				!slices.Equal(got.Candidates, []Candidate{{Tokens: 4}, {Tokens: 4}}) || got.First < 0 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// The longest candidate has just ended.
func TestTTFTComesFromTheTimings(t *testing.T) {
	start := time.Unix(50, 0)
	for _, test := range []struct {
		name      string
		took      time.Duration
		zero, one float64 // predicted_ms of the candidates
		first     time.Duration
	}{
		{"the second is the longest", 100 * msec, 5, 60, 40 * msec},
		{"the first is the longest", 100 * msec, 70, 5, 30 * msec},
		{"clocks disagree", 10 * msec, 5, 11, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := "[" + final(1, "b", 4, "eos", timingsJSON(2, 1, test.one)) + "," + final(0, "a", 2, "eos", timingsJSON(2, 1, test.zero)) + "]"
			a, err := readCompletions([]byte(body), 3, 2, Options{}, start, start.Add(test.took))
			if err != nil || a.First != test.first || a.Candidates[0].Tokens != 2 {
				t.Errorf("got %+v, %v", a, err)
			}
		})
	}
}

func TestInvalidAnswersAreRefused(t *testing.T) {
	ok := final(0, "a", 4, "eos", timingsJSON(2, 1, 3))
	for _, test := range []struct {
		name, body, says string
		o                Options
	}{
		{name: "no JSON", body: "x", says: "can't be read"},
		{name: "a broken list", body: "[{]", says: "can't be read"},
		{name: "too few", body: "[]", says: "0 candidates instead of 1"},
		{name: "too many", body: "[" + ok + "," + ok + "]", says: "2 candidates instead of 1"},
		{name: "another index", body: strings.Replace(ok, `"index":0`, `"index":1`, 1), says: "candidate 1 instead of 0"},
		{name: "no counts", body: `{"index":0,"stop":true}`, says: "lacks tokens_predicted"},
		{name: "another prompt", body: strings.Replace(ok, `"tokens_evaluated":3`, `"tokens_evaluated":4`, 1), says: "has 4 tokens at the server; 3 were sent"},
		{name: "no end", body: strings.Replace(ok, `"stop":true`, `"stop":false`, 1), says: "has not ended"},
		{name: "no timings", body: final(0, "a", 4, "eos", "null"), says: "or timings"},
		{name: "negative times", body: final(0, "a", 4, "eos", timingsJSON(2, 1, -3)), says: "timings of candidate 0 are invalid"},
		{name: "not so long", body: ok, o: Options{FixedTokens: 5}, says: "has 4 tokens instead of 5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.o == (Options{}) {
				test.o.MaxTokens = 9
			}
			_, err := llamaServer(t, reply(200, test.body)).Ask(t.Context(), turn(1), test.o)
			wantFailure(t, err, Contract, test.says)
		})
	}
	t.Run("one index twice", func(t *testing.T) {
		_, err := llamaServer(t, reply(200, "["+ok+","+ok+"]")).Ask(t.Context(), turn(2), Options{MaxTokens: 9})
		wantFailure(t, err, Contract, "candidate 0 instead of 1")
	})
}

func TestLlamaServerNeedsTokensAndALimit(t *testing.T) {
	s := llamaServer(t, http.NotFoundHandler())
	bare := turn(1)
	bare.Tokens = nil
	var f *Failure
	if _, err := s.Ask(t.Context(), bare, Options{MaxTokens: 1}); errors.As(err, &f) || !strings.Contains(err.Error(), "render the trace") {
		t.Errorf("without tokens: %v", err)
	}
	if _, err := s.Ask(t.Context(), turn(1), Options{}); errors.As(err, &f) || !strings.Contains(err.Error(), "max tokens") {
		t.Errorf("without a limit: %v", err)
	}
	if _, err := s.Ask(t.Context(), turn(0), Options{MaxTokens: 1}); err == nil {
		t.Error("without candidates: no error")
	}
	for _, url := range []string{"", "h:80", "ftp://h", "http://", "http://h/?x=1", "http://h/#x", "http://h:x"} {
		if _, err := Open(KindLlamaServer, url, ""); err == nil {
			t.Errorf("URL %q is taken", url)
		}
	}
}

const llamaMetrics = `# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 100
llamacpp:tokens_predicted_total 300
llamacpp:n_decode_total 40
llamacpp:n_busy_slots_per_decode 2.5
llamacpp:requests_processing 5
`

func TestLlamaServerCountersAndFacts(t *testing.T) {
	server := func(metrics http.HandlerFunc) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /metrics", metrics)
		mux.HandleFunc("GET /props", reply(200, `{"build_info":"b1-abc","total_slots":8,"other":1}`))
		return mux
	}
	want := Counters{Prefilled: 100, Steps: 40, Rows: 200, CellsUsed: -1}
	s := llamaServer(t, server(reply(200, llamaMetrics)))
	got, err := s.Counters(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	facts, err := s.Describe(t.Context())
	wantFacts := map[string]string{"server": "llama-server", "version": "b1-abc", "slots": "8"}
	if diff := cmp.Diff(wantFacts, facts); err != nil || diff != "" {
		t.Error(err, diff)
	}
	off := reply(501, `{"error":{"code":501,"message":"Start it with --metrics","type":"not_supported_error"}}`)
	for name, h := range map[string]http.HandlerFunc{"disabled": off, "of another server": reply(200, "x 1\n")} {
		if _, err := llamaServer(t, server(h)).Counters(t.Context()); !errors.Is(err, ErrNoCounters) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The sources belong to the llama.cpp that agentd links.
func TestFieldNamesExistInLlamaServer(t *testing.T) {
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
	body, err := llamaRequest(turn(1), Options{MaxTokens: 1})
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
	for _, name := range append(slices.Clone(answerFields), "limit", "prompt_n", "predicted_ms", "build_info", "total_slots") {
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
	f.Add([]byte(final(1, "é", 3, "eos", "null")))
	f.Fuzz(func(t *testing.T, body []byte) {
		if a, err := readCompletions(body, 3, 2, Options{}, time.Time{}, time.Time{}); err == nil && (len(a.Candidates) != 2 || a.First < -1 || a.OutputTokens < 0) {
			t.Errorf("%s gives %+v", body, a)
		}
	})
}
