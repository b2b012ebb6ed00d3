package playbacktest

import (
	"testing"

	"agentd/household"
)

func TestPlaybackRepeatsTheLatestLesson(t *testing.T) {
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	says := func(e *household.Episode) string {
		t.Helper()
		out, err := e.Ask(t.Context(), m)
		if err != nil || out.Output == nil {
			t.Fatalf("got %+v, %v", out, err)
		}
		return out.Output.Say
	}
	e := household.New(1, household.Options{})
	if got := says(e); got != Untaught {
		t.Errorf("untaught it says %q", got)
	}
	for _, text := range []string{"One.", "Two."} {
		if err := m.Teach(t.Context(), e.Fork(), func(*household.Episode) (string, error) { return text, nil }); err != nil {
			t.Fatal(err)
		}
		if got := says(e); got != text {
			t.Errorf("taught %q it says %q", text, got)
		}
	}
	if got := says(household.New(2, household.Options{})); got != Untaught {
		t.Errorf("elsewhere it says %q", got)
	}
}
