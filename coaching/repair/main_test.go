package repair

import (
	"testing"

	"go.uber.org/goleak"

	"agentd/coaching/repair/internal/casetest"
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
