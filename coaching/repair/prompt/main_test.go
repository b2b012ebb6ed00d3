package prompt

import (
	"testing"

	"go.uber.org/goleak"

	"agentd/coaching/repair"
	"agentd/coaching/repair/internal/casetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load is the case of a request in testdata.
func load(t testing.TB, name string) *repair.Case {
	t.Helper()
	return repair.NewCase(casetest.Request(t, name))
}

// newCase is the case of a request's JSON.
func newCase(t testing.TB, body []byte) *repair.Case {
	t.Helper()
	return repair.NewCase(casetest.Decode(t, body))
}
