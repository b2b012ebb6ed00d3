package core

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAdapterWaitsAtMostOneTurnOfEachOther while requests of all adapters arrive endlessly.
func TestAdapterWaitsAtMostOneTurnOfEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		adapters := rapid.IntRange(2, 4).Draw(t, "adapters")
		c := New(Config{
			Policy: Policy{MaxSequences: 8, BatchTokens: 16, MaxRunning: rapid.IntRange(1, 4).Draw(t, "running")},
			Cells:  200, MaxOutputs: 4, PartialCopy: true, Check: true,
		})
		next := RequestID(0)
		waits := map[RequestID][]AdapterID{} // the turns that began since it was submitted
		adapterOf := map[RequestID]AdapterID{}
		turn := AdapterID(-1)
		for range 60 {
			for range rapid.IntRange(0, 3).Draw(t, "arrivals") {
				next++
				id := AdapterID(rapid.IntRange(0, adapters-1).Draw(t, "adapter"))
				r := ask(next, []Token{1, 2, 3}, 1, 3)
				r.Adapter = id
				c.Submit(r)
				waits[next], adapterOf[next] = nil, id
			}
			plan := c.Plan()
			if len(plan.Rows) == 0 {
				continue
			}
			if plan.Adapter != turn {
				turn = plan.Adapter
				for id := range waits {
					waits[id] = append(waits[id], turn)
				}
			}
			for _, id := range plan.Started {
				others := slices.DeleteFunc(waits[id], func(a AdapterID) bool { return a == adapterOf[id] })
				slices.Sort(others)
				if len(slices.Compact(slices.Clone(others))) != len(others) {
					t.Fatalf("request %d of adapter %d waited for the turns of %v", id, adapterOf[id], others)
				}
				delete(waits, id)
			}
			c.Commit(StepDecoded, slices.Repeat([]Choice{{Tokens: []Token{4}}}, len(plan.Samples)))
		}
	})
}
