package protocol

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeAgentOutputsRules(t *testing.T) {
	output := func(members string) string {
		return `[{"request_id":"r","source_id":1,"candidate_index":0,"memory":{},` + members + `}]`
	}
	completed := func(decision string) string { return output(`"status":"completed","output":` + decision) }
	call := func(members string) string { return completed(`{"tool_calls":[{` + members + `}]}`) }
	checkRules(t, DecodeAgentOutputs, []row{
		{"no candidates", `[]`, nil},
		{"completed", completed(`{"say":"x","tool_calls":[]}`), nil},
		{"completed with nulls", output(`"status":"completed","output":{},"error":null`), nil},
		{"error", output(`"status":"error","error":{"code":"c","message":"m","component":"p"},"internal_steps":[{}]`), nil},
		{"error with nulls", output(`"status":"error","output":null,"error":{"code":"c","message":"m","component":null}`), nil},

		{"deeper than a request", `[{"request_id":"r","source_id":1,"candidate_index":0,"status":"completed","output":{},"memory":{"a":` + nested(MaxResponseDepth-3) + `}}]`, nil},
		{"too deep", nested(MaxResponseDepth + 1), problems("json_invalid body[128]")},
		{"not a list", `{}`, problems("list_type body")},
		{"everything missing", `[{}]`, problems("missing body[0].request_id", "missing body[0].source_id",
			"missing body[0].candidate_index", "missing body[0].status", "missing body[0].memory")},
		{"status unknown", output(`"status":"ok"`), problems("literal_error body[0].status")},
		{"memory not an object", `[{"request_id":"r","source_id":1,"candidate_index":0,"memory":[],"status":"completed","output":{}}]`,
			problems("dict_type body[0].memory")},
		{"index negative", `[{"request_id":"r","source_id":1,"candidate_index":-1,"memory":{},"status":"completed","output":{}}]`,
			problems("greater_than_equal body[0].candidate_index")},
		{"completed without output", output(`"status":"completed"`), problems("value_error body[0].output")},
		{"completed with null output", output(`"status":"completed","output":null`), problems("value_error body[0].output")},
		{"error code and message empty", output(`"status":"error","error":{"code":"","message":""}`),
			problems("string_too_short body[0].error.code", "string_too_short body[0].error.message")},
		{"error code and message missing", output(`"status":"error","error":{}`),
			problems("missing body[0].error.code", "missing body[0].error.message")},
		{"internal step not an object", output(`"status":"completed","output":{},"internal_steps":[1]`), problems("dict_type body[0].internal_steps[0]")},
		{"internal_steps null", output(`"status":"completed","output":{},"internal_steps":null`), problems("list_type body[0].internal_steps")},

		{"empty decision", completed(`{}`), nil},
		{"say and tool_calls", completed(`{"say":"x","tool_calls":[{"name":"a","arguments":{},"target_robot_name":"b"}]}`), problems("value_error body[0].output")},
		{"say null", completed(`{"say":null}`), problems("string_type body[0].output.say")},
		{"tool_calls null", completed(`{"tool_calls":null}`), problems("list_type body[0].output.tool_calls")},
		{"tool call", call(`"name":"a","arguments":{"x":1.0},"target_robot_name":"b"`), nil},
		{"tool call empty", call(``), problems("missing body[0].output.tool_calls[0].name",
			"missing body[0].output.tool_calls[0].arguments", "missing body[0].output.tool_calls[0].target_robot_name")},
		{"tool call with empty names", call(`"name":"","arguments":{},"target_robot_name":""`),
			problems("string_too_short body[0].output.tool_calls[0].name", "string_too_short body[0].output.tool_calls[0].target_robot_name")},
		{"arguments null", call(`"name":"a","arguments":null,"target_robot_name":"b"`), problems("dict_type body[0].output.tool_calls[0].arguments")},
	})
}

// answer is a valid response to a request for 2 candidates of input 7 and 1 of
// input 3.
func answer() (*AgentRequest, []AgentOutput) {
	req := &AgentRequest{RequestID: "r", Inputs: []AgentInput{{ID: 7, NumOutputs: 2}, {ID: 3}}}
	return req, []AgentOutput{
		{RequestID: "r", SourceID: 7, CandidateIndex: 0, Status: StatusCompleted, Memory: Raw(`{"a":1}`), Output: &AgentDecision{Say: "x"}},
		{RequestID: "r", SourceID: 7, CandidateIndex: 1, Status: StatusError, Memory: Raw(`{}`), Error: &AgentError{Code: "c", Message: "m"}},
		{RequestID: "r", SourceID: 3, CandidateIndex: 0, Status: StatusCompleted, Memory: Raw(`{}`), InternalSteps: []Raw{Raw(`{"id":"step-0"}`)},
			Output: &AgentDecision{ToolCalls: []ToolCall{{Name: "pick", Arguments: Raw(`{"n":1.0}`), TargetRobotName: "arm"}}}},
	}
}

func TestValidateResponse(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(outs []AgentOutput) []AgentOutput
		want   []string
	}{
		{"complete and in order", func(o []AgentOutput) []AgentOutput { return o }, nil},
		{"a candidate is missing", func(o []AgentOutput) []AgentOutput { return o[:2] }, problems("value_error body")},
		{"no candidates", func([]AgentOutput) []AgentOutput { return nil }, problems("value_error body")},
		{"a candidate too many", func(o []AgentOutput) []AgentOutput { return append(o, o[2]) }, problems("value_error body")},
		{"inputs out of order", func(o []AgentOutput) []AgentOutput { return []AgentOutput{o[2], o[0], o[1]} }, problems(
			"value_error body[0].source_id", "value_error body[1].candidate_index", "value_error body[2].source_id", "value_error body[2].candidate_index")},
		{"candidates out of order", func(o []AgentOutput) []AgentOutput { return []AgentOutput{o[1], o[0], o[2]} }, problems(
			"value_error body[0].candidate_index", "value_error body[1].candidate_index")},
		{"request id of another request", func(o []AgentOutput) []AgentOutput { o[1].RequestID = "s"; return o }, problems("value_error body[1].request_id")},
		{"request id empty", func(o []AgentOutput) []AgentOutput { o[1].RequestID = ""; return o }, problems("string_too_short body[1].request_id")},
		{"index negative", func(o []AgentOutput) []AgentOutput { o[0].CandidateIndex = -1; return o }, problems(
			"greater_than_equal body[0].candidate_index", "value_error body[0].candidate_index")},
		{"completed without output", func(o []AgentOutput) []AgentOutput { o[0].Output = nil; return o }, problems("value_error body[0].output")},
		{"completed with error", func(o []AgentOutput) []AgentOutput { o[0].Error = o[1].Error; return o }, problems("value_error body[0].error")},
		{"error with output", func(o []AgentOutput) []AgentOutput { o[1].Output = o[0].Output; return o }, problems("value_error body[1].output")},
		{"error without error", func(o []AgentOutput) []AgentOutput { o[1].Error = nil; return o }, problems("value_error body[1].error")},
		{"status unknown", func(o []AgentOutput) []AgentOutput { o[0].Status = "done"; return o }, problems("literal_error body[0].status")},
		{"memory absent", func(o []AgentOutput) []AgentOutput { o[0].Memory = nil; return o }, problems("dict_type body[0].memory")},
		{"memory not an object", func(o []AgentOutput) []AgentOutput { o[0].Memory = Raw(`[]`); return o }, problems("dict_type body[0].memory")},
		{"internal step not an object", func(o []AgentOutput) []AgentOutput { o[2].InternalSteps = []Raw{Raw(`"x"`)}; return o }, problems("dict_type body[2].internal_steps[0]")},
		{"say and tool calls", func(o []AgentOutput) []AgentOutput { o[2].Output.Say = "x"; return o }, problems("value_error body[2].output")},
		{"tool without a name", func(o []AgentOutput) []AgentOutput { o[2].Output.ToolCalls[0].Name = ""; return o }, problems("string_too_short body[2].output.tool_calls[0].name")},
		{"tool without a robot", func(o []AgentOutput) []AgentOutput { o[2].Output.ToolCalls[0].TargetRobotName = ""; return o }, problems("string_too_short body[2].output.tool_calls[0].target_robot_name")},
		{"arguments not an object", func(o []AgentOutput) []AgentOutput { o[2].Output.ToolCalls[0].Arguments = Raw(`1`); return o }, problems("dict_type body[2].output.tool_calls[0].arguments")},
		{"error without code and message", func(o []AgentOutput) []AgentOutput { *o[1].Error = AgentError{}; return o }, problems(
			"string_too_short body[1].error.code", "string_too_short body[1].error.message")},
		{"extra candidates are checked too", func(o []AgentOutput) []AgentOutput { return append(o, AgentOutput{}) }, problems(
			"value_error body", "string_too_short body[3].request_id", "literal_error body[3].status", "dict_type body[3].memory")},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, outs := answer()
			if diff := cmp.Diff(c.want, summary(t, ValidateResponse(req, c.change(outs)))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResponseEncoding(t *testing.T) {
	req, outs := answer()
	want := `[{"request_id":"r","source_id":7,"candidate_index":0,"status":"completed","memory":{"a":1},"internal_steps":[],"output":{"say":"x","tool_calls":[]}},` +
		`{"request_id":"r","source_id":7,"candidate_index":1,"status":"error","memory":{},"internal_steps":[],"error":{"code":"c","message":"m"}},` +
		`{"request_id":"r","source_id":3,"candidate_index":0,"status":"completed","memory":{},"internal_steps":[{"id":"step-0"}],` +
		`"output":{"say":"","tool_calls":[{"name":"pick","arguments":{"n":1.0},"target_robot_name":"arm"}]}}]`
	if got := string(AgentOutputs(outs).AppendJSON(nil)); got != want {
		t.Errorf("AppendJSON makes\n%s, want\n%s", got, want)
	}
	decoded, err := DecodeAgentOutputs([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if err := ValidateResponse(req, decoded); err != nil {
		t.Error(err)
	}
	if got := string(AgentOutputs(nil).AppendJSON(nil)); got != "[]" {
		t.Errorf("an empty response is %s", got)
	}
}

func TestEncodingIsAlwaysValidUTF8(t *testing.T) {
	out := AgentOutputs([]AgentOutput{{RequestID: "r", Status: StatusCompleted, Output: &AgentDecision{Say: "a\xffb\x00"}}}).AppendJSON(nil)
	decoded, err := DecodeAgentOutputs(out)
	if err != nil {
		t.Fatal(err)
	}
	if got := decoded[0].Output.Say; got != "a\uFFFDb\x00" {
		t.Errorf("say became %q", got)
	}
}

func TestModelsMarshalInsideOtherValues(t *testing.T) {
	b, err := json.Marshal(map[string]any{"health": AgentHealth{Status: HealthReady}, "problem": Problems{NewProblem(TypeValue, "m", "a", 1)}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(b), `{"health":{"status":"ready"},"problem":[{"type":"value_error","loc":["body","a",1],"msg":"m"}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
