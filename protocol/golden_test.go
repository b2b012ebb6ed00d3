package protocol

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestGoldenProblems compares whole 422 bodies with testdata/problems. Each
// command is a model's name and its input a body. Rewrite the expectations with
// go test ./protocol -run GoldenProblems -rewrite.
func TestGoldenProblems(t *testing.T) {
	datadriven.RunTest(t, "testdata/problems", func(t *testing.T, d *datadriven.TestData) string {
		for _, c := range codecs {
			if c.name != d.Cmd {
				continue
			}
			_, err := c.reencode([]byte(d.Input))
			if err == nil {
				return "accepted\n"
			}
			var ps Problems
			if !errors.As(err, &ps) {
				t.Fatal(err)
			}
			return string(ps.AppendBody(nil)) + "\n"
		}
		return fmt.Sprintf("no model %s\n", d.Cmd)
	})
}
