// Package casetest gives the tests of repair and its parts coaching requests and
// golden files.
package casetest

import (
	"embed"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/protocol"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files in testdata")

//go:embed testdata
var requests embed.FS

// Request is a request of testdata: failure, suboptimal, format or own_input.
func Request(t testing.TB, name string) *protocol.SpecializedCoachingRequest {
	t.Helper()
	body, err := requests.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return Decode(t, body)
}

// Decode is a request from its JSON.
func Decode(t testing.TB, body []byte) *protocol.SpecializedCoachingRequest {
	t.Helper()
	req, err := protocol.DecodeSpecializedCoachingRequest(body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// Golden compares a text with a file in the testdata of the package under test.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); to accept it run go test -rewrite:\n%s", path, diff)
	}
}
