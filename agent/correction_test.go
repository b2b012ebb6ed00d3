package agent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent"
	"agentd/protocol"
)

func TestCorrections(t *testing.T) {
	a := newAgent(t, agent.Config{}, nil)
	g := &script{err: errors.New("the model must not be asked")}
	correct := func(t *testing.T, input string) []protocol.AgentOutput {
		t.Helper()
		req := request(t, input)
		plan, err := a.Prepare(req, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := plan.Completions; n != 0 {
			t.Errorf("%d sequences, want none", n)
		}
		return run(t, a, g, req)
	}
	step := func(t *testing.T, out protocol.AgentOutput) *protocol.InternalStep {
		t.Helper()
		if len(out.InternalSteps) != 1 {
			t.Fatalf("%d steps, want 1", len(out.InternalSteps))
		}
		s, err := protocol.DecodeInternalStep(out.InternalSteps[0])
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	t.Run("replace_say", func(t *testing.T) {
		outs := correct(t, `{"num_outputs":2,"extra_keys":{"coaching":{"kind":"replace_say","text":"Which one?"}},"memory":{"_qwen":{"version":1,"turns":{}}}}`)
		for _, out := range outs {
			if out.Output == nil || out.Output.Say != "Which one?" {
				t.Fatalf("%+v", out)
			}
			want := `{"history":[{"author":"USER","content":"Go"},{"author":"MODEL","content":"{\"say\": \"Which one?\", \"action\": {}}"}]}`
			if diff := cmp.Diff(want, string(out.Memory)); diff != "" {
				t.Error(diff)
			}
			s := step(t, out)
			if s.Origin != "coaching" || s.OutputRaw != `{"say": "Which one?", "action": []}` || !strings.Contains(s.FullPrompt, "Go") {
				t.Errorf("step %+v", s)
			}
			if _, ok := protocol.Get(s.InputElements, "generation"); ok {
				t.Error("a correction was not generated")
			}
		}
	})
	t.Run("replace_decision, whose tools and robots nobody looks at", func(t *testing.T) {
		out := correct(t, `{"extra_keys":{"coaching":{"kind":"replace_decision","decision":{"tool_calls":[{"name":"fly","arguments":{"n":1.0},"target_robot_name":"z"},{"name":"fly","arguments":{},"target_robot_name":"z"}]}}},`+tools+`}`)[0]
		want := &protocol.AgentDecision{ToolCalls: []protocol.ToolCall{
			{Name: "fly", Arguments: protocol.Raw(`{"n":1.0}`), TargetRobotName: "z"}, {Name: "fly", Arguments: protocol.Raw(`{}`), TargetRobotName: "z"}}}
		if diff := cmp.Diff(want, out.Output); diff != "" {
			t.Error(diff)
		}
		if want := `{"say": "", "action": [{"z": {"name": "fly", "arguments": {"n": 1.0}}}, {"z": {"name": "fly", "arguments": {}}}]}`; step(t, out).OutputRaw != want {
			t.Errorf("output_raw %s", step(t, out).OutputRaw)
		}
	})
	t.Run("of an input whose tools are unusable", func(t *testing.T) {
		out := correct(t, `{"tools":[{"x":1}],"extra_keys":{"coaching":{"kind":"replace_say","text":"x"}}}`)[0]
		if s := step(t, out); out.Output == nil || s.FullPrompt != "" || !strings.Contains(string(s.InputElements), `"tools":[{"x":1}]`) {
			t.Errorf("%+v", s)
		}
	})
}
