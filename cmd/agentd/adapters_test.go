package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"agentd/llama/synth"
	"agentd/protocol"
)

// adapterFiles are a model, adapters of it, and models whose weights have an adapter added.
type adapterFiles struct {
	model  string
	lora   map[string]string // by name
	merged map[string]string
}

func newAdapterFiles(t *testing.T) adapterFiles {
	t.Helper()
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	spec.Type = "f32" // answers hardly depend on the width of a batch
	f := adapterFiles{lora: map[string]string{}, merged: map[string]string{}}
	if f.model, err = synth.Cached("", spec); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"careful", "quick"} {
		a := synth.Adapter{Rank: 4, Alpha: 8, Seed: uint64(1 + i), Gain: 0.5}
		f.lora[name] = filepath.Join(t.TempDir(), name+".gguf")
		if err := synth.WriteAdapter(f.lora[name], spec, a); err != nil {
			t.Fatal(err)
		}
		merged := spec
		merged.Merged = &a
		if f.merged[name], err = synth.Cached("", merged); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// options name all adapters for agentd.
func (f adapterFiles) options() []string {
	return []string{"--model", f.model, "--lora", "careful=" + f.lora["careful"], "--lora", "quick=" + f.lora["quick"]}
}

// decodedBy is the output of a greedy answer that an adapter computes; "": none.
func (r *running) decodedBy(adapter, instruction string) (output, generation string) {
	r.t.Helper()
	extra := `{"inference_mode": true}`
	if adapter != "" {
		extra = fmt.Sprintf(`{"inference_mode": true, "adapter": %q}`, adapter)
	}
	out := r.ask("r", user(1, instruction).extra(extra))[0]
	if len(out.InternalSteps) != 1 {
		r.t.Fatalf("%s has %d steps", answerOf(out), len(out.InternalSteps))
	}
	step, err := protocol.DecodeInternalStep(out.InternalSteps[0])
	if err != nil {
		r.t.Fatal(err)
	}
	told, _ := protocol.Get(step.InputElements, "generation")
	return step.OutputRaw, string(told)
}

// TestAdaptersComputeThroughEveryEngine, as models whose weights have the adapter added.
func TestAdaptersComputeThroughEveryEngine(t *testing.T) {
	t.Parallel()
	f := newAdapterFiles(t)
	instructions := []string{"Go to the kitchen and wait there.", "Go to the kitchen and sing.", "Go to the kitchen and wait there."}
	names := []string{"", "careful", "quick"}
	want := map[string]string{}
	for _, name := range names {
		model := f.model
		if name != "" {
			model = f.merged[name]
		}
		r := serveModel(t, "--model", model, "--max-new-tokens", "16")
		for _, text := range instructions {
			want[name+text], _ = r.decodedBy("", text)
		}
		r.stop()
	}
	for _, text := range instructions {
		if want[text] == want["careful"+text] || want["careful"+text] == want["quick"+text] {
			t.Fatalf("answers are equal, so the test shows nothing: %q", want)
		}
	}
	check := func(t *testing.T, r *running) {
		for i, text := range instructions {
			for _, name := range names {
				got, told := r.decodedBy(name, text)
				if got != want[name+text] {
					t.Errorf("%d: the adapter %q answers %q, want %q", i, name, got, want[name+text])
				}
				if strings.Contains(told, fmt.Sprintf(`"adapter":%q`, name)) != (name != "") {
					t.Errorf("%d: the step of %q tells %s", i, name, told)
				}
			}
		}
		r.expect(422, `["body","inputs",0,"extra_keys","adapter"],"msg":"it names no adapter of this server; the adapters are careful, quick"`, "POST", "/v1/responses", body(t, "r", user(1, "a").extra(`{"adapter":"slow"}`)))
	}
	serveModel(t, append(f.options(), "--max-new-tokens", "16")...).atOne(t, check)
	t.Run("through agentd", func(t *testing.T) {
		engine := serveModel(t, append(f.options(), "--max-new-tokens", "16")...)
		serveEngines(t, []string{engine.url}, "--model", f.model, "--max-new-tokens", "16").atOne(t, check)
		all := serveEngines(t, []string{engine.url}, "--engine-model", "careful", "--model", f.model, "--max-new-tokens", "16")
		for _, text := range instructions {
			if got, _ := all.decodedBy("", text); got != want["careful"+text] {
				t.Errorf("an adapter as the engine's model answers %q, want %q", got, want["careful"+text])
			}
		}
	})
}

// TestAdapterLoadedAtTheEngineIsFound without a restart of the agentd before it.
func TestAdapterLoadedAtTheEngineIsFound(t *testing.T) {
	t.Parallel()
	f := newAdapterFiles(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "trainer+weights:"+weightsToken+"\n")
	engine := serveModel(t, "--model", f.model, "--weights-dir", filepath.Dir(f.lora["careful"]), "--auth-token-file", tokens, "--max-new-tokens", "16")
	key := filepath.Join(t.TempDir(), "key")
	writeFile(t, key, weightsToken+"\n")
	r := serveEngines(t, []string{engine.url}, "--engine-key-file", key, "--model", f.model, "--max-new-tokens", "16")
	plain, _ := r.decodedBy("", "Go on")
	engine.putWeights(`{"adapter": {"name": "late", "path": "careful.gguf"}}`)
	careful, told := r.decodedBy("late", "Go on")
	if careful == plain || strings.Contains(told, "adapter_version") {
		t.Errorf("the adapter answers %q and tells %s", careful, told)
	}
	if status, answer, err := engine.as(weightsToken, "DELETE", "/v1/weights/adapters/late", ""); err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	out := r.ask("r", user(1, "Go on").extra(`{"inference_mode": true, "adapter": "late"}`))[0]
	if out.Error == nil || !strings.Contains(out.Error.Message, `"late" is not served here`) {
		t.Errorf("after the adapter was removed: %s", answerOf(out))
	}
}

// TestOwnCoachAnswersWithTheAdapterOfTheStep; an adapter that is not loaded is an error of the coaching.
func TestOwnCoachAnswersWithTheAdapterOfTheStep(t *testing.T) {
	t.Parallel()
	f := newAdapterFiles(t)
	serveModel(t, f.options()...).atOne(t, func(t *testing.T, r *running) {
		r.expect(204, "", "PUT", session1, `{"backends": {"own": {"type": "local", "model": "own", "timeout": 300, "max_retry": 0}}}`)
		defer r.expect(204, "", "DELETE", session1, "")
		coached := func(adapter string) string {
			in := failedStep().extra(fmt.Sprintf(`{"adapter": %q}`, adapter))
			return string(r.coach(coachingRequestFor(t, "c-"+adapter, in)).AppendJSON(nil))
		}
		if got := coached("slow"); !strings.Contains(got, "the adapters are careful, quick") {
			t.Errorf("an adapter that is not loaded: %s", got)
		}
		r.decodedBy("", "Go on")
		turns := r.metric("agentd_adapter_turns_total")
		got := coached("careful")
		if n := r.metric("agentd_adapter_turns_total") - turns; n != 1 || strings.Contains(got, "the adapters are") {
			t.Errorf("the context changed its adapter %g times for %s", n, got)
		}
	})
}
