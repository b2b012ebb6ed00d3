package remote

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"agentd/scheduler/generation"
)

// bytesModel has one token for each byte, 256 ends an answer, 257 is a control token. Its
// grammars are the texts that they admit.
type bytesModel struct{}

func (bytesModel) Name() string { return "bytes.gguf" }
func (bytesModel) Size() int    { return 258 }

func (bytesModel) Tokenize(text string) ([]generation.Token, error) {
	ids := make([]generation.Token, len(text))
	for i := range len(text) {
		ids[i] = generation.Token(text[i])
	}
	return ids, nil
}

func (bytesModel) Detokenize(ids []generation.Token) string {
	var b strings.Builder
	for _, id := range ids {
		switch id {
		case 256:
			b.WriteString("<end>")
		case 257:
			b.WriteString("<control>")
		default:
			b.WriteByte(byte(id))
		}
	}
	return b.String()
}
func (bytesModel) IsEnd(id generation.Token) bool { return id == 256 }
func (bytesModel) Ends() []generation.Token       { return []generation.Token{256} }
func (bytesModel) Control() []generation.Token    { return []generation.Token{257} }
func (bytesModel) PlainGrammar(g string) string   { return strings.ToLower(g) }
func (m bytesModel) Check(g string, ids []generation.Token) (int, error) {
	text := m.Detokenize(ids)
	for i := range len(text) {
		if i >= len(g) || text[i] != g[i] {
			return i, nil
		}
	}
	if len(text) < len(g) {
		return -1, nil
	}
	return len(ids), nil
}

// fakeEngine answers calls of one API with scripted texts.
type fakeEngine struct {
	*httptest.Server
	api string

	mu     sync.Mutex
	calls  []map[string]any
	header []http.Header
	// adapters are the names of LoRA adapters; it refuses calls for others, or with anyName its model
	// answers them.
	adapters []string
	anyName  bool
	lists    int // how often they were listed
	// reply returns the text of a completion, given its seed; nil: "ok".
	reply func(seed uint32) string
	// before may answer a call instead.
	before func(w http.ResponseWriter, r *http.Request) bool
	tokens func(text string) []int
	// model is its name, "m" by default, and window its context, 0: not reported.
	model  string
	window int
	// unseeded is SGLang without --enable-deterministic-inference.
	unseeded bool
	// logprob of each token of a text; nil: as in the tests of logprobs.
	logprob func(text string) float32
	// texts of tokens for /detokenize; nil: it has no such path. "-" is the text of a token that it refuses.
	texts map[int]string
	// noLogprobs ignores that a call asks for logprobs.
	noLogprobs bool
}

func newFake(t *testing.T, api string) *fakeEngine {
	f := &fakeEngine{api: api}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeEngine) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	before, tokens, model, window := f.before, f.tokens, cmp.Or(f.model, "m"), f.window
	f.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	answer := func(v any) {
		if err := json.NewEncoder(w).Encode(v); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
	only := map[string]string{"/version": APIVLLM, "/props": APILlamaServer, "/model_info": APISGLang, "/server_info": APISGLang}
	if api, ok := only[r.URL.Path]; ok && api != f.api {
		http.NotFound(w, r)
		return
	}
	switch r.URL.Path {
	case "/health":
	case "/version":
		answer(map[string]string{"version": "0.32.0"})
	case "/props":
		answer(map[string]any{"total_slots": 2, "default_generation_settings": map[string]int{"n_ctx": window}})
	case "/model_info":
		answer(map[string]string{"model_path": "m"})
	case "/server_info":
		answer(map[string]bool{"enable_deterministic_inference": !f.unseeded})
	case "/v1/models":
		models := []any{map[string]any{"id": model, "parent": nil, "max_model_len": window}}
		if f.api != APILlamaServer {
			for _, name := range f.listed() {
				models = append(models, map[string]any{"id": name, "root": "/adapters/" + name, "parent": model})
			}
		}
		answer(map[string]any{"data": models})
	case "/lora-adapters":
		if f.api != APILlamaServer {
			http.NotFound(w, r)
			return
		}
		entries := []any{}
		for i, name := range f.listed() {
			entries = append(entries, map[string]any{"id": i, "path": "/adapters/" + name + ".gguf", "scale": 0.5, "task_name": ""})
		}
		answer(entries)
	case "/tokenize":
		var body struct{ Content, Prompt string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		text := body.Prompt
		if f.api == APILlamaServer {
			text = body.Content
		}
		ids, _ := bytesModel{}.Tokenize(text)
		if tokens != nil {
			answer(map[string]any{"tokens": tokens(text)})
			return
		}
		answer(map[string]any{"tokens": ids})
	case "/detokenize":
		f.detokenize(w, r, answer)
	case dialectOf(identity{api: f.api}).path():
		f.complete(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeEngine) detokenize(w http.ResponseWriter, r *http.Request, answer func(any)) {
	var body struct{ Tokens []int }
	_ = json.NewDecoder(r.Body).Decode(&body)
	if f.texts == nil {
		http.NotFound(w, r)
		return
	}
	text := ""
	for _, id := range body.Tokens {
		if f.texts[id] == "-" {
			http.Error(w, `{"message": "out of vocabulary"}`, http.StatusBadRequest)
			return
		}
		text += f.texts[id]
	}
	name := map[string]string{APIVLLM: "prompt", APILlamaServer: "content", APISGLang: "text"}[f.api]
	answer(map[string]string{name: strings.ToValidUTF8(text, "\ufffd")})
}

// set changes the engine while it serves.
func (f *fakeEngine) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// intercepts sets before.
func (f *fakeEngine) intercepts(before func(w http.ResponseWriter, r *http.Request) bool) {
	f.set(func() { f.before = before })
}

// listed lists the adapters.
func (f *fakeEngine) listed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	return f.adapters
}

// chosen is the adapter that a call names; a name that is not served is an error.
func (f *fakeEngine) chosen(body map[string]any) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := ""
	switch f.api {
	case APIVLLM:
		if name, _ = body["model"].(string); name == cmp.Or(f.model, "m") {
			name = ""
		}
	case APISGLang:
		name, _ = body["lora_path"].(string)
	default:
		entries, _ := body["lora"].([]any)
		for i, e := range entries {
			if entry := e.(map[string]any); entry["scale"] == 1.0 && i < len(f.adapters) && entry["id"] == float64(i) {
				name += f.adapters[i]
			}
		}
	}
	if f.anyName && !slices.Contains(f.adapters, name) {
		name = ""
	}
	return name, name == "" || slices.Contains(f.adapters, name)
}

// complete answers a call in the form of the API, last completion first.
func (f *fakeEngine) complete(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	adapter, ok := f.chosen(body)
	if !ok {
		http.Error(w, `{"error": {"message": "no such model"}}`, http.StatusNotFound)
		return
	}
	f.mu.Lock()
	f.calls, f.header = append(f.calls, body), append(f.header, r.Header)
	f.mu.Unlock()
	settings, each := body, []any(nil)
	if f.api == APISGLang {
		var one bool
		if settings, one = body["sampling_params"].(map[string]any); !one {
			each = body["input_ids"].([]any)
			settings = body["sampling_params"].([]any)[0].(map[string]any)
		}
	}
	count := func(names ...string) int {
		for _, name := range names {
			if v, ok := settings[name].(float64); ok {
				return int(v)
			}
		}
		return 0
	}
	n, seed := count("n", "n_cmpl"), uint32(count("seed", "sampling_seed"))
	if each != nil {
		n = len(each)
	}
	var list []any
	for i := range n {
		text := "ok"
		if f.reply != nil {
			own := seed + uint32(i)
			switch {
			case each != nil:
				own = uint32(body["sampling_params"].([]any)[i].(map[string]any)["sampling_seed"].(float64))
			case f.api == APISGLang && !f.unseeded:
				own = seed // each completion of a request has the same
			}
			text = f.reply(own)
		}
		if adapter != "" {
			text += " by " + adapter
		}
		ids, _ := bytesModel{}.Tokenize(text)
		ids = append(ids, 256)
		switch f.api {
		case APIVLLM:
			one := map[string]any{"index": i, "token_ids": ids, "finish_reason": "stop"}
			if _, asked := body["logprobs"]; asked && !f.noLogprobs {
				one["logprobs"] = map[string]any{"token_logprobs": f.logprobs(text, len(ids))}
			}
			list = append([]any{one}, list...)
		case APISGLang:
			list = append(list, map[string]any{"output_ids": ids, "meta_info": map[string]any{
				"finish_reason": map[string]any{"type": "stop", "matched": 256}, "prompt_tokens": 3, "cached_tokens": 2}})
		default:
			one := map[string]any{"index": i, "tokens": ids, "stop_type": "eos", "tokens_evaluated": 3,
				"timings": map[string]int{"cache_n": 2}}
			if body["n_probs"] == 1.0 && !f.noLogprobs { // without the second token, as for a part of a character
				one["completion_probabilities"] = []map[string]any{{"id": ids[0], "logprob": -1}, {"id": ids[2], "logprob": -3}}
			}
			list = append([]any{one}, list...)
		}
	}
	var whole any = list
	if f.api == APIVLLM {
		whole = map[string]any{"model": cmp.Or(adapter, f.model, "m"), "choices": list, "usage": map[string]any{"prompt_tokens": 3,
			"prompt_tokens_details": map[string]int{"cached_tokens": 2}}}
	} else if n == 1 {
		whole = list[0]
	}
	if err := json.NewEncoder(w).Encode(whole); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// logprobs of the tokens of a text.
func (f *fakeEngine) logprobs(text string, n int) (list []float32) {
	if f.logprob == nil {
		return []float32{-1, -2, -3}[:n]
	}
	return slices.Repeat([]float32{f.logprob(text)}, n)
}

func (f *fakeEngine) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// started makes an engine of fakes, and waits until all get work.
func started(t *testing.T, fakes ...*fakeEngine) *Engine {
	t.Helper()
	e, _ := opened(t, fakes...)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// log is what an engine logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// opened makes an engine of fakes that is not started. Its probes follow each other at once.
func opened(t *testing.T, fakes ...*fakeEngine) (*Engine, *log) {
	t.Helper()
	return openedFor(t, bytesModel{}, fakes...)
}

func openedFor(t *testing.T, m Model, fakes ...*fakeEngine) (*Engine, *log) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("k3y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{API: APIAuto, Retries: 2, KeyFile: file}
	for _, f := range fakes {
		cfg.URLs = append(cfg.URLs, f.URL)
	}
	logged := new(log)
	e, err := New(cfg, m, zerolog.New(logged))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	e.limits.late = 0
	e.limits.probeEvery, e.limits.minBackoff, e.limits.maxBackoff = time.Millisecond, time.Millisecond, 10*time.Millisecond
	e.limits.others = time.Minute
	return e, logged
}

func request(n int) *generation.Request {
	r := &generation.Request{Prompt: []generation.Token{'a', 'b', 'c'}}
	r.N, r.MaxTokens, r.Temperature = n, 32, 1
	for i := range n {
		r.Seeds = append(r.Seeds, uint32(100+i))
	}
	return r
}

func texts(r generation.Result) string {
	var list []string
	for _, c := range r.Completions {
		list = append(list, fmt.Sprintf("%s%s/%s", c.Text, c.Stop, c.Finish))
	}
	return strings.Join(list, " ")
}
