package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentd/llama/synth"
	"agentd/protocol"
)

// generationOf returns what an internal step reports about its generation.
type generationOf struct {
	PromptTokens int    `json:"prompt_tokens"`
	CachedTokens int    `json:"cached_tokens"`
	Finish       string `json:"finish_reason"`
}

// modelSteps are the internal steps of a candidate.
func modelSteps(t *testing.T, o protocol.AgentOutput) (steps []protocol.InternalStep, generations []generationOf) {
	t.Helper()
	for _, raw := range o.InternalSteps {
		step, err := protocol.DecodeInternalStep(raw)
		if err != nil {
			t.Fatal(err)
		}
		part, _ := protocol.Get(step.InputElements, "generation")
		var g generationOf
		if err := json.Unmarshal(part, &g); err != nil {
			t.Fatal(err)
		}
		steps, generations = append(steps, *step), append(generations, g)
	}
	return steps, generations
}

// TestHistoryOverBudgetIsSummarized over HTTP, by models of both families and the one inside agentd: a
// conversation grows until it is summarized, twice.
func TestHistoryOverBudgetIsSummarized(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		model  []string
		tokens string // of a summary; GPT-OSS's tiny one thinks first, letter by letter
	}{
		"the default model": {nil, "64"},
		"qwen":              {[]string{"--model", tinyModel(t, synth.Qwen3)}, "64"},
		"llama":             {[]string{"--model", tinyModel(t, synth.Llama)}, "64"},
		"gpt-oss":           {[]string{"--model", shortModel(t, synth.GPTOSS)}, "200"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--max-new-tokens", "64"}, test.model...)
			// How long prompts are depends on the vocabulary: the budget is what three turns need.
			probe := serveModel(t, args...)
			const report = "The red cup is on the table in the kitchen, the blue cup is in the office, and the door of the kitchen is open."
			spoken := func(n int) string {
				var turns []string
				for range n {
					turns = append(turns, `{"author":"USER","content":"`+report+`"}`, `{"author":"MODEL","content":"Noted."}`)
				}
				return `{"history":[` + strings.Join(turns, ",") + `],"mine":{"n":1e2}}`
			}
			_, probed := modelSteps(t, probe.ask("probe", user(1, report).memory(spoken(3)).greedy())[0])
			budget := fmt.Sprint(probed[0].PromptTokens + 20)

			r := serveModel(t, append([]string{"--agent", "history-summarized,budget=" + budget + ",max-tokens=" + test.tokens}, args...)...)
			if !strings.Contains(r.log.String(), `"budget":`+budget+`,"unit":"tokens","max_tokens":`+test.tokens) {
				t.Errorf("the log does not say what the agent summarizes by:\n%s", r.log)
			}
			memory, before, summaries, reused, last := spoken(2), 0, 0, 0, ""
			for turn := 0; summaries < 2; turn++ {
				if turn > 40 {
					t.Fatalf("%d summaries in %d turns, the last one %s", summaries, turn, last)
				}
				given := memory
				in := user(int64(turn), report).memory(given).outputs(6)
				outs := r.ask(fmt.Sprintf("turn %d", turn), in)
				last = answerOf(outs[0])
				steps, generations := modelSteps(t, outs[0])
				summarized := steps[0].Component == "summarizer"
				if summarized {
					summaries++
					if steps[0].ID != "step-0" || steps[0].Origin != "model" || len(steps) == 2 && (steps[1].ID != "step-1" || steps[1].Component != "commander") {
						t.Errorf("steps %+v", steps)
					}
					for _, o := range outs[1:] {
						if string(o.InternalSteps[0]) != string(outs[0].InternalSteps[0]) {
							t.Error("candidates of an input have different summaries")
						}
					}
					// The history is cached as the prompt of the turn before, but for the few tokens that begin an answer.
					if g := generations[0]; before > 0 && g.CachedTokens >= before-32 {
						reused++
					} else if before > 0 {
						t.Errorf("%d tokens of the summary's prompt of %d are from the cache, where the turn before had %d", g.CachedTokens, g.PromptTokens, before)
					}
				}
				answered := false
				for _, o := range outs {
					if o.Error != nil {
						if string(o.Memory) != given {
							t.Errorf("a failed candidate's memory is %s", o.Memory)
						}
						continue
					}
					if !strings.Contains(string(o.Memory), `"mine":{"n":1e2}`) {
						t.Errorf("another key was lost: %s", o.Memory)
					}
					text, _ := protocol.Get(o.Memory, "summary")
					// Whether a model without training writes a usable summary depends on how the CPU rounds. If not, the
					// newest entries stay, beside the two of this turn.
					cut, entries := strings.Contains(string(text), "no summary of them could be used"), count(t, o.Memory)
					if summarized && (entries != 2 && (!cut || entries > count(t, protocol.Raw(given))+1) || len(text) <= len(`""`)) {
						t.Errorf("a summarized memory is %s", o.Memory)
					}
					if !answered {
						answered, memory, before = true, string(o.Memory), generations[len(generations)-1].PromptTokens
					}
				}
				if !answered && summarized {
					summaries-- // it is asked again
				}
			}

			if reused == 0 {
				t.Error("no summary followed a turn; the test shows nothing of the prefix cache")
			}

			t.Run("a deterministic input is decided alike again", func(t *testing.T) {
				in := user(1, report).memory(spoken(4)).outputs(2).greedy()
				first, again := r.ask("a", in), r.ask("b", in)
				steps, _ := modelSteps(t, first[0])
				later, _ := modelSteps(t, again[1])
				if len(steps) == 0 || steps[0].Component != "summarizer" || len(steps) != len(later) {
					t.Fatalf("%d steps, then %d: %s", len(steps), len(later), answerOf(first[0]))
				}
				for i := range steps {
					if steps[i].OutputRaw != later[i].OutputRaw || steps[i].FullPrompt != later[i].FullPrompt {
						t.Errorf("step %d: %q, then %q", i, steps[i].OutputRaw, later[i].OutputRaw)
					}
				}
				if answerOf(first[0]) != answerOf(again[0]) || answerOf(first[0]) != answerOf(first[1]) || string(first[0].Memory) != string(again[1].Memory) {
					t.Errorf("%s, then %s", answerOf(first[0]), answerOf(again[0]))
				}
			})
			t.Run("the full-history agent goes on with the memory, and shows the summary", func(t *testing.T) {
				summary, _ := protocol.Get(protocol.Raw(memory), "summary")
				text, _ := protocol.Text(summary)
				steps, _ := modelSteps(t, probe.ask("full", user(1, report).memory(memory).greedy())[0])
				if len(steps) != 1 || steps[0].Component != "commander" || text == "" || !strings.Contains(steps[0].FullPrompt, text) {
					t.Errorf("%d steps, summary %q", len(steps), text)
				}
			})
			t.Run("inputs over the budget and others share a request", func(t *testing.T) {
				outs := r.ask("batch", user(1, report).memory(spoken(4)), user(2, report), user(3, report).memory(spoken(5)).greedy().outputs(2), user(4, strings.Repeat(report, 9)))
				for i, want := range []string{"summarizer", "commander", "summarizer", "summarizer", ""} {
					got := ""
					if steps, _ := modelSteps(t, outs[i]); len(steps) > 0 {
						got = steps[0].Component
					}
					if got != want {
						t.Errorf("output %d begins with %q, want %q: %s", i, got, want, answerOf(outs[i]))
					}
				}
				if e := outs[4].Error; e == nil || e.Code != "context_budget" || e.Component != "context_budget" || !strings.Contains(e.Message, "its budget is "+budget) {
					t.Errorf("an instruction over the budget: %s", answerOf(outs[4]))
				}
			})
		})
	}
}

func TestBudgetBeyondContextIsRefusedAtStart(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a budget beyond the context":     {[]string{"--agent", "budget=2000", "--context-length", "2048", "--max-new-tokens", "64"}, "--agent budget 2000"},
		"a summary that fills the budget": {[]string{"--agent", "budget=900,max-tokens=900"}, "--agent max-tokens 900"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			err := run(t.Context(), append(test.args, "--agent", "history-summarized", "--model", tinyModel(t, synth.Qwen3), "--port", "0"), &log, &log)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
