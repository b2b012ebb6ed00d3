package suite

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// written is a line of llama-batched-bench, as it prints it.
const written = `{"n_kv_max": 32768, "n_batch": 2048, "n_ubatch": 512, "flash_attn": -1, "is_pp_shared": 1, "n_gpu_layers": -1, "n_threads": 2, "n_threads_batch": 2, "pp": 400, "tg": 8, "pl": 8, "n_kv": 3264, "t_pp": 0.121513, "speed_pp": 3291.828857, "t_tg": 0.151694, "speed_tg": 421.901978, "t": 0.273207, "speed": 1698.345947}`

func TestParseSpeedsSkipsTheLog(t *testing.T) {
	want := speed{Prompt: 400, Output: 8, Width: 8, Prefill: 3291.828857, Decode: 421.901978}
	got, err := parseSpeeds(strings.NewReader("\nllama_perf_context_print: load time = 1 ms\n" + written + "\r\n  " + written + "\n\n"))
	if diff := cmp.Diff([]speed{want, want}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestParseSpeedsRefusesOtherOutput(t *testing.T) {
	replace := func(from, to string) string { return strings.Replace(written, from, to, 1) }
	for name, test := range map[string]struct{ output, want string }{
		"nothing":            {"", "printed no measurement"},
		"only a log":         {"main: n_kv_max = 1\n", "printed no measurement"},
		"half a line":        {written + "\n" + written[:40], "unexpected end"},
		"no width":           {replace(`"pl": 8`, `"x": 8`), "lacks a width or a speed"},
		"a fraction":         {replace(`"pp": 400`, `"pp": 1.5`), "llama-batched-bench printed"},
		"no speed":           {replace(`"speed_tg"`, `"speed"`), "lacks a width or a speed"},
		"a negative speed":   {replace(`3291.828857`, `-1`), "lacks a width or a speed"},
		"a division by zero": {replace(`421.901978`, `inf`), "llama-batched-bench printed"},
		"a line without end": {strings.Repeat("x", maxLine+1), "token too long"},
	} {
		if _, err := parseSpeeds(strings.NewReader(test.output)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func FuzzParseSpeeds(f *testing.F) {
	f.Add([]byte(written))
	f.Add([]byte("log\n" + written + "\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseSpeeds(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		if s, err := fastest(list, math.MaxInt); err == nil && !(s.Prefill > 0 && s.Decode > 0 && s.Width > 0) {
			t.Fatalf("%+v of %+v", s, list)
		}
	})
}

func TestFastestWidthIsOneThatTheLoadHas(t *testing.T) {
	list := []speed{
		{Width: 1, Prompt: 10, Prefill: 100, Output: 4, Decode: 50},
		{Width: 8, Prompt: 10, Prefill: 300, Output: 4, Decode: 10}, // a disturbed repeat
		{Width: 8, Prompt: 10, Prefill: 200, Output: 4, Decode: 200},
		{Width: 8, Prompt: 10, Prefill: 200, Output: 4, Decode: 220},
		{Width: 16, Prompt: 10, Prefill: 200, Output: 4, Decode: 160},
		{Width: 32, Output: 4, Decode: 1000},
	}
	for widest, want := range map[int]Speeds{1: {200, 50, 1}, 8: {200, 200, 8}, 16: {200, 200, 8}, 64: {200, 1000, 32}} {
		if got, err := fastest(list, widest); err != nil || got != want {
			t.Errorf("up to %d: got %+v, %v, want %+v", widest, got, err, want)
		}
	}
	if _, err := fastest(list[5:], 64); err == nil {
		t.Error("no prompt was measured, and there is no error")
	}
	if _, ok := decodeRate(list, 7); ok {
		t.Error("there is a rate of 7 sequences")
	}
}

func TestReferenceEstimateIsTheTimeOfAllTokens(t *testing.T) {
	s := Speeds{Prefill: 1000, Decode: 200}
	if got := s.decisions(work{decisions: 40, unique: 6000, generated: 800}); got != 4 { // 6 s and 4 s
		t.Errorf("got %g", got)
	}
	if got := s.decisions(work{}); !math.IsNaN(got) {
		t.Errorf("of nothing: %g", got)
	}
}

// script is a script in place of llama-batched-bench.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bench")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBatchedContextHoldsAllSequences(t *testing.T) {
	b := batched{model: "m.gguf", threads: 3, prompt: 250, output: 6, widths: []int{8, 4}, cache: Cache{FlashAttention: "off"}}
	const want = "-m m.gguf -c 4096 -b 2048 -ub 512 -t 3 -tb 3 -npp 250 -ntg 6 -npl 8,4 --output-format jsonl -no-kvu -fa off"
	if got := strings.Join(b.args(), " "); got != want {
		t.Errorf("got %s", got)
	}
	b.shared, b.cache.Unified = true, true
	if got := strings.Join(b.args(), " "); !strings.HasSuffix(got, "-pps -kvu -fa off") {
		t.Errorf("got %s", got)
	}
}

func TestBatchedReadsTheProgramsOutput(t *testing.T) {
	b := batched{program: script(t, "echo loading >&2\ncat <<'X'\n"+written+"\nX\n"), widths: []int{8}}
	list, err := b.run(t.Context())
	if err != nil || len(list) != 1 || list[0].Width != 8 {
		t.Errorf("got %+v, %v", list, err)
	}
	b.widths = []int{8, 16}
	if _, err := b.run(t.Context()); err == nil || !strings.Contains(err.Error(), "no measurement with 16 sequences") {
		t.Errorf("a width is missing: %v", err)
	}
	b.program = script(t, "echo one >&2\necho unable to load model >&2\nexit 3\n")
	if _, err := b.run(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3: one | unable to load model") {
		t.Errorf("got %v", err)
	}
}

func TestBatchedEndsWithTheContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	started := filepath.Join(t.TempDir(), "started")
	b := batched{model: started, program: script(t, "touch \"$2\"\nsleep 3600\nexit 0\n")} // its first arguments are -m MODEL
	done := make(chan error, 1)
	go func() {
		_, err := b.run(ctx)
		done <- err
	}()
	for {
		if _, err := os.Stat(started); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
