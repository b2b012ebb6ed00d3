package scheduler

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// Names follow Prometheus: counters, and only counters, end in _total.
func TestEachStatisticDeclaresItsMetric(t *testing.T) {
	seen := map[string]bool{}
	var visit func(reflect.Type)
	visit = func(s reflect.Type) {
		for i := range s.NumField() {
			f := s.Field(i)
			name := f.Tag.Get("metric")
			if name == "" {
				if f.Type.Kind() == reflect.Struct {
					visit(f.Type)
				} else if f.Name != "Requests" {
					t.Errorf("%s has no metric", f.Name)
				}
				continue
			}
			if f.Tag.Get("help") == "" {
				t.Errorf("%s has no help", f.Name)
			}
			counter := f.Type.Kind() == reflect.Uint64 || f.Type == reflect.TypeFor[time.Duration]()
			if strings.HasSuffix(name, "_total") != counter {
				t.Errorf("%s is %s, which has the name %s", f.Name, f.Type, name)
			}
			if name += f.Tag.Get("label"); seen[name] {
				t.Errorf("two fields have the metric %s", name)
			}
			seen[name] = true
		}
	}
	if visit(reflect.TypeFor[Stats]()); len(seen) < 40 {
		t.Errorf("%d metrics, want at least 40", len(seen))
	}
}

func TestStatsSumContextsButNotUsage(t *testing.T) {
	e := newTestEngine(t, setup{contexts: 2, cells: 256})
	mustGenerate(t, e, greedy(tokenize(t, e.model, "one"), 1, 2))
	mustGenerate(t, e, greedy(tokenize(t, e.model, "two"), 1, 2))
	all, contexts := e.Stats(), e.Contexts()
	if sum := contexts[0].GeneratedTokens + contexts[1].GeneratedTokens; all.GeneratedTokens != sum || sum == 0 {
		t.Errorf("%d generated tokens, by context %d", all.GeneratedTokens, sum)
	}
	if sum := contexts[0].Decode + contexts[1].Decode; all.Decode != sum || sum == 0 {
		t.Errorf("decode took %s, by context %s", all.Decode, sum)
	}
	if all.QueriedTokens != all.PromptTokens || all.KVCacheUsage != 0 || all.Cells != 2*contexts[0].Cells {
		t.Errorf("idle: %+v", all)
	}
	s := Stats{}
	s.Cells, s.ActiveCells = 8, 2
	if s.setUsage(); s.KVCacheUsage != 0.25 {
		t.Errorf("usage is %v, want 0.25", s.KVCacheUsage)
	}
}
