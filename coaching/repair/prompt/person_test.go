package prompt

import (
	"encoding/json"
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
			var pretty strings.Builder
			e := json.NewEncoder(&pretty)
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			if err := e.Encode(json.RawMessage(protocol.DeleteMember(again.Payload, "coaching_request"))); err != nil {
				t.Fatal(err)
			}
			casetest.Golden(t, name+".human", "==== "+req.PayloadType+"\n"+req.RenderedPrompt+"==== payload without coaching_request\n"+pretty.String())
		})
	}
}

func TestLongRequestsReachPeopleToo(t *testing.T) {
	req := HumanRequest(newCase(t, longRun(3, 300_000, 1)), "h")
	steps, _ := protocol.Get(req.Payload, "trajectory_steps")
	if _, whole := protocol.Get(req.Payload, "coaching_request"); !whole || len(steps) > maxPayloadMember {
		t.Errorf("the request travels along: %v; beside it are %d bytes of steps", whole, len(steps))
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
