package main

import (
	"encoding/json"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// biasedModel is a tiny model that likes some tokens more than others.
func biasedModel(t *testing.T, bias map[string]float32) string {
	t.Helper()
	spec, err := synth.Preset("tiny", synth.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	spec.Bias = bias
	path, err := synth.Cached("", spec)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRepeatingCandidateEnds: with a reason that a person understands, in
// the error, in its internal step and in the metrics; or goes on where that is asked for.
func TestRepeatingCandidateEnds(t *testing.T) {
	t.Parallel()
	path := biasedModel(t, map[string]float32{" the": 60})
	const limited = "reached the limit of 70 new tokens"
	for name, tc := range map[string]struct {
		args            []string
		message, finish string
		tokens          string
	}{
		"by default":        {nil, `" the the the the the the the the" came four times in a row`, "repetition", "33"}, // a reply begins with no space
		"switched off":      {[]string{"--debug", "repetition-stop=off"}, limited, "length", "70"},
		"without a grammar": {[]string{"--debug", "constrain=off"}, "came four times in a row", "repetition", "32"},
	} {
		t.Run(name, func(t *testing.T) {
			r := serveModel(t, append([]string{"--model", path, "--max-new-tokens", "70"}, tc.args...)...)
			for _, o := range r.ask("again", user(1, "Say something.").outputs(2), user(2, "And more.").greedy()) {
				if o.Error == nil || o.Error.Code != "truncated" || !strings.Contains(o.Error.Message, tc.message) || string(o.Memory) != "{}" {
					t.Fatalf("%s", answerOf(o))
				}
				var step struct {
					Elements struct {
						Generation struct {
							Finish string      `json:"finish_reason"`
							Tokens json.Number `json:"completion_tokens"`
						} `json:"generation"`
					} `json:"input_elements"`
				}
				if err := json.Unmarshal(o.InternalSteps[0], &step); err != nil {
					t.Fatal(err)
				}
				if g := step.Elements.Generation; g.Finish != tc.finish || g.Tokens.String() != tc.tokens {
					t.Errorf("its step says %+v, want %s after %s tokens", g, tc.finish, tc.tokens)
				}
			}
			want := 0.0
			if tc.finish == "repetition" {
				want = 3
			}
			if got := r.metric("agentd_candidates_repeated_total"); got != want {
				t.Errorf("%v candidates are counted, want %v", got, want)
			}
			r.idle()
		})
	}
}

// TestRobotGetsOneCall: a model that prefers calls to an end calls each robot once,
// in every format, with forced and draft tokens; with any it calls some again, otherwise.
func TestRobotGetsOneCall(t *testing.T) {
	t.Parallel()
	path := biasedModel(t, map[string]float32{"<|im_end|>": -60, "<|endoftext|>": -60, "<tool_call>": 60})
	const tools = `[{"name":"go","description":"D","parameters":{"type":"object","properties":{"room":{"enum":["hall","kitchen"]}},"required":["room"]}},
		{"name":"wait","description":"D","parameters":{"type":"object","properties":{"reason":{"enum":["load","rain","people"]}},"required":["reason"]}}]`
	robots := `{"known_robots":["r1","r2","r10"]}`
	in := func(id int64) input {
		in := user(id, "Go everywhere.").tools(tools).outputs(12)
		in.Attributes = json.RawMessage(robots)
		return in
	}
	for name, args := range map[string][]string{
		"hermes":    nil,
		"blocks":    {"--model-format", "template", "--chat-template", "{{ messages | tojson }}"},
		"no forced": {"--debug", "forced-tokens=off", "--debug", "draft-rows=0"},
	} {
		for _, each := range []string{"one", "any"} {
			t.Run(name+", "+each, func(t *testing.T) {
				r := serveModel(t, append([]string{"--model", path, "--calls-per-robot", each, "--max-new-tokens", "700", "--debug", "repetition-stop=off"}, args...)...)
				several, twice := 0, 0
				for _, o := range r.ask("calls", in(1), in(2)) {
					if o.Error != nil {
						t.Fatalf("%s", answerOf(o))
					}
					seen := map[string]bool{}
					for _, c := range o.Output.ToolCalls {
						if seen[c.TargetRobotName] {
							twice++
						}
						seen[c.TargetRobotName] = true
					}
					if len(seen) > 1 {
						several++
					}
				}
				if several == 0 || (each == "one") != (twice == 0) {
					t.Errorf("%d decisions for several robots, %d calls again: the option says %s", several, twice, each)
				}
				r.idle()
			})
		}
	}
}

// TestRepeatedCallsAreNotAdmitted: where a robot may have several calls.
func TestRepeatedCallsAreNotAdmitted(t *testing.T) {
	path := biasedModel(t, map[string]float32{"<|im_end|>": -60, "<|endoftext|>": -60, "\n": 30, "<tool_call>": 60})
	r := serveModel(t, "--model", path, "--calls-per-robot", "any")
	in := user(1, "Wait.").tools(`[{"name":"wait","description":"D","parameters":{}}]`).outputs(3)
	in.Attributes = json.RawMessage(`{"known_robots":["arm"]}`)
	for _, o := range r.ask("again", in) {
		if o.Output == nil || len(o.Output.ToolCalls) != 1 {
			t.Errorf("%s", answerOf(o))
		}
	}
}
