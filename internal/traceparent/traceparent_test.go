package traceparent

import (
	"net/http"
	"strings"
	"testing"
)

func TestOnlyValidTraceContextsArePassedOn(t *testing.T) {
	const id = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, c := range map[string]struct{ parent, state, wantParent, wantState string }{
		"none":               {},
		"with its state":     {id, "a=1", id, "a=1"},
		"a later version":    {"01" + id[2:] + "-new", "", "01" + id[2:] + "-new", ""},
		"version ff":         {"ff" + id[2:], "", "", ""},
		"upper case":         {strings.ToUpper(id), "", "", ""},
		"too short":          {id[:50], "a=1", "", ""},
		"a state too long":   {id, strings.Repeat("a", 513), id, ""},
		"a state by itself":  {"", "a=1", "", ""},
		"text in front":      {" " + id, "", "", ""},
		"a line of its own":  {id + "\n", "", "", ""},
		"a second parameter": {id + ",x", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := http.Header{}, http.Header{}
			if c.parent != "" {
				from.Set(headerParent, c.parent)
			}
			if c.state != "" {
				from.Set(headerState, c.state)
			}
			Set(With(t.Context(), from), to)
			if to.Get(headerParent) != c.wantParent || to.Get(headerState) != c.wantState {
				t.Errorf("got %v", to)
			}
		})
	}
}
