package target

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func vllm(t *testing.T, h http.Handler) *VLLM {
	t.Helper()
	return closing[*VLLM](t)(Open(KindVLLM, serve(t, h), ""))
}

// vllmBody is an answer of vLLM 0.32 to a prompt of three tokens.
func vllmBody(output int, ends ...string) string {
	var choices []string
	for i, end := range ends {
		choices = append(choices, fmt.Sprintf(`{"index":%d,"text":"","logprobs":null,"finish_reason":%q,"stop_reason":null}`, i, end))
	}
	return fmt.Sprintf(`{"id":"cmpl-1","object":"text_completion","choices":[%s],"usage":{"prompt_tokens":3,"total_tokens":%d,"completion_tokens":%[2]d}}`, strings.Join(choices, ","), output)
}

func TestVLLMGetsTheLoadOfAgentd(t *testing.T) {
	for _, greedy := range []bool{false, true} {
		want := map[string]any{
			"prompt": []any{5.0, 6.0, 7.0}, "n": 2.0, "max_tokens": 4.0, "ignore_eos": true,
			"temperature": 1.0, "top_p": 1.0, "top_k": -1.0, "min_p": 0.0,
		}
		body := vllmBody(8, "length", "length")
		if greedy {
			want["n"], want["temperature"], body = 1.0, 0.0, vllmBody(4, "length")
		}
		v := vllm(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method+r.URL.Path != "POST/v1/completions" {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			if diff := cmp.Diff(want, bodyOf(t, r)); diff != "" {
				t.Error(diff)
			}
			reply(200, body)(w, r)
		}))
		got, err := v.Ask(t.Context(), turn(2), Options{FixedTokens: 4, Seed: 8, Greedy: greedy})
		answer := Answer{Candidates: []Candidate{{Tokens: 4}, {Tokens: 4}}, PromptTokens: 3, ComputedTokens: -1, OutputTokens: 8, First: -1, Copies: greedy}
		if diff := cmp.Diff(answer, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
}

func TestInvalidAnswersOfVLLMAreRefused(t *testing.T) {
	for _, test := range []struct{ name, body, says string }{
		{"no JSON", "x", "can't be read"},
		{"too few", vllmBody(4, "length"), "1 candidates instead of 2"},
		{"too many", vllmBody(12, "length", "length", "length"), "3 candidates instead of 2"},
		{"another prompt", strings.Replace(vllmBody(8, "length", "length"), `"prompt_tokens":3`, `"prompt_tokens":4`, 1), "has 4 tokens at the server; 3 were sent"},
		{"not so long", vllmBody(7, "length", "length"), "7 tokens instead of 8"},
		{"an early end", vllmBody(8, "length", "stop"), `candidate 1 ended with "stop"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := vllm(t, reply(200, test.body)).Ask(t.Context(), turn(2), Options{FixedTokens: 4})
			wantFailure(t, err, Contract, test.says)
		})
	}
}

func TestVLLMNeedsTokensAndAFixedLength(t *testing.T) {
	v := vllm(t, http.NotFoundHandler())
	bare := turn(1)
	bare.Tokens = nil
	var f *Failure
	if _, err := v.Ask(t.Context(), bare, Options{FixedTokens: 1}); errors.As(err, &f) || !strings.Contains(err.Error(), "render the trace") {
		t.Errorf("without tokens: %v", err)
	}
	if _, err := v.Ask(t.Context(), turn(1), Options{MaxTokens: 9}); errors.As(err, &f) || !strings.Contains(err.Error(), "fixed tokens only") {
		t.Errorf("without a fixed length: %v", err)
	}
}

const vllmMetrics = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 5.0
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 52.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_cache_hit"} 96.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 24.0
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf",model_name="m"} 13.0
vllm:iteration_tokens_total_count{engine="0",model_name="m"} 13.0
vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 76.0
`

func TestVLLMCountersAndFacts(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", reply(200, vllmMetrics))
	mux.HandleFunc("GET /version", reply(200, `{"version":"0.32.0"}`))
	v := vllm(t, mux)
	got, err := v.Counters(t.Context())
	if diff := cmp.Diff(Counters{Prefilled: 52, Steps: 13, Rows: 76, CellsUsed: -1}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	facts, err := v.Describe(t.Context())
	if diff := cmp.Diff(map[string]string{"server": "vllm", "version": "0.32.0"}, facts); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := vllm(t, reply(200, llamaMetrics)).Counters(t.Context()); !errors.Is(err, ErrNoCounters) {
		t.Errorf("of another server: %v", err)
	}
}
