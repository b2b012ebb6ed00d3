package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agentd/internal/base/waittest"
	"agentd/protocol"
)

// openTask waits for a task at a console and returns its number.
func openTask(t *testing.T, console *running) string {
	t.Helper()
	var list struct{ Tasks []struct{ ID string } }
	waittest.Eventually(t, "the task comes", func() bool {
		send(t, http.MethodGet, console.url+"/api/tasks", "", "", &list)
		return len(list.Tasks) > 0
	})
	return list.Tasks[0].ID
}

// answerTask does what a person's page does; members are the answer's.
func answerTask(t *testing.T, console *running, id, members string) {
	t.Helper()
	var claim struct{ Claim string }
	if status := send(t, http.MethodPost, console.url+"/api/tasks/"+id+"/claim", `{"person":"Ann"}`, "", &claim); status != http.StatusOK {
		t.Fatalf("the claim got %d", status)
	}
	answer := fmt.Sprintf(`{"claim":%q,%s}`, claim.Claim, members)
	if status := send(t, http.MethodPost, console.url+"/api/tasks/"+id+"/answer", answer, "", nil); status != http.StatusOK {
		t.Fatalf("the answer got %d", status)
	}
}

const (
	personCorrects = `"status":"completed","point":"start","decision":{"say":"The pantry is locked.","tool_calls":[]}`
	personSkips    = `"status":"skipped","reason":"nobody can open it"`
)

// TestConsoleCoachesSessionsOfOtherProviders: the sessions name models only.
func TestConsoleCoachesSessionsOfOtherProviders(t *testing.T) {
	const declines = `{"why": "I do not know.", "outcome": "abandoned", "reinjection_point_id": "start", "decision": {"say": "", "tool_calls": []}}`
	const corrects = `{"why": "There is a door.", "outcome": "corrected", "reinjection_point_id": "start",
		"decision": {"say": "", "tool_calls": [{"name": "open", "arguments": "{\"door\":\"pantry\",\"bay\":1}", "target_robot_name": "arm"}]}}`
	for name, test := range map[string]struct {
		when   string
		model  string
		person string // "": people have nothing to do
		status string
		part   string // of the response
		asked  bool   // the model is
	}{
		"first, corrected":                   {"first", corrects, personCorrects, protocol.CoachingCorrected, "The pantry is locked.", false},
		"first, skipped":                     {"first", corrects, personSkips, protocol.CoachingAbandoned, "nobody can open it", false},
		"failed, where the model corrects":   {"failed", corrects, "", protocol.CoachingCorrected, `"door":"pantry"`, true},
		"failed, where the model declines":   {"failed", declines, personCorrects, protocol.CoachingCorrected, "The pantry is locked.", true},
		"failed, where all of them say no":   {"failed", declines, personSkips, protocol.CoachingAbandoned, "I do not know.; then: the person skipped the task: nobody can open it", true},
		"failed, where the model is no help": {"failed", "what?", personCorrects, protocol.CoachingCorrected, "The pantry is locked.", true},
	} {
		t.Run(name, func(t *testing.T) {
			console, model := startConsole(t, "--data-dir", t.TempDir()), newCoaches(t, test.model)
			r := startFake(t, ready(newFakeModel()), "--coach-human", console.url+",when="+test.when)
			r.expect(204, "", "PUT", session1, llmSession("openai", model.URL))
			body := coachingRequest(t, "c1")
			answer := r.later("/v1/coaching", body)
			if test.person != "" {
				answerTask(t, console, openTask(t, console), test.person)
			}
			got := wait(t, "the answer", answer)
			if !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"status":"`+test.status+`"`) || !strings.Contains(got, test.part) {
				t.Errorf("got %s", got)
			}
			if asked := model.seen() != ""; asked != test.asked {
				t.Errorf("the model was asked: %t", asked)
			}

			console.stop() // whoever asks now gets no answer from there
			if err := console.end(); err != nil {
				t.Error(err)
			}
			if again := wait(t, "the answer to the same request", r.later("/v1/coaching", body)); again != got {
				t.Errorf("posted again: %s\nbefore: %s", again, got)
			}
			r.expect(204, "", "DELETE", session1, "")
			_, page, err := exchange("GET", r.url+"/metrics", "")
			provider := "llm"
			if test.person != "" {
				provider = "human"
			}
			if line := fmt.Sprintf(`agentd_coaching_requests_total{kind="failure",provider=%q,status=%q} 2`, provider, test.status); err != nil || !strings.Contains(page, line) {
				t.Errorf("the metrics lack %s (%v)", line, err)
			}
		})
	}
}

func TestBackendsCoachWhenPeopleAreUnreachable(t *testing.T) {
	t.Parallel()
	model := newCoaches(t, `{"why": "no", "outcome": "corrected", "reinjection_point_id": "start", "decision": {"say": "It is locked.", "tool_calls": []}}`)
	r := startFake(t, ready(newFakeModel()), "--coach-human", "http://127.0.0.1:1?key="+coachKey) // nobody listens on this port
	r.expect(204, "", "PUT", session1, llmSession("openai", model.URL))
	res := r.coach(coachingRequest(t, "c1"))
	if res.Status != protocol.CoachingCorrected || !strings.Contains(res.Logs[0].Content, "cannot be reached") {
		t.Errorf("got %s", res.AppendJSON(nil))
	}
	for _, part := range []string{`"endpoint":"http://127.0.0.1:1","when":"first"`, "people coach every session", "human endpoint unreachable"} {
		if !strings.Contains(r.log.String(), part) {
			t.Errorf("the log lacks %s:\n%s", part, r.log)
		}
	}
	if strings.Contains(r.log.String()+string(res.AppendJSON(nil)), coachKey) {
		t.Error("a key is told")
	}
}

// TestPeopleCoachMagmaSessions, which can name models only.
func TestPeopleCoachMagmaSessions(t *testing.T) {
	console, model := startConsole(t, "--data-dir", t.TempDir()), newCoaches(t, "yes")
	r := startFake(t, ready(newFakeModel()), "--coach-human", console.url).at("/magma")
	r.expect(204, "", "PUT", session1, llmSession("openai", model.URL)) // which is called once
	answer := r.later("/v1/coaching", coachingRequest(t, "c1"))
	answerTask(t, console, openTask(t, console), personCorrects)
	if got := wait(t, "the answer", answer); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "The pantry is locked.") {
		t.Errorf("got %s", got)
	}
	r.expect(204, "", "DELETE", session1, "")
}
