package prompt

import (
	"testing"

	"agentd/coaching/repair"
	"agentd/coaching/repair/internal/casetest"
	"agentd/protocol"
)

// FuzzQuestion checks that every valid request can be asked, within the budget,
// and be shown to a person.
func FuzzQuestion(f *testing.F) {
	for _, name := range []string{"failure", "suboptimal", "format", "own_input"} {
		f.Add(casetest.Request(f, name).AppendJSON(nil), 0)
		f.Add(casetest.Request(f, name).AppendJSON(nil), minBudget)
	}
	f.Fuzz(func(t *testing.T, body []byte, budget int) {
		req, err := protocol.DecodeSpecializedCoachingRequest(body)
		if err != nil {
			return
		}
		task := repair.NewCase(req)
		q := Question(task, budget)
		if !q.Schema.IsValid() || !q.Exact.IsValid() {
			t.Fatalf("schemas %s and %s", q.Schema, q.Exact)
		}
		if human := HumanRequest(task, "h"); len(human.AppendJSON(nil)) < protocol.MaxBodyBytes {
			if _, err := protocol.DecodeHumanCoachingRequest(human.AppendJSON(nil)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
