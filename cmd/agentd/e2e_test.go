package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"agentd/llama/synth"
	"agentd/protocol"
)

const moveTool = `[{"name": "move", "description": "Moves a robot.", "parameters": {"x": {"type": "int", "description": "Metres."}}}]`

// eachModel runs a test against each native format, at both base paths, and through
// each engine. Qwen and Llama are configured by options, GPT-OSS by a configuration file.
func eachModel(t *testing.T, f func(t *testing.T, r *running)) {
	t.Run("qwen", func(t *testing.T) {
		serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--max-new-tokens", "24").atBoth(t, f)
	})
	t.Run("gpt-oss", func(t *testing.T) {
		config := filepath.Join(t.TempDir(), "agentd.json")
		text := fmt.Sprintf(`{"model": {"path": %q, "format": "harmony", "max_new_tokens": 64}}`, shortModel(t, synth.GPTOSS))
		writeFile(t, config, text)
		serveModel(t, "--config", config).atBoth(t, f)
	})
	t.Run("llama", func(t *testing.T) {
		serveModel(t, "--model", shortModel(t, synth.Llama), "--max-new-tokens", "64").atBoth(t, f)
	})
	for name, arch := range map[string]string{"qwen": synth.Qwen3, "gpt-oss": synth.GPTOSS, "llama": synth.Llama} {
		t.Run(name+" through llama-server", func(t *testing.T) {
			model := shortModel(t, arch)
			f(t, serveEngines(t, []string{llamaServer(t, model).url}, "--model", model, "--max-new-tokens", "64"))
		})
		t.Run(name+" through agentd", func(t *testing.T) {
			model := shortModel(t, arch)
			engine := serveModel(t, "--model", model, "--completions")
			f(t, serveEngines(t, []string{engine.url}, "--model", model, "--max-new-tokens", "64"))
		})
	}
}

// TestResponses is the specification's sections 2, 4 and 7 over HTTP. Each
// answer is also decoded strictly and validated against its request (ask).
func TestResponses(t *testing.T) { eachModel(t, responses) }

func responses(t *testing.T, r *running) {
	t.Run("one output for each candidate, in the order of inputs", func(t *testing.T) {
		outs := r.ask("batch", user(30, "a").outputs(3), user(-1, "b"), user(7, "c").outputs(2).greedy().tools(moveTool))
		var got []string
		for _, o := range outs {
			got = append(got, fmt.Sprintf("%s/%d/%d", o.RequestID, o.SourceID, o.CandidateIndex))
		}
		want := "batch/30/0 batch/30/1 batch/30/2 batch/-1/0 batch/7/0 batch/7/1"
		if strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
	t.Run("a completed candidate appends its turn, a failed one leaves the memory", func(t *testing.T) {
		memory := `{"zebra":1.50,"history":[{"author":"user","content":"\u0061","mood":"x"}],"memory_list":["Be kind."],"a":null}`
		completed := 0
		for _, o := range r.ask("memory", user(1, "hi").outputs(16).memory(memory)) {
			if o.Error != nil {
				if string(o.Memory) != memory {
					t.Errorf("a failed candidate's memory is %s", o.Memory)
				}
				continue
			}
			completed++
			before, after, _ := strings.Cut(memory, `"mood":"x"}`)
			if got := string(o.Memory); !strings.HasPrefix(got, before+`"mood":"x"},{"author":"USER","content":"hi"},{"author":"MODEL","content":`) ||
				!strings.HasSuffix(got, after) || count(t, o.Memory) != 3 {
				t.Errorf("a completed candidate's memory is %s", got)
			}
		}
		if completed == 0 {
			t.Error("no candidate completed; the test shows nothing")
		}
	})
	t.Run("an empty memory becomes a history and nothing else", func(t *testing.T) {
		for _, o := range r.ask("first", user(1, "hi").outputs(8)) {
			want := `{"history":[`
			if o.Error != nil {
				want = "{}"
			}
			if !strings.HasPrefix(string(o.Memory), want) || bytes.Contains(o.Memory, []byte("memory_list")) {
				t.Errorf("%s: memory is %s", o.Status, o.Memory)
			}
		}
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
	t.Run("deterministic candidates are equal, now and later", func(t *testing.T) {
		in := user(1, "Where is the cup?").outputs(4).greedy().tools(moveTool)
		before := r.metric("agentd_candidates_finished_total")
		first := r.ask("greedy", in)
		if n := r.metric("agentd_candidates_finished_total") - before; n != 1 {
			t.Errorf("%v generations for one deterministic input", n)
		}
		again := r.ask("greedy again", in)
		for i := range first {
			if answerOf(first[i]) != answerOf(first[0]) || answerOf(again[i]) != answerOf(first[0]) {
				t.Errorf("candidate %d: %s, later %s, want %s", i, answerOf(first[i]), answerOf(again[i]), answerOf(first[0]))
			}
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
	t.Run("unusable tools are errors of that input's candidates only", func(t *testing.T) {
		outs := r.ask("tools", user(1, "a").tools(`[{"description": "no name"}]`).outputs(2), user(2, "b").tools(moveTool), user(3, "c").tools(`[{"name":"x"},{"name":"x"}]`))
		for i, want := range []bool{true, true, false, true} {
			if got := outs[i].Error != nil && outs[i].Error.Code == "invalid_tools"; got != want {
				t.Errorf("output %d: %s", i, answerOf(outs[i]))
			}
		}
	})
	t.Run("a conversation continues from its memory", func(t *testing.T) { conversation(t, r) })
	t.Run("corrections need no model", func(t *testing.T) { corrections(t, r) })
	t.Run("input that the agent refuses", func(t *testing.T) { refused(t, r) })
}

// conversation feeds each completed turn's memory into the next request.
func conversation(t *testing.T, r *running) {
	memory := `{"memory_list":["Rule one."],"mine":{"n":1e2}}`
	turns := 0
	for attempt := 0; turns < 4; attempt++ {
		if attempt > 40 {
			t.Fatalf("only %d turns completed in %d attempts", turns, attempt)
		}
		in := user(int64(attempt), fmt.Sprintf("turn %d", turns)).memory(memory).outputs(4)
		if turns%2 == 1 {
			in.Instruction["type"] = "env"
		}
		for _, o := range r.ask(fmt.Sprintf("turn-%d-%d", turns, attempt), in) {
			if o.Error != nil {
				continue
			}
			turns++
			if n := count(t, o.Memory); n != 2*turns {
				t.Fatalf("after %d turns the history has %d entries: %s", turns, n, o.Memory)
			}
			if _, ok := protocol.Get(o.Memory, "mine"); !ok || !bytes.Contains(o.Memory, []byte(`"mine":{"n":1e2}`)) {
				t.Fatalf("another key was lost: %s", o.Memory)
			}
			memory = string(o.Memory)
			break
		}
	}
	for _, author := range []string{`{"author":"USER","content":"turn 0"}`, `{"author":"SYSTEM","content":"turn 1"}`} {
		if !strings.Contains(memory, author) {
			t.Errorf("the history lacks %s: %s", author, memory)
		}
	}
	if r.metric("agentd_prefix_cache_hits_total") == 0 {
		t.Error("no turn used the prefix cache")
	}
}

func corrections(t *testing.T, r *running) {
	before := r.metric("agentd_prompt_tokens_total")
	memory := `{"history":[{"author":"USER","content":"a"},{"author":"MODEL","content":"{\"say\": \"b\", \"action\": {}}"}],"x":1}`
	say := user(1, "hi").memory(memory).outputs(2).extra(`{"coaching": {"kind": "replace_say", "text": "Better \u00e9."}}`)
	call := user(2, "go").extra(`{"coaching": {"kind": "replace_decision", "decision": {"tool_calls": [{"name": "unknown tool", "arguments": {"x": 1.50}, "target_robot_name": "r9"}]}}}`)
	outs := r.ask("corrected", say, call)
	for i, o := range outs[:2] {
		if o.Error != nil || o.Output.Say != "Better é." || len(o.Output.ToolCalls) != 0 {
			t.Errorf("replace_say, candidate %d: %s", i, answerOf(o))
		}
		if count(t, o.Memory) != 4 || !strings.Contains(string(o.Memory), `Better é.`) || bytes.Contains(o.Memory, []byte("coaching")) {
			t.Errorf("replace_say, candidate %d: memory %s", i, o.Memory)
		}
		step, err := protocol.DecodeInternalStep(o.InternalSteps[0])
		if err != nil || step.Origin != "coaching" || len(o.InternalSteps) != 1 {
			t.Errorf("replace_say, candidate %d: steps %s, %v", i, o.InternalSteps, err)
		}
	}
	if o := outs[2]; o.Error != nil || o.Output.Say != "" || len(o.Output.ToolCalls) != 1 ||
		string(o.Output.ToolCalls[0].Arguments) != `{"x":1.50}` || o.Output.ToolCalls[0].TargetRobotName != "r9" {
		t.Errorf("replace_decision: %s", answerOf(outs[2]))
	} else if !strings.Contains(string(o.Memory), `{\"r9\": {\"name\": \"unknown tool\"`) && !strings.Contains(string(o.Memory), `r9`) {
		t.Errorf("replace_decision: memory %s", o.Memory)
	}

	for name, payload := range map[string]string{
		"unknown kind":     `{"kind": "replace_all"}`,
		"empty text":       `{"kind": "replace_say", "text": ""}`,
		"unknown field":    `{"kind": "replace_say", "text": "a", "more": 1}`,
		"both kinds":       `{"kind": "replace_decision", "decision": {"say": "a", "tool_calls": [{"name": "n", "arguments": {}, "target_robot_name": "r"}]}}`,
		"nameless call":    `{"kind": "replace_decision", "decision": {"tool_calls": [{"name": "", "arguments": {}, "target_robot_name": "r"}]}}`,
		"not an object":    `"replace_say"`,
		"decision missing": `{"kind": "replace_decision"}`,
	} {
		o := r.ask("bad correction", user(1, "hi").memory(memory).extra(`{"coaching": `+payload+`}`))[0]
		if name == "both kinds" && r.base == "/magma" {
			if want := `{"say":"","tool_calls":[{"name":"n","arguments":{},"target_robot_name":"r"}]}`; answerOf(o) != want || count(t, o.Memory) != 4 {
				t.Errorf("%s: %s, memory %s", name, answerOf(o), o.Memory)
			}
			continue
		}
		if o.Error == nil || o.Error.Code != "invalid_coaching" || len(o.InternalSteps) != 0 || count(t, o.Memory) != 2 {
			t.Errorf("%s: %s, memory %s", name, answerOf(o), o.Memory)
		}
	}
	if after := r.metric("agentd_prompt_tokens_total"); after != before {
		t.Errorf("corrections used the model: %v prompt tokens", after-before)
	}
	r.ask("no correction", user(1, "hi").extra(`{"coaching": null, "unknown": {"temperature": 9}}`))
	if after := r.metric("agentd_prompt_tokens_total"); after == before {
		t.Error("coaching: null counted as a correction")
	}
}

// refused checks 422 and its location for input that only the agent can judge.
func refused(t *testing.T, r *running) {
	for name, test := range map[string]struct {
		in  input
		loc string
	}{
		"history that is no list":        {user(1, "a").memory(`{"history": {}}`), `["body","inputs",1,"memory","history"`},
		"entry that is no object":        {user(1, "a").memory(`{"history": [1]}`), `["body","inputs",1,"memory","history",0`},
		"entry without content":          {user(1, "a").memory(`{"history": [{"author": "USER"}]}`), `["body","inputs",1,"memory","history",0`},
		"unknown author":                 {user(1, "a").memory(`{"history": [{"author": "CAT", "content": ""}]}`), `["body","inputs",1,"memory","history",0,"author"]`},
		"rule that is no string":         {user(1, "a").memory(`{"memory_list": ["x", 2]}`), `["body","inputs",1,"memory","memory_list",1]`},
		"summary that is no string":      {user(1, "a").memory(`{"summary": []}`), `["body","inputs",1,"memory","summary"]`},
		"inference_mode of another type": {user(1, "a").extra(`{"inference_mode": "true"}`), `["body","inputs",1,"extra_keys","inference_mode"]`},
		"inference_mode null":            {user(1, "a").extra(`{"inference_mode": null}`), `["body","inputs",1,"extra_keys","inference_mode"]`},
	} {
		text := body(t, "refused", user(0, "fine"), test.in)
		status, answer, err := exchange("POST", r.url+"/v1/responses", text)
		var shape struct {
			Detail []struct {
				Type, Msg string
				Loc       []any
			}
		}
		if err != nil || status != 422 || !strings.Contains(answer, `"loc":`+test.loc) || json.Unmarshal([]byte(answer), &shape) != nil || len(shape.Detail) == 0 {
			t.Errorf("%s: got %d %s, %v", name, status, answer, err)
		}
	}
}

func TestDeterministicAnswersIgnoreCache(t *testing.T) {
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
	for range 120 {
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
