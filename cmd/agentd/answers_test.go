package main

import (
	"testing"

	"agentd/defaultmodel"
	"agentd/defaultmodel/dataset"
	"agentd/defaultmodel/evaluate"
	"agentd/llama"
)

// TestTheDefaultModelsAnswersFit: the right decisions in the conversations by which
// the model is judged, in its own tokens, are well below the limit.
func TestTheDefaultModelsAnswersFit(t *testing.T) {
	path, err := defaultmodel.Path("")
	if err != nil {
		t.Fatal(err)
	}
	m, err := llama.New(path, llama.SetVocabOnly(true), llama.SetDevices("cpu"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Free() }()
	a, err := dataset.NewAgent()
	if err != nil {
		t.Fatal(err)
	}
	longest, decisions := "", 0
	most := 0
	for _, names := range []string{evaluate.Known, evaluate.Unseen} {
		o := evaluate.Options{ToolNames: names, Seed: 1}
		for i := range defaultEpisodes {
			turns, err := dataset.Record(t.Context(), a, o.Episode(i), dataset.Recording{})
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
	if most+1 > householdMaxNewTokens*2/3 {
		t.Errorf("%d tokens leave little room below %d", most, householdMaxNewTokens)
	}
}

func TestMaxNewTokensFitTheModel(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want int
	}{
		"the default model":     {nil, householdMaxNewTokens},
		"another model":         {[]string{"--model", "answers_test.go"}, defaultMaxNewTokens},
		"auto":                  {[]string{"--model", "answers_test.go", "--max-new-tokens", "auto"}, defaultMaxNewTokens},
		"a number":              {[]string{"--max-new-tokens", "7"}, 7},
		"a number and a model":  {[]string{"--model", "answers_test.go", "--max-new-tokens", "7"}, 7},
		"as much as by default": {[]string{"--max-new-tokens", "1024"}, 1024},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := load(t, "", nil, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.maxNewTokens(); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}
