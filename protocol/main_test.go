package protocol

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/clip"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is one row of a table: a body, and the problems it must have as
// "type location", none when it is valid.
type row struct {
	name string
	body string
	want []string
}

// checkRules decodes every body and compares types and locations of problems.
func checkRules[T any](t *testing.T, decode func([]byte) (T, error), rules []row) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			_, err := decode([]byte(r.body))
			if diff := cmp.Diff(r.want, summary(t, err)); diff != "" {
				t.Errorf("body %s\nproblems (-want +got):\n%s", clip.Text(r.body, 500), diff)
			}
		})
	}
}

// summary is "type location" of every problem; err must be Problems or nil.
func summary(t *testing.T, err error) (lines []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	var ps Problems
	if !errors.As(err, &ps) || len(ps) == 0 {
		t.Fatalf("error is %T %v, want nonempty Problems", err, err)
	}
	for _, p := range ps {
		if p.Msg == "" || len(p.Loc) == 0 || p.Loc[0] != "body" {
			t.Errorf("problem %+v: needs a message and a location that starts with body", p)
		}
		loc := strings.TrimSuffix(Problem{Loc: p.Loc}.String(), ": ")
		lines = append(lines, fmt.Sprintf("%s %s", p.Type, loc))
	}
	return lines
}

// appender is a model that encodes itself.
type appender interface{ AppendJSON(dst []byte) []byte }

// problems is a list of expectations.
func problems(want ...string) []string { return want }

const instructionJSON = `"instruction":{"type":"user","content":"x"}`

// requestOf is a request with these inputs.
func requestOf(inputs ...string) string {
	return `{"request_id":"r","inputs":[` + strings.Join(inputs, ",") + `]}`
}

// inputWith is a request with one input that has these members besides id and
// instruction.
func inputWith(members string) string {
	if members != "" {
		members = "," + members
	}
	return requestOf(`{"id":1,` + instructionJSON + members + `}`)
}

// nested is levels arrays, one in another.
func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}
