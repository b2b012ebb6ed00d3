package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/llama/synth"
)

const weightsToken = "0123456789abcdef-weights"

// weightsServer serves one of two models of a directory, which also has two adapters.
func weightsServer(t *testing.T, args ...string) *running {
	t.Helper()
	dir := t.TempDir()
	for i := range 2 {
		spec, err := synth.Preset("tiny", synth.Qwen3)
		if err != nil {
			t.Fatal(err)
		}
		spec.Seed, spec.Type, spec.Small = uint64(1+i), "f32", true // answers hardly depend on the width of a batch
		if err := synth.Write(filepath.Join(dir, fmt.Sprint("model", i, ".gguf")), spec); err != nil {
			t.Fatal(err)
		}
		if err := synth.WriteAdapter(filepath.Join(dir, fmt.Sprint("adapter", i, ".gguf")), spec, synth.Adapter{Rank: 4, Alpha: 8, Seed: uint64(1 + i), Gain: 0.5}); err != nil {
			t.Fatal(err)
		}
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "trainer+weights:"+weightsToken+"\nreader:0123456789abcdef-reader\n")
	return serveModel(t, append([]string{
		"--model", filepath.Join(dir, "model0.gguf"), "--lora", "policy=" + filepath.Join(dir, "adapter0.gguf"),
		"--weights-dir", dir, "--auth-token-file", tokens, "--max-new-tokens", "16", "--dtype", "f32",
	}, args...)...)
}

// as sends a request with a token.
func (r *running) as(token, method, path, body string) (status int, answer string, err error) {
	status, _, answer, err = exchangeHeader(method, r.url+path, body, http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}})
	return status, answer, err
}

func (r *running) putWeights(body string) string {
	r.t.Helper()
	status, answer, err := r.as(weightsToken, "PUT", "/v1/weights", body)
	if err != nil || status != http.StatusOK {
		r.t.Fatalf("%s: %d %s, %v", body, status, answer, err)
	}
	return answer
}

// decided is the greedy answer to a request, and the versions that its step reports.
func (r *running) decided(adapter string) (versions, output string, err error) {
	in := user(1, "Go on").extra(`{"inference_mode": true, "adapter": ` + adapter + `}`)
	outs, err := r.outputs(body(r.t, "r", in), http.Header{"Authorization": {"Bearer " + weightsToken}})
	if err != nil {
		return "", "", err
	}
	var step struct {
		Elements struct {
			Generation struct {
				Model   string `json:"model_version"`
				Adapter string `json:"adapter_version"`
			} `json:"generation"`
		} `json:"input_elements"`
		Raw string `json:"output_raw"`
	}
	err = json.Unmarshal(outs[0].InternalSteps[0], &step)
	return step.Elements.Generation.Model + " " + step.Elements.Generation.Adapter, step.Raw, err
}

func TestWeightsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"one context": nil, "two contexts": {"--contexts", "2"}} {
		t.Run(name, func(t *testing.T) { weightsUnderLoad(t, weightsServer(t, args...)) })
	}
}

func weightsUnderLoad(t *testing.T, r *running) {
	adapters := []string{`null`, `"policy"`}
	change := func(i int) string {
		if i%2 == 0 {
			return fmt.Sprintf(`{"model": "model%d.gguf"}`, i/2%2)
		}
		return fmt.Sprintf(`{"adapter": {"name": "policy", "path": "adapter%d.gguf"}}`, i/2%2)
	}
	want := map[string]string{}
	learn := func() {
		for _, adapter := range adapters {
			versions, output, err := r.decided(adapter)
			if err != nil {
				t.Fatal(err)
			}
			want[versions] = output
		}
	}
	for _, body := range []string{change(0), change(1), change(3), change(2), change(1)} { // all four pairs
		r.putWeights(body)
		learn()
	}
	if len(want) != 6 {
		t.Fatalf("%d versions, want those of two models, alone and with two adapters", len(want))
	}
	stop := make(chan struct{})
	seen := make([]map[string]bool, 16)
	var clients sync.WaitGroup
	for i := range seen {
		seen[i] = map[string]bool{}
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				versions, output, err := r.decided(adapters[i%2])
				if expected, ok := want[versions]; err != nil || !ok || output != expected {
					t.Errorf("versions %s: %q, alone %q, %v", versions, output, expected, err)
					return
				}
				seen[i][versions] = true
			}
		})
	}
	for i := range 10 {
		r.putWeights(change(i))
	}
	close(stop)
	clients.Wait()
	all := map[string]bool{}
	for _, versions := range seen {
		for v := range versions {
			all[v] = true
		}
	}
	if len(all) < 3 {
		t.Errorf("the clients saw only %d versions", len(all))
	}
}

func TestWeightsNeedRightsAndFiles(t *testing.T) {
	r := weightsServer(t)
	status, answer, err := r.as("0123456789abcdef-reader", "GET", "/v1/weights", "")
	if err != nil || status != http.StatusOK || !strings.Contains(answer, `"name":"policy"`) || !strings.Contains(answer, `"version":"sha256:`) {
		t.Errorf("%d %s, %v", status, answer, err)
	}
	if status, answer, err := r.as(weightsToken, "DELETE", "/v1/weights/adapters/policy", ""); err != nil || status != http.StatusOK || strings.Contains(answer, "policy") {
		t.Errorf("%d %s, %v", status, answer, err)
	}
	if _, _, err := r.decided(`"policy"`); err == nil || !strings.Contains(err.Error(), "422") {
		t.Errorf("an adapter that was removed: %v", err)
	}
	_, page, err := r.as(weightsToken, "GET", "/metrics", "")
	for _, want := range []string{`agentd_weights_info{adapter="",version="sha256:`, `agentd_weights_changes_total{kind="adapter",result="removed"} 1`} {
		if err != nil || !strings.Contains(page, want) {
			t.Errorf("/metrics lacks %s, %v", want, err)
		}
	}
}
