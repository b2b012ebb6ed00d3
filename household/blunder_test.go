//go:build !race

package household

import (
	"math/rand/v2"
	"testing"

	"agentd/protocol"
)

// TestPlannerRecoversFromBlunders: with wrong calls among its own every
// task still ends with the right reply, and soon.
func TestPlannerRecoversFromBlunders(t *testing.T) {
	blunders := 0
	for seed := range uint64(400) {
		e := New(seed, Options{Split: Split(seed % 2)})
		r := rand.New(rand.NewPCG(seed, 1))
		for !e.Done() {
			d := e.Expected()
			if other, ok := e.Blunder(r); ok && r.IntN(4) == 0 {
				if Same(other, d) {
					t.Fatalf("seed %d: the blunder %v is right", seed, other)
				}
				d = other
				blunders++
			}
			e.Apply(d, protocol.Raw("{}"))
		}
		if s := e.Score(); s.Finished != s.Tasks || s.Decisions >= MaxDecisions {
			t.Errorf("seed %d: %+v", seed, s)
		}
	}
	if blunders < 200 {
		t.Errorf("only %d blunders: the rule was hardly tried", blunders)
	}
}
