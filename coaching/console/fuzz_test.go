package console

import (
	"errors"
	"net/http"
	"testing"

	"agentd/protocol"
)

// FuzzBodies: any body of the people's API is taken or refused
// with a 422 that says why.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"person":"Ann","claim":"x"}`, `{"claim":"x","draft":{"a":[1.0]}}`, `{"point":"p0","n":3}`, `{"token":"t"}`,
		`{"claim":"x","status":"completed","point":"p0","decision":{"say":"Hi"}}`, `{"claim":"x","status":"skipped","reason":"r"}`,
		`{"point":"p0","decision":{"tool_calls":[{"name":"pick","arguments":{"object":1},"target_robot_name":"arm"}]}}`,
		`{"output":"{\"say\":\"Hi\",\"action\":{}}"}`, `{"decision":null,"output":null}`, "{\"person\":\"\xff\"}", `null`, `{"n":1e400}`,
	} {
		f.Add([]byte(seed))
	}
	request, err := protocol.DecodeHumanCoachingRequest([]byte(ours("r")))
	if err != nil {
		f.Fatal(err)
	}
	view := newTaskView(request)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, b := range []any{new(loginBody), new(claimBody), new(releaseBody), new(draftBody), new(checkBody), new(answerBody), new(candidatesBody)} {
			err := decode(raw, b)
			if err != nil {
				if f := asFailure(err); f.Status != http.StatusUnprocessableEntity || len(f.Problems) == 0 {
					t.Fatalf("%T: %v", b, err)
				}
				continue
			}
			if check, ok := b.(*checkBody); ok && check.malformed == nil {
				check.judge(view)
			}
		}
	})
}

// FuzzCorrection: a decision that passes the check reaches the agent as exactly
// that decision at exactly that point.
func FuzzCorrection(f *testing.F) {
	f.Add("p0", `{"say":"Hi"}`)
	f.Add("p1", `{"say":"{\"say\":\"inner\"}"}`)
	f.Add("p0", `{"say":"[1]"}`)
	f.Add("p0", `{"say":"`+"```json\\n{}\\n```"+`"}`)
	f.Add("p0", `{"tool_calls":[{"name":"pick","arguments":{"object":"cube"},"target_robot_name":"arm"}]}`)
	f.Add("p0", `{"tool_calls":[{"name":"pick","arguments":{"object":"\u0063ube"},"target_robot_name":"arm"},{"name":"pick","arguments":{"object":"b"},"target_robot_name":"arm"}]}`)
	request, err := protocol.DecodeHumanCoachingRequest([]byte(ours("r")))
	if err != nil {
		f.Fatal(err)
	}
	view := newTaskView(request)
	f.Fuzz(func(t *testing.T, point, raw string) {
		decision, err := protocol.DecodeAgentDecision([]byte(raw))
		if err != nil {
			return
		}
		b := correction{Point: point, decision: decision}
		output, problems := b.judge(view)
		if len(problems) > 0 {
			return
		}
		verdict, err := view.repair.ReadHuman(output)
		if err != nil || !verdict.Corrected || len(verdict.Proposals) != 1 {
			t.Fatalf("%s: %+v, %v", output, verdict, err)
		}
		want, got := protocol.CorrectionTo(decision).AppendJSON(nil), verdict.Proposals[0]
		if got.ReinjectionPointID != point || string(got.ExtraKeys) != string(want) {
			t.Fatalf("sent %s, arrived as %s at %s", want, got.ExtraKeys, got.ReinjectionPointID)
		}
	})
}

// FuzzTaskView: any payload can be shown, and a decision for it be checked.
func FuzzTaskView(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"tools_api":[]}`, `{"tools_api":{"a":{}}}`, `{"tools_api":[{"name":"a","parameters":{"x":{"type":"int"}}}],"task_attributes":{"known_robots":["r"]}}`,
		`{"coaching_request":` + coachingRequest + `}`, `{"coaching_request":1,"tools_api":1,"stage_goal":1,"run_id":[]}`,
	} {
		f.Add(seed, "FailureFixPayload")
	}
	f.Fuzz(func(t *testing.T, payload, payloadType string) {
		task := protocol.HumanCoachingRequest{RequestID: "r", PayloadType: payloadType, Payload: protocol.Raw(payload)}
		request, err := protocol.DecodeHumanCoachingRequest(task.AppendJSON(nil))
		if err != nil {
			var problems protocol.Problems
			if !errors.As(err, &problems) {
				t.Fatal(err)
			}
			return
		}
		view := newTaskView(request)
		if view.describe().Kind == "" {
			t.Fatal("no kind")
		}
		for i := range view.points {
			b := correction{Point: view.points[i].ID, decision: &protocol.AgentDecision{ToolCalls: []protocol.ToolCall{
				{Name: "a", Arguments: protocol.Raw(`{"x":1}`), TargetRobotName: "r"}}}}
			b.judge(view)
		}
	})
}
