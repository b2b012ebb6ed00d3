package scheduler

import (
	"strings"
	"testing"

	"agentd/llama/synth"
	"agentd/scheduler/generation"
)

func TestDistinctExcludesWhatChangesChoices(t *testing.T) {
	m := testModel(t, synth.Qwen3)
	e := newTestEngine(t, setup{})
	for name, change := range map[string]func(r *generation.Request){
		"a temperature":  func(r *generation.Request) { r.Temperature = 0.5 },
		"scores":         func(r *generation.Request) { r.Scores = true },
		"a fixed length": func(r *generation.Request) { r.IgnoreEnd = true },
		"stop texts":     func(r *generation.Request) { r.Stop = &generation.Stop{Texts: []string{"x"}} },
		"progress":       func(r *generation.Request) { r.Stream, r.Watch = true, func(generation.Event) {} },
	} {
		r := greedy(tokenize(t, m, story), 2, 8)
		r.Distinct = &generation.Distinct{Key: func(text string) (string, bool) { return text, true }}
		change(&r)
		if _, err := generate(t.Context(), e, r); err == nil || !strings.Contains(err.Error(), "Distinct excludes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlacementCountsAModelOnce: contexts of one model share its layers and weights, and have memory of their own.
func TestPlacementCountsAModelOnce(t *testing.T) {
	one := newTestEngine(t, setup{}).Placement()
	two := newTestEngine(t, setup{contexts: 2}).Placement()
	if len(one) == 0 || len(two) != len(one) {
		t.Fatalf("%v, with two contexts %v", one, two)
	}
	for i := range one {
		if a, b := one[i], two[i]; a.Layers < 1 || b.Layers != a.Layers || b.Weights != a.Weights || a.Weights == 0 || b.Memory != 2*a.Memory {
			t.Errorf("%+v, with two contexts %+v", a, b)
		}
	}
}
