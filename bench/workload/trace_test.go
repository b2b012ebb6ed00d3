package workload

import "testing"

func TestHashDependsOnInputsOnly(t *testing.T) {
	trace := generate(t, small())
	before := hash(t, trace)
	for i := range trace.Turns {
		trace.Turns[i].Prompt, trace.Turns[i].Tokens, trace.Turns[i].Grammar = "p", []int32{1}, "g"
	}
	if hash(t, trace) != before {
		t.Error("the hash depends on the rendered prompts")
	}
	trace.Turns[3].Candidates++
	if hash(t, trace) == before {
		t.Error("the hash does not depend on the candidates")
	}
}
