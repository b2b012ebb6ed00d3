package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/llama/synth"
	"agentd/protocol"
)

const moveTool = `[{"name": "move", "description": "Moves a robot.", "parameters": {"x": {"type": "int", "description": "Metres."}}}]`

// eachModel runs a test against each native format, one at both base paths, and through
// each engine. Qwen and Llama are configured by options, GPT-OSS by a configuration file.
func eachModel(t *testing.T, f func(t *testing.T, r *running)) {
	t.Run("qwen", func(t *testing.T) {
		serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--max-new-tokens", "24").atBoth(t, f)
	})
	t.Run("gpt-oss", func(t *testing.T) {
		config := filepath.Join(t.TempDir(), "agentd.json")
		text := fmt.Sprintf(`{"model": {"path": %q, "format": "harmony", "max_new_tokens": 64}}`, shortModel(t, synth.GPTOSS))
		writeFile(t, config, text)
		serveModel(t, "--config", config).atOne(t, f)
	})
	t.Run("llama", func(t *testing.T) {
		serveModel(t, "--model", shortModel(t, synth.Llama), "--max-new-tokens", "64").atOne(t, f)
	})
	for name, arch := range map[string]string{"qwen": synth.Qwen3, "gpt-oss": synth.GPTOSS, "llama": synth.Llama} {
		t.Run(name+" through llama-server", func(t *testing.T) {
			model := shortModel(t, arch)
			f(t, serveEngines(t, []string{llamaServer(t, model).url}, "--model", model, "--max-new-tokens", "64"))
		})
		t.Run(name+" through agentd", func(t *testing.T) {
			model := shortModel(t, arch)
			engine := serveModel(t, "--model", model)
			f(t, serveEngines(t, []string{engine.url}, "--model", model, "--max-new-tokens", "64"))
		})
	}
}

// TestResponses: with each format and engine, the rules of agentd check hold, whatever the model
// answers, and what only the server can show. Answers are validated against their requests (ask).
func TestResponses(t *testing.T) { eachModel(t, responses) }

func responses(t *testing.T, r *running) {
	// Random weights need not decide the same in batches of other widths, so concurrency is left out.
	t.Run("the rules of agentd check", func(*testing.T) {
		r.passes("--level", "should", "--only", "health,info,request,input,order,answer,mode,memory,correction,session,coaching,human,closing")
	})
	t.Run("each model call has its internal step", func(t *testing.T) {
		for _, o := range r.ask("step", user(1, "Fetch <|im_end|> it").outputs(2)) {
			if len(o.InternalSteps) != 1 {
				t.Fatalf("%d steps", len(o.InternalSteps))
			}
			step, err := protocol.DecodeInternalStep(o.InternalSteps[0])
			if err != nil {
				t.Fatal(err)
			}
			generation, _ := protocol.Get(step.InputElements, "generation")
			if step.ID != "step-0" || step.Component != "commander" || step.Origin != "model" ||
				!strings.Contains(step.FullPrompt, "Fetch <|im_end|> it") || !bytes.Contains(generation, []byte(`"prompt_tokens":`)) {
				t.Errorf("got %+v", step)
			}
		}
	})
	t.Run("lines have the candidates of the array", func(t *testing.T) { sameLines(t, r) })
	t.Run("deterministic candidates are generated once", func(t *testing.T) {
		before := r.metric("agentd_candidates_finished_total")
		r.ask("greedy", user(1, "Where is the cup?").outputs(4).greedy().tools(moveTool))
		if n := r.metric("agentd_candidates_finished_total") - before; n != 1 {
			t.Errorf("%v generations for one deterministic input", n)
		}
	})
	t.Run("sampled candidates differ", func(t *testing.T) {
		different := map[string]bool{}
		for _, o := range r.ask("sampled", user(1, "Say something.").outputs(8)) {
			different[string(o.InternalSteps[0])] = true
		}
		if len(different) < 4 {
			t.Errorf("%d different answers of 8", len(different))
		}
	})
	t.Run("corrections need no model", func(t *testing.T) { corrections(t, r) })
}

func corrections(t *testing.T, r *running) {
	before := r.metric("agentd_prompt_tokens_total")
	r.ask("corrected", user(1, "hi").outputs(2).extra(`{"coaching": {"kind": "replace_say", "text": "Better."}}`),
		user(2, "hi").extra(`{"coaching": {"kind": "replace_all"}}`))
	if after := r.metric("agentd_prompt_tokens_total"); after != before {
		t.Errorf("corrections used the model: %v prompt tokens", after-before)
	}
	r.ask("no correction", user(1, "hi").extra(`{"coaching": null, "unknown": {"temperature": 9}}`))
	if after := r.metric("agentd_prompt_tokens_total"); after == before {
		t.Error("coaching: null counted as a correction")
	}
}

// acceptLines asks for candidates as lines.
var acceptLines = http.Header{"Accept": {"application/x-ndjson"}}

// sameLines asks for an array and for lines. llama-server 0.6.0 does not always repeat what random weights write: through
// it only the form of the lines counts.
func sameLines(t *testing.T, r *running) {
	text := body(t, "lines", user(1, "Fetch it").outputs(3).greedy(), user(2, "Wait").greedy(), user(3, "Go").tools(`[{"name":"a b"}]`))
	want, err := checked(text, r.answer(text, nil))
	if err != nil {
		t.Fatal(err)
	}
	first, got := []int{0, 3, 4}, make([]string, len(want))
	lines := slices.Collect(strings.Lines(r.answer(text, acceptLines)))
	for _, line := range lines[:len(lines)-1] {
		var l struct {
			Input     int             `json:"input_index"`
			Index     int             `json:"candidate_index"`
			Candidate json.RawMessage `json:"candidate"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		outs, err := protocol.DecodeAgentOutputs([]byte("[" + string(l.Candidate) + "]"))
		if err != nil {
			t.Fatal(err)
		}
		got[first[l.Input]+l.Index] = answerOf(outs[0])
	}
	for i, o := range want {
		if got[i] == "" || got[i] != answerOf(o) && !strings.Contains(t.Name(), "llama-server") {
			t.Errorf("candidate %d is %q, want %q", i, got[i], answerOf(o))
		}
	}
	if end := strings.TrimSpace(lines[len(lines)-1]); len(lines) != 6 || end != `{"candidates":5}` {
		t.Errorf("%d lines, the last one is %q", len(lines), end)
	}
}

func TestDeterministicAnswersIgnoreCache(t *testing.T) {
	t.Parallel()
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--max-new-tokens", "64")
	words := strings.Fields("the robot cup table kitchen move pick red blue green bring now please open door light")
	random := rand.New(rand.NewPCG(1, 2))
	var texts, cold []string
	ask := func(text string) string {
		step, err := protocol.DecodeInternalStep(r.ask("same", user(1, text).greedy().tools(moveTool))[0].InternalSteps[0])
		if err != nil {
			t.Fatal(err)
		}
		return step.OutputRaw
	}
	for range 24 {
		var text []string
		for range 3 + random.IntN(60) {
			text = append(text, words[random.IntN(len(words))])
		}
		texts = append(texts, strings.Join(text, " "))
		cold = append(cold, ask(texts[len(texts)-1]))
	}
	for i, want := range cold {
		if got := ask(texts[i]); got != want {
			t.Errorf("request %d: %q when nothing of it was cached, then %q", i, want, got)
		}
	}
}

func TestFreshServersGiveSameAnswers(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{synth.Qwen3, synth.GPTOSS, synth.Llama} {
		t.Run(arch, func(t *testing.T) {
			answers := func(seed string) string {
				r := serveModel(t, "--model", shortModel(t, arch), "--max-new-tokens", "40", "--seed", seed)
				var all []string
				// Several inputs of different lengths, prepared by goroutines in any order.
				inputs := []input{user(1, "a").outputs(3).tools(moveTool)}
				for i := range 12 {
					inputs = append(inputs, user(int64(2+i), strings.Repeat("b ", 1+i*7%12)).outputs(1+i%3))
				}
				for _, o := range append(r.ask("same", inputs...), r.ask("next", user(2, "b").outputs(2))...) {
					step, err := protocol.DecodeInternalStep(o.InternalSteps[0])
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, answerOf(o)+" from "+step.OutputRaw)
				}
				r.stop()
				if err := r.end(); err != nil {
					t.Error(err)
				}
				return strings.Join(all, "\n")
			}
			first := answers("5")
			if again := answers("5"); again != first {
				t.Errorf("seed 5 gave\n%s\nthen\n%s", first, again)
			}
			if other := answers("6"); other == first {
				t.Error("seed 6 gave the answers of seed 5")
			}
		})
	}
}

func TestUnservableModelsAreNamed(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.gguf")
	writeFile(t, broken, "GGUF\x03\x00\x00\x00 and then nothing")
	text := filepath.Join(t.TempDir(), "text.gguf")
	writeFile(t, text, "not a model")
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"broken file":          {[]string{"--model", broken}, []string{broken, "complete GGUF file"}},
		"another file":         {[]string{"--model", text}, []string{text, "not a GGUF file"}},
		"none with GPT-OSS":    {[]string{"--model", tinyModel(t, synth.GPTOSS), "--quantization", "none"}, []string{"GPT-OSS", "--quantization auto"}},
		"none with Q8_0":       {[]string{"--model", tinyModel(t, synth.Qwen3), "--quantization", "none"}, []string{"Q8_0", "--quantization auto"}},
		"a device not there":   {[]string{"--device", "CUDA9"}, []string{"--device cuda9", "cpu"}},
		"a broken template":    {[]string{"--chat-template", "{% for %}"}, []string{"chat template"}},
		"one that raises":      {[]string{"--model-format", "template", "--chat-template", "{{ raise_exception('no chats') }}"}, []string{"chat template", "no chats"}},
		"one without an end":   {[]string{"--model-format", "template", "--chat-template", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"}, []string{"chat template", "MiB of stack"}},
		"context without room": {[]string{"--max-new-tokens", "40000"}, []string{"--max-new-tokens 40000", "--context-length"}},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			err := run(t.Context(), append(test.args, "--port", "0"), &log, &log)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not mention %q", err, part)
				}
			}
		})
	}
}

// TestLlamaCallsBehindTheTag: the token that may stand before calls is sampled though
// it is a control token, and what follows is calls that fit their tools.
func TestLlamaCallsBehindTheTag(t *testing.T) {
	spec, err := synth.Preset("tiny", synth.Llama)
	if err != nil {
		t.Fatal(err)
	}
	spec.Bias = maps.Clone(spec.Bias)
	maps.Copy(spec.Bias, map[string]float32{"<|python_tag|>": 40, "}": 20, ";": 20})
	path, err := synth.Cached("", spec)
	if err != nil {
		t.Fatal(err)
	}
	r := serveModel(t, "--model", path, "--debug", "repetition-stop=off", "--max-new-tokens", "1200")
	several := 0
	in := user(1, "go").outputs(16).tools(moveTool)
	in.Attributes = json.RawMessage(`{"known_robots": ["a", "b"]}`)
	for _, o := range r.ask("calls", in) {
		step, err := protocol.DecodeInternalStep(o.InternalSteps[0])
		if err != nil {
			t.Fatal(err)
		}
		if o.Output == nil || len(o.Output.ToolCalls) == 0 || !strings.HasPrefix(step.OutputRaw, `<|python_tag|>{"name": "move", "parameters": {"x": `) {
			t.Errorf("%q became %s", step.OutputRaw, answerOf(o))
			continue
		}
		if len(o.Output.ToolCalls) > 1 {
			several++
		}
	}
	if several == 0 {
		t.Error("no answer has several calls")
	}
}
