package evaluate

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/household"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden file")

// share is so many percent of a thousand.
func share(percent int) Share { return Share{10 * percent, 1000} }

// runOf is a run with the same share of right decisions of every kind.
func runOf(names, constraints string, valid, right, tasks int) Run {
	r := Run{ToolNames: names, Constraints: constraints, Result: Result{Episodes: 100, Valid: share(valid), Calls: share(right + 1), Right: share(right)}}
	for k := range r.Kinds {
		r.Kinds[k] = share(right)
	}
	if tasks > 0 {
		r.Tasks = share(tasks)
	}
	if valid < 100 {
		r.Errors = map[string]int{"truncated": 1, "invalid_output": 1000 - 10*valid - 1}
	}
	return r
}

// TestGoalsApplyToEachRun: the whole model's goals where tasks were
// measured, and only how far outputs are valid where not.
func TestGoalsApplyToEachRun(t *testing.T) {
	for name, test := range map[string]struct {
		run    Run
		missed []string // beginnings
	}{
		"all reached":                {runOf(Known, ConstraintsOn, 100, 95, 80), nil},
		"known names":                {runOf(Known, ConstraintsOn, 100, 94, 80), []string{"right decisions with known tool names, constraints on: 94.0 % of 1000, the goal is 95 %"}},
		"unseen names reached":       {runOf(Unseen, ConstraintsOn, 100, 85, 80), nil},
		"unseen names":               {runOf(Unseen, ConstraintsOn, 100, 84, 80), []string{"right decisions with unseen"}},
		"all missed":                 {runOf(Known, ConstraintsOn, 99, 94, 79), []string{"valid outputs", "right decisions", "tasks finished"}},
		"unconstrained":              {runOf(Known, ConstraintsOff, 98, 10, 0), nil},
		"unconstrained, missed":      {runOf(Known, ConstraintsOff, 97, 10, 0), []string{"valid outputs with known tool names, constraints off: 97.0 % of 1000, the goal is 98 %"}},
		"only unconstrained":         {runOf(Known, ConstraintsOff, 98, 94, 80), []string{"right decisions"}},
		"a server":                   {runOf(Known, ConstraintsUnknown, 98, 95, 80), nil},
		"nothing was measured of it": {Run{ToolNames: Known, Constraints: ConstraintsOn}, nil},
	} {
		r := Report{Runs: []Run{test.run}}
		r.Finish()
		ok := len(r.Missed) == len(test.missed)
		for i := range min(len(r.Missed), len(test.missed)) {
			ok = ok && strings.HasPrefix(r.Missed[i], test.missed[i])
		}
		if !ok {
			t.Errorf("%s: missed %q", name, r.Missed)
		}
	}
}

// TestSharesAreRoundedDown, so that what misses a goal does not look as if it reached it.
func TestSharesAreRoundedDown(t *testing.T) {
	for want, s := range map[string]Share{
		"none": {}, "0.0 % of 3": {0, 3}, "33.3 % of 3": {1, 3}, "66.6 % of 3": {2, 3}, "100.0 % of 3": {3, 3},
		"94.9 % of 100000": {94999, 100000}, "99.9 % of 100000": {99999, 100000}, "84.9 % of 1000": {849, 1000},
	} {
		if got := s.String(); got != want {
			t.Errorf("%d of %d is %q, want %q", s.Count, s.Of, got, want)
		}
	}
}

// TestTableShowsEveryRunWithItsGoals against a golden file.
func TestTableShowsEveryRunWithItsGoals(t *testing.T) {
	var got bytes.Buffer
	for _, r := range []Report{
		{Model: "A model", Seed: 1, Runs: []Run{
			runOf(Known, ConstraintsOn, 100, 96, 81), runOf(Unseen, ConstraintsOn, 100, 84, 80),
			runOf(Known, ConstraintsOff, 98, 95, 0), runOf(Unseen, ConstraintsOff, 100, 90, 0),
		}},
		{Model: "A server", Seed: 2, Runs: []Run{runOf(Known, ConstraintsUnknown, 100, 100, 100)}},
		{Model: "A model", Seed: 3, Interrupted: true, Runs: []Run{runOf(Known, ConstraintsOn, 100, 96, 81), {ToolNames: Unseen, Constraints: ConstraintsOn}}},
		{Interrupted: true, Runs: []Run{{ToolNames: Known, Constraints: ConstraintsOn}}},
	} {
		r.Finish()
		if err := r.WriteTable(&got); err != nil {
			t.Fatal(err)
		}
		got.WriteString("----\n")
	}
	file := filepath.Join("testdata", "table.golden")
	if *rewrite {
		if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
}

// TestJSONNamesEveryKind and keeps counts, from which machines compute.
func TestJSONNamesEveryKind(t *testing.T) {
	r := Report{Model: "A model", Seed: 1, Runs: []Run{runOf(Known, ConstraintsOn, 100, 96, 81)}}
	r.Finish()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Runs []struct {
			Right, Tasks Share
			Kinds        map[string]Share
			ToolNames    string `json:"tool_names"`
		}
		Missed []string
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	run := got.Runs[0]
	if run.Right != share(96) || run.Tasks != share(81) || run.ToolNames != Known || got.Missed == nil || len(run.Kinds) != household.Kinds {
		t.Errorf("got %s", raw)
	}
	for k := range household.Kind(household.Kinds) {
		if run.Kinds[k.String()] != share(96) {
			t.Errorf("no %s in %s", k, raw)
		}
	}
}
