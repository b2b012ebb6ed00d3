package console

import (
	"net/http"
	"testing"
	"time"
)

func TestTaskGoesFromAgentToPersonAndBack(t *testing.T) {
	f := open(t)
	agent := f.post(foreign("r1"))

	list := f.tasks("open")
	if len(list) != 1 {
		t.Fatalf("%d open tasks", len(list))
	}
	got := list[0]
	if got.ID != "1" || got.Kind != "suboptimal" || got.PayloadType != "SuboptimalFixPayload" || got.RunID != "run-9" ||
		got.Stage != "Cube in box" || got.State != stateWaiting || !got.AgentWaiting || got.Outcome != nil || got.ClaimedBy != nil || got.HasDraft {
		t.Errorf("the list shows %+v", got)
	}
	claim := f.claimed("1", "Ann")
	f.post(foreign("r0"))
	f.clock.pass(time.Minute)
	var health struct {
		Open, Claimed int
		Oldest        int `json:"oldest_seconds"`
	}
	f.want(http.StatusOK, http.MethodGet, "/health?tasks", nil, &health)
	if health.Open != 2 || health.Claimed != 1 || health.Oldest != 60 {
		t.Errorf("the health has %+v", health)
	}
	f.want(http.StatusNoContent, http.MethodDelete, "/v1/coaching/requests/r0", nil, nil)
	if r := f.call(http.MethodGet, "/health", nil); string(r.body) != `{"status":"ready"}` {
		t.Errorf("without tasks the health is %s", r.body)
	}
	if got := f.tasks("open")[0]; got.State != stateClaimed || *got.ClaimedBy != "Ann" || !got.ClaimExpires.Equal(f.clock.now().Add(DefaultClaim-time.Minute)) {
		t.Errorf("after the claim the list shows %+v", got)
	}
	var c changed
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{
		"claim": claim, "status": "completed", "output": `{"say":"Hello","action":{}}`, "force_save_example": true}, &c)
	if c.Task.State != stateDone || !c.Task.EndedAt.Equal(f.clock.now()) || *c.Task.Outcome != "completed" || *c.Task.ClaimedBy != "Ann" {
		t.Errorf("the answered task is shown as %+v", c.Task)
	}
	answer := agent.answer()
	if answer.RequestID != "r1" || answer.Status != "completed" || *answer.Output != `{"say":"Hello","action":{}}` || !answer.ForceSaveExample {
		t.Errorf("the agent got %+v", answer)
	}
	if open, done := f.tasks("open"), f.tasks("done"); len(open) != 0 || len(done) != 2 {
		t.Errorf("%d open and %d done tasks", len(open), len(done))
	}
}

func TestLapsedClaimFreesTheTask(t *testing.T) {
	f := open(t)
	f.post(foreign("r1"))
	ann := f.claimed("1", "Ann")
	if r := f.call(http.MethodPost, "/api/tasks/1/claim", object{"person": "Bob"}); r.status != http.StatusConflict || r.detail() != "Ann is working on it" {
		t.Errorf("Bob got %d %s", r.status, r.detail())
	}
	f.clock.pass(DefaultClaim - time.Second)
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/claim", object{"person": "Ann", "claim": ann}, nil) // renewed
	f.clock.pass(DefaultClaim - time.Millisecond)
	if r := f.call(http.MethodPost, "/api/tasks/1/claim", object{"person": "Bob"}); r.status != http.StatusConflict {
		t.Errorf("before the end of the renewed claim Bob got %d", r.status)
	}
	f.clock.pass(time.Millisecond)
	if got := f.tasks("open")[0]; got.State != stateWaiting {
		t.Errorf("a lapsed claim is shown as %+v", got)
	}
	bob := f.claimed("1", "Bob")
	for path, body := range map[string]object{
		"claim":  {"person": "Ann", "claim": ann},
		"answer": {"claim": ann, "status": "skipped", "reason": "too late"},
	} {
		if r := f.call(http.MethodPost, "/api/tasks/1/"+path, body); r.status != http.StatusConflict {
			t.Errorf("Ann's lapsed claim: %s got %d %s", path, r.status, r.body)
		}
	}
	if r := f.call(http.MethodPut, "/api/tasks/1/draft", object{"claim": ann, "draft": object{}}); r.status != http.StatusConflict {
		t.Errorf("Ann's lapsed claim: draft got %d", r.status)
	}
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": bob, "status": "skipped", "reason": "no idea"}, nil)
}
