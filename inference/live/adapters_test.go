package live

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"agentd/agent"
	"agentd/inference/load"
	"agentd/llama/checkpoint/checkpointtest"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/scheduler"
)

// tinySpec is the model of tests with adapters.
func tinySpec(t *testing.T) synth.Spec {
	t.Helper()
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	spec.Type, spec.Small = "f32", true // answers hardly depend on the width of a batch
	return spec
}

func writeAdapter(t *testing.T, path string, seed uint64) string {
	t.Helper()
	if err := synth.WriteAdapter(path, tinySpec(t), synth.Adapter{Rank: 4, Alpha: 8, Seed: seed, Gain: 0.5}); err != nil {
		t.Fatal(err)
	}
	return path
}

func tinyConfig(t *testing.T) load.Config {
	t.Helper()
	path, err := synth.Cached("", tinySpec(t))
	if err != nil {
		t.Fatal(err)
	}
	return load.Config{
		Path: path, Device: "cpu", KVType: "f32", Threads: 1, ContextLength: 8192, Log: zerolog.Nop(),
		Scheduler: scheduler.Config{QueueLimit: 200}, Agent: agent.Config{MaxNewTokens: 24},
	}
}

func closing(t *testing.T, s interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// toldWeights is what a step says of the weights, and its output.
type toldWeights struct {
	Elements struct {
		Generation struct {
			Model   string `json:"model_version"`
			Adapter string `json:"adapter"`
			Version string `json:"adapter_version"`
		} `json:"generation"`
	} `json:"input_elements"`
	Raw string `json:"output_raw"`
}

// asked is the greedy answer to an instruction.
func asked(t *testing.T, s responses, instruction, extra string) toldWeights {
	t.Helper()
	req, err := protocol.DecodeAgentRequest([]byte(`{"request_id":"r","inputs":[{"id":1,"instruction":{"type":"user","content":"` + instruction + `"},"extra_keys":{"inference_mode":true` + extra + `}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	outs, err := s.Decide(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var step toldWeights
	if err := json.Unmarshal(outs[0].InternalSteps[0], &step); err != nil {
		t.Fatal(err)
	}
	return step
}

func TestInputsChooseTheirAdapter(t *testing.T) {
	dir := t.TempDir()
	cfg := tinyConfig(t)
	cfg.LoRA = []load.LoRA{{Name: "one", Path: writeAdapter(t, filepath.Join(dir, "1.gguf"), 1)}, {Name: "two", Path: writeAdapter(t, filepath.Join(dir, "2.gguf"), 2)}}
	s, err := openVersion(t.Context(), new(Service), cfg)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	answers := map[string]bool{}
	for _, name := range []string{"", "one", "two"} {
		extra, version := "", ""
		if name != "" {
			extra = `,"adapter":"` + name + `"`
			if version, err = load.FileVersion(t.Context(), cfg.LoRA[len(answers)-1].Path); err != nil {
				t.Fatal(err)
			}
		}
		first := asked(t, s, "Go on", extra)
		if g := first.Elements.Generation; g.Adapter != name || g.Version != version {
			t.Errorf("%q: the step tells %+v, want version %s", name, g, version)
		}
		if again := asked(t, s, "Go on", extra); again.Raw != first.Raw {
			t.Errorf("%q: %q with a cached prompt, %q without", name, again.Raw, first.Raw)
		}
		answers[first.Raw] = true
	}
	if len(answers) != 3 {
		t.Errorf("%d different answers of the model and two adapters", len(answers))
	}
}

func TestUnusableAdapterStopsTheStart(t *testing.T) {
	cfg := tinyConfig(t)
	cfg.LoRA = []load.LoRA{{Name: "bad", Path: cfg.Path}}
	if _, err := openVersion(t.Context(), new(Service), cfg); err == nil || !strings.Contains(err.Error(), "Config.LoRA: the adapter bad could not be loaded") {
		t.Errorf("%v", err)
	}
	cfg.LoRA[0].Path = t.TempDir()
	checkpointtest.WriteAdapter(t, cfg.LoRA[0].Path) // for another model
	if _, err := openVersion(t.Context(), new(Service), cfg); err == nil || strings.Contains(err.Error(), "/proc/") ||
		!strings.Contains(err.Error(), "could not be loaded from "+cfg.LoRA[0].Path) {
		t.Errorf("%v", err)
	}
	cfg.LoRA[0].Path = filepath.Join(t.TempDir(), "none.gguf")
	if _, err := openVersion(t.Context(), new(Service), cfg); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}

func TestReplacedAdapterIsFreedWithItsLastRequest(t *testing.T) {
	dir := t.TempDir()
	cfg := tinyConfig(t)
	cfg.LoRA = []load.LoRA{{Name: "policy", Path: writeAdapter(t, filepath.Join(dir, "0.gguf"), 1)}}
	s, err := openVersion(t.Context(), new(Service), cfg)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	want := map[string]string{} // answers by version
	const versions = 4
	for i := range uint64(versions) {
		path := writeAdapter(t, filepath.Join(dir, fmt.Sprint(i, ".gguf")), i+1)
		if err := s.adapters.set(t.Context(), "alone", path); err != nil {
			t.Fatal(err)
		}
		alone := asked(t, s, "Go on", `,"adapter":"alone"`)
		want[alone.Elements.Generation.Version] = alone.Raw
	}
	if len(want) != versions || !s.adapters.remove("alone") || s.adapters.remove("alone") {
		t.Fatalf("%d versions", len(want))
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got := asked(t, s, "Go on", `,"adapter":"policy"`)
				if text, ok := want[got.Elements.Generation.Version]; !ok || text != got.Raw {
					t.Errorf("%q is no answer of its version, %q", got.Raw, text)
				}
			}
		})
	}
	for i := range 3 * versions {
		if err := s.adapters.set(t.Context(), "policy", filepath.Join(dir, fmt.Sprint(i%versions, ".gguf"))); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.gguf"), []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.adapters.set(t.Context(), "policy", filepath.Join(dir, "bad.gguf")); err == nil {
		t.Error("a broken file was loaded")
	}
	close(stop)
	clients.Wait()
	if list := s.adapters.list(); len(list) != 1 || list[0].Name != "policy" || list[0].Bytes == 0 {
		t.Errorf("left are %+v", list)
	}
}

// responses decides requests.
type responses interface {
	Decide(ctx context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error)
}
