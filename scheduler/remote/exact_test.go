package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEngineSamplesAsAsked: each API gets the request's own sampling, and its word for what is off.
func TestEngineSamplesAsAsked(t *testing.T) {
	for _, test := range []struct{ api, set, off string }{
		{APIVLLM, "0.75 0.5 7 0.25", "0.75 1 -1 0"},
		{APISGLang, "0.75 0.5 7 0.25", "0.75 1 -1 0"},
		{APILlamaServer, "0.75 0.5 7 0.25", "0.75 1 0 0"},
	} {
		t.Run(test.api, func(t *testing.T) {
			f := newFake(t, test.api)
			e := started(t, f)
			sent := func(topP, minP float32, topK int) string {
				r := request(1)
				r.Temperature, r.TopP, r.TopK, r.MinP = 0.75, topP, topK, minP
				if _, err := e.Generate(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				body := f.calls[len(f.calls)-1]
				if inner, ok := body["sampling_params"].(map[string]any); ok {
					body = inner
				}
				return fmt.Sprint(body["temperature"], " ", body["top_p"], " ", body["top_k"], " ", body["min_p"])
			}
			if got := sent(0.5, 0.25, 7); got != test.set {
				t.Errorf("sent %s, want %s", got, test.set)
			}
			if got := sent(0, 0, 0); got != test.off {
				t.Errorf("nothing cut off: sent %s, want %s", got, test.off)
			}
		})
	}
}

func TestTotalsAreTheSumsOfAllEngines(t *testing.T) {
	e := started(t, newFake(t, APISGLang), newFake(t, APISGLang))
	for range 8 {
		if _, err := e.Generate(t.Context(), request(2)); err != nil {
			t.Fatal(err)
		}
	}
	var prompt, cached, completion uint64
	for _, s := range e.Stats() {
		prompt, cached, completion = prompt+s.PromptTokens, cached+s.CachedTokens, completion+s.CompletionTokens
	}
	got := e.Totals()
	if got.PromptTokens != prompt || got.CachedTokens != cached || got.CompletionTokens != completion || cached == 0 || completion == 0 {
		t.Errorf("%+v, the engines have %d, %d, %d", got, prompt, cached, completion)
	}
}

func TestKeyFilesHaveOneVisibleWord(t *testing.T) {
	for text, right := range map[string]bool{"k3y\n": true, " ~! \n": true, "": false, "two words": false, "tab\tin": false, "\u00e9": false, "\x7f": false} {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if key, err := (&Config{KeyFile: file}).key(); (err == nil) != right || right && key != strings.TrimSpace(text) {
			t.Errorf("%q: key %q, %v", text, key, err)
		}
	}
}

func TestEnginesAreUsedOnlyWithURLs(t *testing.T) {
	if (&Config{}).Enabled() || !(&Config{URLs: []string{"http://a:1"}}).Enabled() {
		t.Error("they follow something else than the URLs")
	}
}
