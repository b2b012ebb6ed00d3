package check

import (
	"context"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// allDefects are single defects of a right server, of every part of the contract.
var allDefects = slices.Concat(requestDefects, answerDefects, correctionDefects, coachingDefects, httpDefects)

// foundBy runs the rules up to a level until one fails, and returns its id and level.
func foundBy(t *testing.T, d *defect, level string, only []string) (id, at string) {
	t.Helper()
	s := httptest.NewServer(d.serve(rightServer(t, false)))
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := Run(ctx, Config{URL: s.URL, Level: level, Only: only, Coaching: "auto"}, func(r *Result) {
		if r.Verdict == Fail && id == "" {
			id, at = r.ID, r.Level
			stop()
		}
	})
	if err != nil && id == "" { // it does not even declare itself
		return "start", Must
	}
	return id, at
}

// TestEachDefectIsFound at its level. With AGENTD_DEFECTS=all every rule runs, and the log has what finds each.
func TestEachDefectIsFound(t *testing.T) {
	var mu sync.Mutex
	found := map[string]int{}
	t.Run("defects", func(t *testing.T) {
		for _, d := range allDefects {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				if os.Getenv("AGENTD_DEFECTS") == "" {
					return
				}
				for _, level := range Levels[slices.Index(Levels, Must):] {
					if id, at := foundBy(t, d, level, nil); id != "" {
						mu.Lock()
						found[at]++
						mu.Unlock()
						if slices.Index(Levels, at) > slices.Index(Levels, d.level) {
							t.Errorf("MISSED %s at %s, found by %s (%s)", d.name, d.level, id, at)
						}
						t.Logf("FOUND %s by %s", d.name, id)
						return
					}
				}
				t.Errorf("MISSED %s at %s", d.name, d.level)
			})
		}
	})
	t.Logf("%d defects; found %v", len(allDefects), found)
	_ = strings.Join
}
