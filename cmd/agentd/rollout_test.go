package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/internal/base/waittest"
	"agentd/llama/synth"
)

// rollout is an answer of /inference/v1/generate, or an event of it.
type rollout struct {
	ID      string `json:"request_id"`
	Choices []struct {
		Text     string  `json:"text"`
		IDs      []int32 `json:"token_ids"`
		Finish   string  `json:"finish_reason"`
		Logprobs *struct {
			Content []struct {
				ID      int32   `json:"token_id"`
				Logprob float64 `json:"logprob"`
				Rank    int     `json:"rank"`
				Top     []struct {
					ID      int32   `json:"token_id"`
					Logprob float64 `json:"logprob"`
					Rank    int     `json:"rank"`
				} `json:"top_logprobs"`
			} `json:"content"`
		} `json:"logprobs"`
		Versions []struct {
			Version    string
			Start, End int
		} `json:"weight_versions"`
	} `json:"choices"`
	PromptIDs []int32 `json:"prompt_token_ids"`
	Usage     *struct {
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// post sends a body, with the right to change weights, and reads an answer of 200 into into.
func (r *running) postAs(path, body string, into any) error {
	status, answer, err := r.as(weightsToken, "POST", path, body)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("%s %s: %d %s, %w", path, body, status, answer, err)
	}
	return json.Unmarshal([]byte(answer), into)
}

// generate is the answer to a prompt of ids.
func (r *running) generate(params string) (a rollout, err error) {
	return a, r.postAs("/inference/v1/generate", `{"token_ids": [40, 41, 42, 43, 44, 45, 46, 47], "return_token_ids": true, `+params+`}`, &a)
}

// events are the answers of a stream.
func (r *running) events(path, body string) (list []string) {
	r.t.Helper()
	status, answer, err := r.as(weightsToken, "POST", path, body)
	if err != nil || status != http.StatusOK || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
		r.t.Fatalf("%s: %d %s, %v", path, status, answer, err)
	}
	lines := bufio.NewScanner(strings.NewReader(answer))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if e, ok := strings.CutPrefix(lines.Text(), "data: "); ok && e != "[DONE]" {
			list = append(list, e)
		}
	}
	return list
}

func TestGenerateIsCompletionsWithOtherNames(t *testing.T) {
	r := weightsServer(t)
	var plain struct {
		Choices []struct {
			Text     string  `json:"text"`
			IDs      []int32 `json:"token_ids"`
			Logprobs struct {
				Logprobs []float64 `json:"token_logprobs"`
			} `json:"logprobs"`
		} `json:"choices"`
	}
	if err := r.postAs("/v1/completions", `{"prompt": [40, 41, 42, 43, 44, 45, 46, 47], "n": 3, "seed": 7, "temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "max_tokens": 12, "logprobs": 0, "return_token_ids": true}`, &plain); err != nil {
		t.Fatal(err)
	}
	const params = `"sampling_params": {"n": 3, "seed": 7, "max_tokens": 12, "logprobs": 4}, "output_mode": "tokens"`
	got, err := r.generate(params)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.PromptIDs) != 8 || len(got.Choices) != 3 {
		t.Fatalf("%+v", got)
	}
	streamed := make([]rollout, 3)
	for _, e := range r.events("/inference/v1/generate", `{"stream": true, "token_ids": [40, 41, 42, 43, 44, 45, 46, 47], `+params+`}`) {
		var a rollout
		if err := json.Unmarshal([]byte(e), &a); err != nil || len(a.Choices) != 1 {
			t.Fatalf("%s: %v", e, err)
		}
		c := a.Choices[0]
		var i struct{ Choices []struct{ Index int } }
		_ = json.Unmarshal([]byte(e), &i)
		s := &streamed[i.Choices[0].Index]
		s.Choices = append(s.Choices, c)
	}
	for i, c := range got.Choices {
		want := plain.Choices[i]
		if !slices.Equal(c.IDs, want.IDs) || len(c.Logprobs.Content) != len(c.IDs) || len(c.Versions) != 1 || c.Versions[0].End != len(c.IDs) {
			t.Errorf("choice %d: %+v, want %v", i, c, want.IDs)
		}
		for k, s := range c.Logprobs.Content {
			if math.Abs(s.Logprob-want.Logprobs.Logprobs[k]) > 1e-6 || s.ID != c.IDs[k] {
				t.Errorf("token %d: %+v, want %g", k, s, want.Logprobs.Logprobs[k])
			}
			if len(s.Top) != 4 || s.Top[0].ID != s.ID || s.Top[0].Logprob != s.Logprob {
				t.Errorf("token %d: alternatives %+v", k, s.Top)
			}
			for j, other := range s.Top[1:] {
				if other.Rank == s.Rank || j > 0 && other.Logprob > s.Top[j].Logprob {
					t.Errorf("token %d: alternatives %+v", k, s.Top)
				}
			}
		}
		var ids []int32
		scores, ends := 0, 0
		for _, part := range streamed[i].Choices {
			ids = append(ids, part.IDs...)
			scores += len(part.Logprobs.Content)
			if part.Finish != "" {
				ends++
			}
		}
		if !slices.Equal(ids, c.IDs) || scores != len(ids) || ends != 1 {
			t.Errorf("choice %d streamed %v with %d scores and %d ends, want %v", i, ids, scores, ends, c.IDs)
		}
	}
}

func TestStopTokenStaysAndEndsTheAnswer(t *testing.T) {
	r := endlessServer(t)
	whole, err := r.generate(`"sampling_params": {"temperature": 0, "max_tokens": 12}`)
	if err != nil {
		t.Fatal(err)
	}
	ids := whole.Choices[0].IDs
	if len(ids) < 6 {
		t.Fatalf("too short: %v", ids)
	}
	stop := ids[4]
	want := ids[:slices.Index(ids, stop)+1]
	status, answer, err := r.as(weightsToken, "POST", "/inference/v1/generate", fmt.Sprintf(`{"token_ids": [40, 41, 42, 43, 44, 45, 46, 47], "sampling_params": {"temperature": 0, "max_tokens": 12, "stop_token_ids": [%d]}}`, stop))
	var got rollout
	if err != nil || status != 200 || json.Unmarshal([]byte(answer), &got) != nil || !slices.Equal(got.Choices[0].IDs, want) ||
		!strings.Contains(answer, fmt.Sprintf(`"finish_reason":"stop","stop_reason":%d`, stop)) {
		t.Errorf("%d %s, %v; want %v", status, answer, err, want)
	}
}

// With tool_choice none the prompt shows the tools, and the answer is a text, as trainers that read calls themselves want.
func TestChatShowsToolsThatItMayNotCall(t *testing.T) {
	r := weightsServer(t, "--max-new-tokens", "20")
	const tools = `, "tools": [{"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {"to": {"enum": ["kitchen", "cellar"]}}}}}]`
	ask := func(path, more string) (ids []int32, answer string) {
		t.Helper()
		status, answer, err := r.as(weightsToken, "POST", path, `{"messages": [{"role": "user", "content": "Go"}]`+more+`}`)
		var got struct {
			Tokens []int32 `json:"tokens"`
			Prompt []int32 `json:"prompt_token_ids"`
		}
		if err != nil || status != http.StatusOK || json.Unmarshal([]byte(answer), &got) != nil {
			t.Fatalf("%d %s, %v", status, answer, err)
		}
		return append(got.Tokens, got.Prompt...), answer
	}
	plain, _ := ask("/tokenize", "")
	offered, _ := ask("/tokenize", tools)
	shown, _ := ask("/tokenize", tools+`, "tool_choice": "none"`)
	if len(shown) <= len(plain) || !slices.Equal(shown, offered) {
		t.Errorf("the prompt has %d tokens; %d without tools, %d with tools that may be called", len(shown), len(plain), len(offered))
	}
	asked, answer := ask("/v1/chat/completions", tools+`, "tool_choice": "none", "return_token_ids": true, "seed": 3`)
	if !slices.Equal(asked, shown) || strings.Contains(answer, "tool_calls") || !strings.Contains(answer, `"content":"`) {
		t.Errorf("%s after %d tokens, want a text after %d", answer, len(asked), len(shown))
	}
}

// Readers of names such as token_id:7 expect a logprob of each token. Others get null where the grammar forces it.
func TestCompletionWithNamedTokensSamplesWhatTheGrammarLeaves(t *testing.T) {
	r := weightsServer(t)
	for more, forces := range map[string]bool{``: true, `, "return_tokens_as_token_ids": true`: false} {
		var got struct {
			Choices []struct {
				Text     string `json:"text"`
				Logprobs struct {
					Logprobs []*float64 `json:"token_logprobs"`
				} `json:"logprobs"`
			} `json:"choices"`
		}
		const body = `{"prompt": "Go", "seed": 3, "temperature": 1, "logprobs": 0, "structured_outputs": {"grammar": "root ::= \"to the kitchen\" | \"stop here\""}`
		if err := r.postAs("/v1/completions", body+more+`}`, &got); err != nil {
			t.Fatal(err)
		}
		c := got.Choices[0]
		if c.Text != "to the kitchen" && c.Text != "stop here" || slices.Contains(c.Logprobs.Logprobs, nil) != forces {
			t.Errorf("%s: %+v; want logprobs with null: %v", more, c, forces)
		}
	}
}

// A chat with a tool has the raw tokens of the call, each with a logprob: nothing is forced.
func TestChatHasTheTokensOfItsCall(t *testing.T) {
	r := weightsServer(t, "--max-new-tokens", "200")
	const chat = `{"messages": [{"role": "user", "content": "Go"}], "tools": [{"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {"to": {"enum": ["kitchen", "cellar"]}}, "required": ["to"], "additionalProperties": false}}}],
		"tool_choice": "required", "seed": 3, "logprobs": true, "top_logprobs": 20, "return_token_ids": true`
	var got struct {
		PromptIDs []int32 `json:"prompt_token_ids"`
		Choices   []struct {
			Message struct {
				Calls []json.RawMessage `json:"tool_calls"`
			} `json:"message"`
			IDs      []int32 `json:"token_ids"`
			Logprobs struct {
				Content []struct {
					Token   string
					Logprob float64
					Bytes   []int
					Top     []struct{ Logprob float64 } `json:"top_logprobs"`
				} `json:"content"`
			} `json:"logprobs"`
		} `json:"choices"`
	}
	if err := r.postAs("/v1/chat/completions", chat+`}`, &got); err != nil {
		t.Fatal(err)
	}
	c := got.Choices[0]
	if len(got.PromptIDs) < 10 || len(c.Message.Calls) != 1 || len(c.IDs) != len(c.Logprobs.Content) {
		t.Fatalf("%+v", got)
	}
	var bytes []byte
	for i, s := range c.Logprobs.Content {
		if s.Logprob <= -9999 || s.Logprob > 0 || len(s.Top) != 20 || s.Top[0].Logprob < s.Logprob {
			t.Errorf("token %d: %+v", i, s)
		}
		for _, b := range s.Bytes {
			bytes = append(bytes, byte(b))
		}
	}
	if !strings.Contains(string(bytes), `"go"`) || !strings.Contains(string(bytes), `"to"`) {
		t.Errorf("the tokens are %q", bytes)
	}
	var ids []int32
	for _, e := range r.events("/v1/chat/completions", chat+`, "stream": true}`) {
		var a struct {
			Choices []struct {
				IDs []int32 `json:"token_ids"`
			} `json:"choices"`
		}
		if err := json.Unmarshal([]byte(e), &a); err != nil {
			t.Fatal(err)
		}
		for _, part := range a.Choices {
			ids = append(ids, part.IDs...)
		}
	}
	if !slices.Equal(ids, c.IDs) {
		t.Errorf("streamed %v, want %v", ids, c.IDs)
	}
}

func TestSaltsShareNoPrefix(t *testing.T) {
	r := weightsServer(t)
	ask := func(salt string) int {
		t.Helper()
		ids := strings.TrimSuffix(strings.Repeat("40, 41, 42, 43, ", 20), ", ")
		var a rollout
		if err := r.postAs("/inference/v1/generate", `{"token_ids": [`+ids+`], "sampling_params": {"max_tokens": 1, "seed": 1}`+salt+`}`, &a); err != nil {
			t.Fatal(err)
		}
		return a.Usage.Details.Cached
	}
	for i, step := range []struct {
		salt   string
		cached bool
	}{{``, false}, {``, true}, {`, "cache_salt": "a"`, false}, {`, "cache_salt": "b"`, false}, {`, "cache_salt": "a"`, true}, {``, true}} {
		if n := ask(step.salt); (n > 0) != step.cached {
			t.Errorf("request %d%s: %d cached tokens", i, step.salt, n)
		}
	}
	r.trainer("POST", "/reset_prefix_cache", "", http.StatusOK, `{"success":true}`)
	for _, salt := range []string{``, `, "cache_salt": "a"`} {
		if n := ask(salt); n > 0 {
			t.Errorf("%d tokens are cached after the reset", n)
		}
	}
}

// endlessServer serves a model that never ends an answer, from a directory of weights.
func endlessServer(t *testing.T, args ...string) *running {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(endlessModel(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model0.gguf", "model1.gguf"} {
		writeFile(t, filepath.Join(dir, name), string(text))
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "trainer+weights:"+weightsToken+"\n")
	return serveModel(t, append([]string{"--model", filepath.Join(dir, "model0.gguf"), "--weights-dir", dir, "--auth-token-file", tokens}, args...)...)
}

// runs waits until so many sequences are computed.
func (r *running) runs(n int) {
	r.t.Helper()
	waittest.Eventually(r.t, fmt.Sprint(n, " sequences run"), func() bool {
		_, page, err := r.as(weightsToken, "GET", "/metrics", "")
		return err == nil && strings.Contains(page, fmt.Sprintf("\nagentd_num_requests_running %d\n", n))
	})
}

// long is longer than a test needs, and two of it fit the context.
const long = `"sampling_params": {"max_tokens": 3500, "seed": 1, "logprobs": 1}`

func TestAbortedRequestHasItsTokensSoFar(t *testing.T) {
	r := endlessServer(t)
	answers := make(chan rollout, 2)
	for _, id := range []string{"one", "two"} {
		go func() {
			a, err := r.generate(`"request_id": "` + id + `", ` + long)
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}()
	}
	r.runs(2)
	r.trainer("POST", "/abort_requests", `{"request_ids": ["three"]}`, http.StatusOK, `"aborted":0`)
	r.trainer("POST", "/abort_requests", `{"request_ids": ["two"]}`, http.StatusOK, `"aborted":1`)
	a := <-answers
	if c := a.Choices[0]; a.ID != "generate-tokens-two" || c.Finish != "abort" || len(c.Logprobs.Content) != len(c.IDs) {
		t.Errorf("%s: %s with %d tokens and %d scores", a.ID, c.Finish, len(c.IDs), len(c.Logprobs.Content))
	}
	r.runs(1)
	r.trainer("POST", "/pause?mode=keep", "", http.StatusOK, "paused") // one is held
	r.trainer("POST", "/abort_requests", ``, http.StatusOK, `"aborted":1`)
	if a := <-answers; a.ID != "generate-tokens-one" || a.Choices[0].Finish != "abort" || len(a.Choices[0].IDs) == 0 {
		t.Errorf("%+v", a)
	}
	r.trainer("POST", "/resume", "", http.StatusOK, "resumed")
	if _, err := r.generate(`"sampling_params": {"max_tokens": 2}`); err != nil {
		t.Error(err)
	}
}

func TestAbortingPauseGivesGenerateItsTokens(t *testing.T) {
	r := endlessServer(t)
	answer := make(chan rollout, 1)
	go func() {
		a, err := r.generate(long)
		if err != nil {
			t.Error(err)
		}
		answer <- a
	}()
	r.runs(1)
	lost := `{"model": "policy-v3", "prompt": [5]}` // as after a restart; no adapter was ever loaded here
	r.trainer("POST", "/v1/completions", lost, http.StatusBadRequest, `policy-v3\" is not served here; the models are `)
	r.trainer("POST", "/pause", "", http.StatusOK, "paused")
	r.trainer("GET", "/is_paused", "", http.StatusOK, `{"is_paused":true}`)
	r.trainer("GET", "/health", "", http.StatusOK, `"paused"`) // TRL resumes only then
	if c := (<-answer).Choices[0]; c.Finish != "abort" || len(c.IDs) == 0 || len(c.Logprobs.Content) != len(c.IDs) {
		t.Errorf("%+v", c)
	}
	r.trainer("POST", "/pause?mode=abort", "", http.StatusOK, "paused") // a client that repeats itself
	r.trainer("POST", "/pause?mode=keep", "", http.StatusConflict, "paused already, in mode abort")
	r.trainer("POST", "/resume", "", http.StatusOK, "resumed")
	r.trainer("GET", "/is_paused", "", http.StatusOK, `{"is_paused":false}`)
	r.trainer("POST", "/v1/pause", `{"mode": "wait"}`, http.StatusOK, `"paused":"wait"`)
	r.trainer("GET", "/health", "", http.StatusServiceUnavailable, `"paused"`)
}

// Weights change while answers are kept, and each token says which computed it.
func TestKeptAnswersGoOnWithTheWeightsOfTheDirectory(t *testing.T) {
	r := weightsServer(t, "--max-new-tokens", "4000")
	type result struct {
		rollout
		err error
	}
	answers := make(chan result, 4)
	for i := range 4 {
		go func() {
			a, err := r.generate(fmt.Sprintf(`"sampling_params": {"max_tokens": 1800, "seed": %d, "ignore_eos": true}`, i))
			answers <- result{a, err}
		}()
	}
	r.runs(4)
	_, before, _ := r.as(weightsToken, "GET", "/v1/weights", "")
	r.trainer("POST", "/pause?mode=keep&clear_cache=false", "", http.StatusOK, "paused")
	r.trainer("POST", "/update_weights", `{"weight_dir": "model1.gguf"}`, http.StatusOK, `"ok"`)
	r.trainer("POST", "/resume", "", http.StatusOK, "resumed")
	for range 4 {
		a := <-answers
		if a.err != nil {
			t.Fatal(a.err)
		}
		v := a.Choices[0].Versions
		if len(v) != 2 || v[0].Start != 0 || v[0].End != v[1].Start || v[1].End != len(a.Choices[0].IDs) || v[0].Version == v[1].Version || len(a.Choices[0].IDs) != 1800 {
			t.Errorf("%d tokens of %+v", len(a.Choices[0].IDs), v)
		}
		if !strings.Contains(before, v[0].Version) {
			t.Errorf("the first version is %s, served was %s", v[0].Version, before)
		}
		r.trainer("GET", "/weight_info", "", http.StatusOK, v[1].Version)
	}
}

func TestWrongWeightsChangeNothing(t *testing.T) {
	r := weightsServer(t)
	other := filepath.Join(t.TempDir(), "other.gguf")
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	if err := synth.Write(other, spec); err != nil {
		t.Fatal(err)
	}
	_, before, _ := r.as(weightsToken, "GET", "/v1/weights", "")
	for _, tc := range []struct{ path, body, want string }{
		{"/update_weights", `{"weight_dir": "` + other + `"}`, `"param":"weight_dir"`},
		{"/update_weights", `{"weight_dir": "../other.gguf"}`, `"param":"weight_dir"`},
		{"/update_weights", `{"weight_dir": "none"}`, `"param":"weight_dir"`},
		{"/update_weights", `{"weight_dir": "adapter0.gguf"}`, `"param":"weight_dir"`},
		{"/v1/load_lora_adapter", `{"lora_name": "new", "lora_path": "` + other + `"}`, `"param":"lora_path"`},
		{"/v1/load_lora_adapter", `{"lora_name": "new", "lora_path": "model0.gguf"}`, `"param":"lora_path"`},
		{"/v1/load_lora_adapter", `{"lora_name": "policy", "lora_path": "adapter1.gguf"}`, `"param":"lora_name"`},
	} {
		r.trainer("POST", tc.path, tc.body, http.StatusBadRequest, tc.want)
	}
	r.trainer("POST", "/v1/unload_lora_adapter", `{"lora_name": "none"}`, http.StatusNotFound, `"param":"lora_name"`)
	if _, after, _ := r.as(weightsToken, "GET", "/v1/weights", ""); after != before {
		t.Errorf("changed %s to %s", before, after)
	}
	r.trainer("POST", "/load_lora_adapter", `{"lora_name": "policy", "lora_path": "adapter1.gguf"}`, http.StatusOK, `"ok"`)
	named := `{"token_ids": [40], "model": "policy", "sampling_params": {"max_tokens": 2}}`
	r.trainer("POST", "/inference/v1/generate", named, http.StatusOK, `"model":"policy"`)
	r.putWeights(`{"adapter": {"name": "Org/policy:a@3", "path": "adapter1.gguf"}}`)
	step := strings.Replace(named, "policy", "Org/policy:a@3", 1)
	r.trainer("POST", "/inference/v1/generate", step, http.StatusOK, `"model":"Org/policy:a@3"`)
	r.trainer("DELETE", "/v1/weights/adapters/Org%2Fpolicy:a@3", "", http.StatusOK, `"name":"policy"`)
	r.trainer("POST", "/inference/v1/generate", step, http.StatusBadRequest, `"param":"model"`)
	r.trainer("POST", "/v1/unload_lora_adapter", `{"lora_name": "policy"}`, http.StatusOK, "Success")
	r.trainer("POST", "/inference/v1/generate", named, http.StatusBadRequest, `"param":"model"`) // not the model's answer
	r.trainer("POST", "/update_weights", `{"weight_dir": "model1.gguf"}`, http.StatusOK, "")
	r.trainer("POST", "/inference/v1/generate", named, http.StatusBadRequest, `"param":"model"`)
}

// Clients leave, pauses come in bursts, and each answer is whole or aborted.
func TestBurstsOfPausesLoseNoRollout(t *testing.T) {
	r := endlessServer(t, "--contexts", "2")
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	finishes := map[string]int{}
	for i := range 6 {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				a, err := r.generate(fmt.Sprintf(`"sampling_params": {"max_tokens": 40, "seed": %d, "logprobs": 0}`, i*1000+n))
				if err != nil || len(a.Choices[0].Logprobs.Content) != len(a.Choices[0].IDs) {
					t.Error(err)
					return
				}
				mu.Lock()
				finishes[a.Choices[0].Finish]++
				mu.Unlock()
			}
		})
	}
	clients.Go(func() { // one that hangs up in its stream
		for {
			select {
			case <-stop:
				return
			default:
			}
			ctx, cancel := context.WithCancel(context.Background())
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/inference/v1/generate", strings.NewReader(`{"stream": true, "token_ids": [1, 2], `+long+`}`))
			req.Header = http.Header{"Authorization": {"Bearer " + weightsToken}, "Content-Type": {"application/json"}}
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_, _ = io.ReadFull(resp.Body, make([]byte, 200))
				cancel()
				resp.Body.Close()
			}
			cancel()
		}
	})
	for i := range 20 {
		mode := []string{"keep", "abort", "keep", "wait"}[i%4]
		if mode == "wait" { // the stream would not end
			r.trainer("POST", "/abort_requests", "", http.StatusOK, "aborted")
			mode = "keep"
		}
		r.trainer("POST", "/pause?mode="+mode, "", http.StatusOK, "paused")
		if i%10 == 5 {
			r.trainer("POST", "/update_weights", fmt.Sprintf(`{"weight_dir": "model%d.gguf"}`, i/10%2), http.StatusOK, "ok")
		}
		r.trainer("POST", "/resume", "", http.StatusOK, "resumed")
	}
	close(stop)
	clients.Wait()
	r.runs(0)
	mu.Lock()
	defer mu.Unlock()
	if finishes["length"] == 0 || finishes["abort"] == 0 || finishes["length"]+finishes["abort"] != func() (n int) {
		for _, k := range finishes {
			n += k
		}
		return n
	}() {
		t.Errorf("ended by %v", finishes)
	}
}
