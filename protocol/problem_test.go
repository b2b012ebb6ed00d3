package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProblemsAsErrors(t *testing.T) {
	one := Problems{NewProblem(TypeMissing, "is required", "inputs", 0, "id")}
	two := append(one[:1:1], NewProblem(TypeValue, "is wrong"))
	for _, c := range []struct {
		ps   Problems
		want string
		all  string
	}{
		{nil, "no problems", ""},
		{one, "body.inputs[0].id: is required", "body.inputs[0].id: is required"},
		{two, "body.inputs[0].id: is required (and 1 more)", "body.inputs[0].id: is required\nbody: is wrong"},
	} {
		if got := c.ps.Error(); got != c.want {
			t.Errorf("Error() = %q, want %q", got, c.want)
		}
		if got := c.ps.All(); got != c.all {
			t.Errorf("All() = %q, want %q", got, c.all)
		}
	}
	var ps Problems
	if err := fmt.Errorf("wrapped: %w", one); !errors.As(err, &ps) || len(ps) != 1 {
		t.Errorf("wrapped problems are %v", ps)
	}
}

func TestProblemsAtAnotherPlace(t *testing.T) {
	ps := Problems{NewProblem(TypeMissing, "m", "kind"), NewProblem(TypeValue, "n")}
	got := ps.At("inputs", 3, "extra_keys", "coaching")
	want := Problems{
		{TypeMissing, []any{"body", "inputs", 3, "extra_keys", "coaching", "kind"}, "m"},
		{TypeValue, []any{"body", "inputs", 3, "extra_keys", "coaching"}, "n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(NewProblem(TypeMissing, "m", "kind"), ps[0]); diff != "" {
		t.Errorf("the original changed: %s", diff)
	}
}

func TestErrorBodies(t *testing.T) {
	ps := Problems{NewProblem(TypeValue, `a "b" é`, "x", 0, int64(7))}
	if got, want := string(ps.AppendBody([]byte("<"))), `<{"detail":[{"type":"value_error","loc":["body","x",0,7],"msg":"a \"b\" é"}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := string(AppendErrorBody(nil, "no \x00\xff")), "{\"detail\":\"no \\u0000\uFFFD\"}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDecodeErrorBody(t *testing.T) {
	ps := Problems{NewProblem(TypeMissing, "m", "inputs", 0, "id")}
	detail, got := DecodeErrorBody(ps.AppendBody(nil))
	if diff := cmp.Diff(ps, got); diff != "" || detail != "" {
		t.Errorf("detail %q, problems:\n%s", detail, diff)
	}
	if detail, _ := DecodeErrorBody([]byte("\n<html><h1>502</h1></html>")); detail != "the answer is a page of HTML, of a proxy or another server" {
		t.Errorf("a page gives %q", detail)
	}
	if detail, got := DecodeErrorBody(AppendErrorBody(nil, "sentence")); detail != "sentence" || got != nil {
		t.Errorf("got %q, %v", detail, got)
	}
	for _, body := range []string{``, `{}`, `[]`, `{"detail":[]}`, `{"detail":null}`, `not JSON`} {
		if detail, got := DecodeErrorBody([]byte(body)); detail != body || got != nil {
			t.Errorf("%q gives %q, %v", body, detail, got)
		}
	}
}

// encoding/json and AppendJSON write the same, for addressable and other values.
func TestMarshalJSONIsAppendJSON(t *testing.T) {
	id := int64(1)
	input := AgentInput{ID: 1, Instruction: AgentInstruction{Type: InstructionUser, Content: "c"}, Memory: Raw(`{"a":1.0}`), NumOutputs: 2}
	call := ToolCall{Name: "n", Arguments: Raw(`{}`), TargetRobotName: "r"}
	decision := AgentDecision{ToolCalls: []ToolCall{call}}
	backend := NewCoachingBackend("b", BackendLocal)
	for _, model := range []struct {
		value any
		as    appender
	}{
		{AgentRequest{RequestID: "r"}, &AgentRequest{RequestID: "r"}},
		{input, &input},
		{AgentOutput{Status: "s"}, &AgentOutput{Status: "s"}},
		{decision, &decision},
		{call, &call},
		{AgentError{Code: "c", Component: "p"}, &AgentError{Code: "c", Component: "p"}},
		{InternalStep{ID: "i"}, &InternalStep{ID: "i"}},
		{AgentInfo{AgentID: "a"}, &AgentInfo{AgentID: "a"}},
		{AgentHealth{Status: "ready"}, &AgentHealth{Status: "ready"}},
		{CoachingSessionConfig{Provider: "human"}, &CoachingSessionConfig{Provider: "human"}},
		{backend, &backend},
		{SpecializedCoachingRequest{RunID: "r"}, &SpecializedCoachingRequest{RunID: "r"}},
		{CoachingStage{ID: &id, Goal: "g"}, &CoachingStage{ID: &id, Goal: "g"}},
		{CoachingStage{Goal: "g"}, &CoachingStage{Goal: "g"}},
		{TrajectoryStep{ID: 1, Input: input}, &TrajectoryStep{ID: 1, Input: input}},
		{ReinjectionPoint{ID: "p", InputStepID: &id}, &ReinjectionPoint{ID: "p", InputStepID: &id}},
		{CoachingError{Code: "c"}, &CoachingError{Code: "c"}},
		{CoachingDiagnosis{Explanation: "e"}, &CoachingDiagnosis{Explanation: "e"}},
		{SpecializedCoachingResponse{Status: "s"}, &SpecializedCoachingResponse{Status: "s"}},
		{CoachingProposal{ReinjectionPointID: "p"}, &CoachingProposal{ReinjectionPointID: "p"}},
		{CoachingLog{Content: "c"}, &CoachingLog{Content: "c"}},
		{ReplaceSay{Text: "t"}, &ReplaceSay{Text: "t"}},
		{ReplaceDecision{Decision: decision}, &ReplaceDecision{Decision: decision}},
		{HumanCoachingRequest{PayloadID: 1}, &HumanCoachingRequest{PayloadID: 1}},
		{HumanCoachingResponse{Error: "e"}, &HumanCoachingResponse{Error: "e"}},
	} {
		got, err := json.Marshal(model.value)
		if want := string(model.as.AppendJSON(nil)); err != nil || string(got) != want {
			t.Errorf("%T marshals to %s, %v; AppendJSON gives %s", model.value, got, err, want)
		}
	}
}
