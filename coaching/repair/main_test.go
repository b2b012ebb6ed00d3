package repair

import (
	"testing"

	"go.uber.org/goleak"

	"agentd/coaching/repair/internal/casetest"
	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load is the case of a request in testdata.
func load(t testing.TB, name string) *Case {
	t.Helper()
	return NewCase(casetest.Request(t, name))
}

// newCase is the case of a request's JSON.
func newCase(t testing.TB, body []byte) *Case {
	t.Helper()
	return NewCase(casetest.Decode(t, body))
}

// Check checks a decision for the point with an id.
func (c *Case) Check(id string, d *protocol.AgentDecision) protocol.Problems {
	return c.byID[id].Check(d)
}
