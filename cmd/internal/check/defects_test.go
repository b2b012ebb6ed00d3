//go:build !race

package check

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var (
	every1  = flag.Bool("defects", false, "let every rule look for each defect, and count what is found")
	rewrite = flag.Bool("rewrite", false, "with -defects, record anew which rule finds each")
)

// allDefects are single defects of a right server, of every part of the contract.
var allDefects = slices.Concat(requestDefects, answerDefects, correctionDefects, coachingDefects, httpDefects)

// finders is the file with the rule that finds each defect.
const finders = "testdata/defects.txt"

// finder reads the rules that find defects.
func finder(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(finders)
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	by := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), "\t")
		by[name] = id
	}
	return by
}

// TestEachDefectIsFound at its level, by the rule that found it when all looked, or else by any. The race detector,
// which takes ten times as long, sees every rule in TestRightServerPassesEveryRule.
func TestEachDefectIsFound(t *testing.T) {
	by := finder(t)
	found, lines := map[string]int{}, []string(nil)
	for _, d := range allDefects {
		t.Run(d.name, func(t *testing.T) {
			var only []string
			if id := by[d.name]; !*every1 && id != "start" && !strings.HasPrefix(id, "always/") {
				only = []string{id}
			}
			id, at := "", ""
			for i, level := range Levels {
				if id == "" && (*every1 || i == slices.Index(Levels, d.level)) {
					id, at = foundBy(t, d, level, only)
				}
			}
			if id == "" && only != nil { // what comes before the rule makes a difference
				id, at = foundBy(t, d, d.level, nil)
			}
			if id == "" || slices.Index(Levels, at) > slices.Index(Levels, d.level) {
				t.Errorf("not found at the level %s, but by %q (%s)", d.level, id, at)
			}
			found[at]++
			lines = append(lines, fmt.Sprintf("%s\t%s\n", d.name, id))
		})
	}
	t.Logf("%d defects; found %v", len(allDefects), found)
	if slices.Sort(lines); *rewrite && *every1 {
		if err := os.WriteFile(finders, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRightServersPass whatever they do in another way.
func TestRightServersPass(t *testing.T) {
	for _, v := range rightServers {
		t.Run(v.name, func(t *testing.T) {
			report, err := Run(t.Context(), Config{URL: v.start(t), Level: Should, Coaching: "auto"}, func(r *Result) {
				if r.Verdict == Fail {
					t.Errorf("%s: %s", r.ID, r.Seen)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := report.Count(func(x *Result) bool { return x.Verdict == Pass }); n < 200 {
				t.Errorf("%d rules pass: %s", n, report.Summary())
			}
		})
	}
}
