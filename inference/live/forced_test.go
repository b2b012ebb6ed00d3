package live

import (
	"slices"
	"testing"

	"agentd/inference/load"
	"agentd/protocol"
	"agentd/scheduler"
)

// rawOutputs are the texts of an answer's model calls, with what ended them.
func rawOutputs(t *testing.T, o protocol.AgentOutput) (list []string) {
	t.Helper()
	for _, s := range o.InternalSteps {
		step, err := protocol.DecodeInternalStep(s)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, step.OutputRaw)
	}
	return list
}

// TestForcedTokensChangeNoDecision: outputs have the same bytes and number of tokens. Only steps
// with several rows round differently.
func TestForcedTokensChangeNoDecision(t *testing.T) {
	with := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1}}})
	without := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1}, NoForcedTokens: true}})
	inputs := conversations(t, with)
	a, b := inTurn(t, with, inputs), inTurn(t, without, inputs)
	differ := 0
	for i := range a {
		x, y := rawOutputs(t, a[i]), rawOutputs(t, b[i])
		if !slices.Equal(x, y) {
			differ++
			t.Logf("decision %d: %s, and without forced tokens %s", i, x, y)
		}
	}
	s, plain := with.Engine.Stats(), without.Engine.Stats()
	t.Logf("%d of %d answers differ; %d of %d tokens forced; %d steps, without %d", differ, len(a), s.ForcedTokens, s.GeneratedTokens, s.Steps, plain.Steps)
	if differ > tolerated {
		t.Errorf("%d of %d answers differ", differ, len(a))
	}
	if s.ForcedTokens*4 < s.GeneratedTokens || plain.ForcedTokens > 0 {
		t.Errorf("%d of %d tokens were forced, without %d", s.ForcedTokens, s.GeneratedTokens, plain.ForcedTokens)
	}
}
