package demo

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestDemoStartsServerWhereNoneAnswers(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, named := range []bool{false, true} {
		c := DefaultConfig()
		c.Remote.URL, c.Play.Tasks = gone.URL, 1
		var out, log strings.Builder
		err := c.play(t.Context(), named, &out, &log)
		if named && (err == nil || out.Len() > 0) {
			t.Errorf("with a URL of the user's: %v, %s", err, out.String())
		}
		if !named && (err != nil || !strings.Contains(out.String(), "Tasks done: 1 of 1.") || !strings.Contains(log.String(), gone.URL)) {
			t.Errorf("without one: %v, %s%s", err, out.String(), log.String())
		}
	}
}
