package prompt

import (
	"testing"

	"go.uber.org/goleak"

	"agentd/coaching/repair/check"
	"agentd/coaching/repair/internal/casetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load is the case of a request in testdata.
func load(t testing.TB, name string) *check.Case {
	t.Helper()
	return check.New(casetest.Request(t, name))
}

// newCase is the case of a request's JSON.
func newCase(t testing.TB, body []byte) *check.Case {
	t.Helper()
	return check.New(casetest.Decode(t, body))
}
