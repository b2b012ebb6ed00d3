package repair

import (
	"testing"

	"agentd/protocol"
)

// checkVerdict checks the rules of every verdict on any input: it
// declines with a reason, or its proposals stand at supplied points, pass Check,
// are valid by protocol's rules, and come back from the wire as they went.
func checkVerdict(t *testing.T, task *Case, v *Verdict) {
	t.Helper()
	if !v.Corrected {
		if v.Why == "" || len(v.Proposals) > 0 {
			t.Fatalf("declined with the reason %q and %d proposals", v.Why, len(v.Proposals))
		}
		return
	}
	res := protocol.SpecializedCoachingResponse{RequestID: task.Request.RequestID, Status: protocol.CoachingCorrected, Proposals: v.Proposals}
	if err := res.Validate(task.Request); err != nil {
		t.Fatal(err)
	}
	if _, err := protocol.DecodeSpecializedCoachingResponse(res.AppendJSON(nil)); err != nil {
		t.Fatal(err)
	}
	for _, p := range v.Proposals {
		c, err := protocol.DecodeCorrection(p.ExtraKeys)
		if err != nil {
			t.Fatalf("%s: %v", p.ExtraKeys, err)
		}
		if got := string(c.AppendJSON(nil)); got != string(p.ExtraKeys) {
			t.Fatalf("%s came back as %s", p.ExtraKeys, got)
		}
		d := c.Corrected()
		if _, err := protocol.DecodeAgentDecision(d.AppendJSON(nil)); err != nil {
			t.Fatal(err)
		}
		if found := task.Check(p.ReinjectionPointID, &d); len(found) > 0 {
			t.Fatalf("%s: %v", p.ExtraKeys, found.All())
		}
		if again := protocol.CorrectionTo(&d).AppendJSON(nil); string(again) != string(p.ExtraKeys) {
			t.Fatalf("%s is proposed again as %s", p.ExtraKeys, again)
		}
	}
}

// seeds are answers and outputs that reach the readers' corners.
var seeds = []string{
	graspCup, "", "{}", "[]", `"text"`, "null", "```json\n" + graspCup, "x {a} " + graspCup + " y",
	`{'say': 'it\'s', 'action': {}}`, `{"say":"a","action":[{"rover":{"name":"look","arguments":{}}},{"rover":{"name":"go","arguments":{"place":"x"}}}]}`,
	`[{"name":"grasp","arguments":"{\"object\":\"cup\"}","robot":"rover"}]`, `{"outcome":"abandoned","why":"no"}`,
	`{"reinjection_point_id":1,"decision":{"tool_calls":[{"name":"go","arguments":{"place":"\ud83d\ude00","n":1e400},"target_robot_name":"arm_2"}]}}`,
	`{"reinjection_point_id":"here","decision":{"say":"\ud800"}}`,
	"<tool_call>{\"name\":\"look\",\"arguments\":{\"target_robot\":\"rover\"}}</tool_call>", "<tool_call><function=go><parameter=place>x</parameter><parameter=target_robot>rover</parameter></function></tool_call>",
	`<invoke name="grasp"><parameter name="object">cup</parameter><parameter name="force">3</parameter><parameter name="robot">rover</parameter></invoke>`,
	`<|channel|>commentary to=functions.go<|message|>{"place":"x","target_robot":"rover"}<|call|>`, "<think>a</think>Hello.",
}

func FuzzRead(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	task := load(f, "failure")
	f.Fuzz(func(t *testing.T, answer string) {
		v, err := task.Read(answer)
		if err == nil {
			checkVerdict(t, task, v)
		} else if err.Error() == "" {
			t.Fatal("an error without a text")
		}
	})
}

func FuzzReadHuman(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	task, own := load(f, "failure"), load(f, "own_input")
	f.Fuzz(func(t *testing.T, output string) {
		for _, task := range []*Case{task, own} {
			if v, err := task.ReadHuman(output); err == nil {
				checkVerdict(t, task, v)
			}
		}
	})
}

func FuzzWithoutModel(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, raw string, isOutput bool) {
		task := formatTask(t, raw)
		if !isOutput {
			task.Step().InternalSteps, task.Step().Error.Message = nil, raw
		}
		if v, err := task.WithoutModel(); err == nil {
			checkVerdict(t, task, v)
		}
	})
}
