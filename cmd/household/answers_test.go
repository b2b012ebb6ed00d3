//go:build !race

package main

import (
	"testing"

	"agentd/agent"
	"agentd/cmd/household/eval"
	"agentd/household/dataset"
	"agentd/household/evaluate"
	"agentd/inference/defaultmodel"
	"agentd/inference/load"
	"agentd/llama"
)

// TestDefaultModelAnswersFit: the right decisions in the conversations by which
// the model is judged, in its own tokens, are well below the limit.
func TestDefaultModelAnswersFit(t *testing.T) {
	path, err := defaultmodel.Path("")
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.New(path, llama.SetVocabOnly(true), llama.SetDevices("cpu"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Free() }()
	a, err := dataset.NewAgent(agent.ConstrainOff)
	if err != nil {
		t.Fatal(err)
	}
	longest, decisions := "", 0
	most := 0
	for _, names := range []string{evaluate.Known, evaluate.Unseen} {
		o := evaluate.Options{ToolNames: names, Seed: 1}
		for i := range eval.DefaultConfig().Episodes {
			turns, err := dataset.Record(t.Context(), a, o.Episode(i), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, turn := range turns {
				tokens, err := m.Vocab().Tokenize(turn.Answer, false, true)
				if err != nil {
					t.Fatal(err)
				}
				if decisions++; len(tokens) > most {
					most, longest = len(tokens), turn.Answer
				}
			}
		}
	}
	t.Logf("the longest of %d decisions takes %d tokens, and the one that ends it:\n%s", decisions, most, longest)
	config := load.DefaultConfig()
	limit := config.MaxNewTokens()
	if most+1 > limit*2/3 {
		t.Errorf("%d tokens leave little room below %d", most, limit)
	}
}
