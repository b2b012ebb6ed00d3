package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/inference/defaultmodel"
	"agentd/llama"
	"agentd/protocol"
)

// ownTemplate is the default model's vocabulary and chat template, without its weights.
func ownTemplate(t *testing.T) (*llama.Vocab, *llama.Template) {
	t.Helper()
	path, err := defaultmodel.Path("")
	if err != nil {
		t.Fatal(err)
	}
	model, err := llama.New(path, llama.SetVocabOnly(true))
	if err != nil {
		t.Fatal(err)
	}
	template, err := model.NewTemplate("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		template.Close()
		if err := model.Free(); err != nil {
			t.Error(err)
		}
	})
	return model.Vocab(), template
}

// errand is a conversation whose attributes change. Its inputs ask for token ids.
func (r *running) errand(name, extra string, edit func(turn int, memory string) (edited, extra string)) (lines string, outs []protocol.AgentOutput) {
	memory := ""
	for i, report := range []string{
		"", "rover is in the kitchen. There: table, red cup.", "rover holds the red cup.", "rover is in the hall. There: shelf.", "The red cup is on the shelf.",
	} {
		keys := extra
		if memory != "" {
			memory, keys = edit(i, memory)
		}
		in := cup(memory).extra(keys)
		in.Attributes = fmt.Appendf(nil, `{"known_robots": ["rover", "scout"], "<step>": %d}`, i)
		if report != "" {
			in.Instruction = map[string]string{"type": "env", "content": report}
		}
		line, answers := r.exchanged(fmt.Sprintf("%s-%d", name, i), in)
		lines, outs, memory = lines+line, append(outs, answers...), string(answers[0].Memory)
	}
	return lines, outs
}

// TestRowsAreWhatTheModelWasGiven: the model's own template makes the prompt's tokens of the messages and tools of each
// row, also where the prompt went on with the tokens of the turn before.
func TestRowsAreWhatTheModelWasGiven(t *testing.T) {
	r := serveModel(t)
	const ids = `{"return": ["token_ids"], "inference_mode": true}`
	same := func(extra string) func(int, string) (string, string) {
		return func(_ int, memory string) (string, string) { return memory, extra }
	}
	var lines string
	var outs []protocol.AgentOutput
	for name, edit := range map[string]func(int, string) (string, string){
		"greedy": same(ids), "text": same(`{"inference_mode": true}`), "sampled": same(`{"return": ["token_ids"]}`),
		"an edited history": func(turn int, memory string) (string, string) {
			if turn == 2 {
				memory = strings.Replace(memory, "kitchen", "cellar", 1)
			}
			return memory, ids
		},
		"edited tokens": func(turn int, memory string) (string, string) {
			return strings.Replace(memory, `step\u003e\":1}`, `step\u003e\":7}`, 1), ids
		},
		"a correction": func(turn int, memory string) (string, string) {
			if turn == 2 {
				return memory, `{"coaching": {"kind": "replace_say", "text": "Which shelf?"}}`
			}
			return memory, ids
		},
	} {
		text, answers := r.errand(name, ids, edit)
		lines, outs = lines+text, append(outs, answers...)
	}
	path := filepath.Join(t.TempDir(), "exchanges.jsonl")
	writeFile(t, path, lines)

	vocab, template := ownTemplate(t)
	prompts := map[string][]llama.Token{}
	continued, differ := 0, 0
	for _, o := range outs {
		var step struct {
			Prompt   string `json:"full_prompt"`
			Elements struct {
				Generation struct {
					From    string        `json:"prompt_from"`
					Differs *int          `json:"prompt_differs_at"`
					IDs     []llama.Token `json:"prompt_token_ids"`
				} `json:"generation"`
			} `json:"input_elements"`
		}
		if err := json.Unmarshal(o.InternalSteps[0], &step); err != nil {
			t.Fatal(err)
		}
		if step.Elements.Generation.From == "tokens" {
			continued++
		}
		if step.Elements.Generation.Differs != nil {
			differ++
			continue
		}
		if prompts[o.RequestID] = step.Elements.Generation.IDs; prompts[o.RequestID] != nil {
			continue
		}
		var err error // it asked for no ids, or is a correction
		if prompts[o.RequestID], err = vocab.Tokenize(step.Prompt, false, true); err != nil {
			t.Fatal(err)
		}
	}
	rows, summary := exported(t, path)
	for _, text := range rows {
		var row struct {
			RequestID string            `json:"request_id"`
			Messages  []json.RawMessage `json:"messages"`
			Tools     json.RawMessage   `json:"tools"`
		}
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			t.Fatal(err)
		}
		list, err := json.Marshal(row.Messages[:len(row.Messages)-1])
		if err != nil {
			t.Fatal(err)
		}
		prompt, err := template.Render(fmt.Appendf(nil, `{"messages":%s,"tools":%s,"add_generation_prompt":true}`, list, row.Tools), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		got, err := vocab.Tokenize(prompt, false, true)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, prompts[row.RequestID]) {
			t.Errorf("%s: the row makes the prompt\n%s\nwhich is\n%s", row.RequestID, prompt, vocab.Detokenize(prompts[row.RequestID], true))
		}
	}
	if len(rows) != len(prompts) || len(rows) < 20 || continued < 12 || differ == 0 || !strings.Contains(summary, fmt.Sprintf("%d skipped: the prompt goes on with tokens", differ)) {
		t.Errorf("%d rows of %d prompts, %d of which go on with tokens; %d differ: %s", len(rows), len(outs), continued, differ, summary)
	}
}
