package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agentd/internal/base/waittest"
)

// TestPersonsAnswerSurvivesEveryCrash: the agent's server is killed while a person works,
// then the database, then the console.
func TestPersonsAnswerSurvivesEveryCrash(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, embedded(t)...)
	directory, port := t.TempDir(), fixedPort(t)
	startConsole := func() *running { return startProcessAt(t, port, "console", "--data-dir", directory) }
	console := startConsole()
	if status, answer, _ := c.send("PUT", session1, humanSession(console.url)); status != http.StatusNoContent {
		t.Fatalf("PUT: %d %s", status, answer)
	}
	answers := make(chan string, 1)
	go func() {
		status, answer, _ := c.send("POST", "/v1/coaching", coachingRequest(t, "c1"))
		answers <- fmt.Sprint(status, " ", answer)
	}()
	id := openTask(t, console)
	c.replace(0)
	c.database.Kill()
	c.database.Restart(t)
	console.kill()
	console = startConsole()
	var claim struct{ Claim string }
	until := func(path, body string, v any) {
		t.Helper()
		waittest.Eventually(t, path+" is answered", func() bool { return send(t, http.MethodPost, console.url+path, body, "", v) == http.StatusOK })
	}
	until("/api/tasks/"+id+"/claim", `{"person":"Ann"}`, &claim)
	until("/api/tasks/"+id+"/answer", fmt.Sprintf(`{"claim":%q,%s}`, claim.Claim, personCorrects), nil)
	if got := wait(t, "the answer", answers); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "The pantry is locked.") {
		t.Errorf("got %s", got)
	}
	var list struct{ Tasks []struct{ ID string } }
	if send(t, http.MethodGet, console.url+"/api/tasks?state=done", "", "", &list); len(list.Tasks) != 1 {
		t.Errorf("%d tasks, want one", len(list.Tasks))
	}
}
