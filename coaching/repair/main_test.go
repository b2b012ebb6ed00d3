package repair

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/protocol"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files in testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load makes the task of a request in testdata.
func load(t testing.TB, name string) *Task {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return newTask(t, body)
}

func newTask(t testing.TB, body []byte) *Task {
	t.Helper()
	req, err := protocol.DecodeSpecializedCoachingRequest(body)
	if err != nil {
		t.Fatal(err)
	}
	return NewTask(req)
}

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); if it should, rewrite it with go test -rewrite:\n%s", path, diff)
	}
}
