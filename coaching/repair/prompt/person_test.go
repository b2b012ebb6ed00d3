package prompt

import (
	"strings"
	"testing"

	"agentd/agent/tools"
	"agentd/coaching/repair/internal/casetest"
	"agentd/protocol"
)

func TestHumanRequestMatchesGoldenFiles(t *testing.T) {
	for _, name := range []string{"failure", "suboptimal", "format"} {
		t.Run(name, func(t *testing.T) {
			task := load(t, name)
			req := HumanRequest(task, "h-1")
			again, err := protocol.DecodeHumanCoachingRequest(req.AppendJSON(nil))
			if err != nil {
				t.Fatal(err)
			}
			if again.RequestID != "h-1" || again.PayloadID != task.Request.TargetStepID || again.AllowForceSaveExample {
				t.Errorf("decoded as %+v", again)
			}
			coaching, _ := protocol.Get(again.Payload, "coaching_request")
			if got, want := string(coaching), string(task.Request.AppendJSON(nil)); got != want {
				t.Errorf("the request became %s", got)
			}
			casetest.Golden(t, name+".human", "==== "+req.PayloadType+"\n"+req.RenderedPrompt)
		})
	}
}

func TestLongRequestsReachPeopleToo(t *testing.T) {
	req := HumanRequest(newCase(t, longRun(3, 300_000, 1)), "h")
	if _, whole := protocol.Get(req.Payload, "coaching_request"); !whole {
		t.Error("the request does not travel along")
	}
	task := load(t, "failure")
	task.Request.Stage.Goal = strings.Repeat("g", maxPayloadRequest)
	req = HumanRequest(task, "h")
	if n := len(req.AppendJSON(nil)); n > protocol.MaxBodyBytes {
		t.Errorf("the task has %d bytes, more than its reader takes", n)
	}
}

func TestDeepRequestsReachPeopleToo(t *testing.T) {
	for _, member := range []string{"additional_info", "active_errors", "trajectory", "output"} {
		t.Run(member, func(t *testing.T) {
			body := load(t, "failure").Request.AppendJSON(nil)
			deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
			switch member {
			case "additional_info":
				body = protocol.SetMember(body, member, protocol.Raw(deep(protocol.MaxDepth-1)))
			case "active_errors":
				body = protocol.SetMember(body, member, protocol.Raw("["+deep(protocol.MaxDepth-2)+"]"))
			case "trajectory":
				body = []byte(strings.Replace(string(body), `{"status":"failed","seconds":1.5}`, deep(protocol.MaxDepth-3), 1))
			case "output":
				body = []byte(strings.Replace(string(body), `{"place":"kitchen"}`, deep(protocol.MaxDepth-6), 1))
			}
			if tools.Depth(body) != protocol.MaxDepth {
				t.Fatalf("the request is nested %d levels deep", tools.Depth(body))
			}
			req := HumanRequest(newCase(t, body), "h")
			if _, err := protocol.DecodeHumanCoachingRequest(req.AppendJSON(nil)); err != nil {
				t.Error(err)
			}
		})
	}
}
