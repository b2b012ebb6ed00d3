package protocol

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	stepJSON  = `{"id":1,"input":{"id":0,` + instructionJSON + `}}`
	pointJSON = `{"id":"p","input_step_id":1}`
)

// coachingWith is a coaching request with a member replaced, or added.
func coachingWith(member, value string) string {
	obj := Raw(`{"run_id":"run","request_id":"c","kind":"failure","stage":{"id":1,"goal":"g"},"target_step_id":1,` +
		`"trajectory":[` + stepJSON + `],"reinjection_points":[` + pointJSON + `]}`)
	if value == "" {
		return string(DeleteMember(obj, member))
	}
	return string(SetMember(obj, member, Raw(value)))
}

func TestDecodeSpecializedCoachingRequestRules(t *testing.T) {
	input := `{"id":0,` + instructionJSON + `}`
	checkRules(t, DecodeSpecializedCoachingRequest, []row{
		{"minimal", coachingWith("x", ""), nil},
		{"body not an object", `[]`, problems("dict_type body")},
		{"everything missing", `{}`, problems("missing body.run_id", "missing body.request_id", "missing body.kind", "missing body.stage",
			"missing body.target_step_id", "missing body.trajectory", "missing body.reinjection_points")},
		{"unknown field", coachingWith("x", "1"), problems("extra_forbidden body.x")},
		{"run_id empty", coachingWith("run_id", `""`), problems("string_too_short body.run_id")},
		{"request_id of a megabyte", coachingWith("request_id", `"`+strings.Repeat("i", 1<<20)+`"`), nil},
		{"request_id empty", coachingWith("request_id", `""`), problems("string_too_short body.request_id")},
		{"kind unknown", coachingWith("kind", `"other"`), problems("literal_error body.kind")},

		{"stage with a hint", coachingWith("stage", `{"id":1,"goal":"g","hint":"h"}`), nil},
		{"stage with a null hint", coachingWith("stage", `{"id":1,"goal":"g","hint":null}`), nil},
		{"stage without fields", coachingWith("stage", `{}`), problems("missing body.stage.id", "missing body.stage.goal")},
		{"stage id a string", coachingWith("stage", `{"id":"1","goal":"g"}`), problems("int_type body.stage.id")},
		{"stage null", coachingWith("stage", `null`), problems("dict_type body.stage")},
		{"stage with an unknown field", coachingWith("stage", `{"id":1,"goal":"g","x":1}`), problems("extra_forbidden body.stage.x")},

		{"active_errors of any shape", coachingWith("active_errors", `["a",1,null,{"x":1}]`), nil},
		{"active_errors null", coachingWith("active_errors", `null`), nil},
		{"active_errors not a list", coachingWith("active_errors", `{}`), problems("list_type body.active_errors")},
		{"diagnosis of any shape", coachingWith("diagnosis", `["a"]`), nil},
		{"diagnosis null", coachingWith("diagnosis", `null`), nil},
		{"additional_info null", coachingWith("additional_info", `null`), nil},
		{"additional_info not an object", coachingWith("additional_info", `[]`), problems("dict_type body.additional_info")},
		{"context", coachingWith("context", `{"active_errors":["a"],"diagnosis":"d","additional_info":{}}`), nil},
		{"context empty", coachingWith("context", `{}`), nil},
		{"context null", coachingWith("context", `null`), nil},
		{"context with an unknown field", coachingWith("context", `{"x":1}`), problems("extra_forbidden body.context.x")},
		{"context beside a field", coachingWith("context", `{},"diagnosis":1,"additional_info":{}`), problems("value_error body.diagnosis", "value_error body.additional_info")},
		{"context beside a null field", coachingWith("context", `{"diagnosis":"d"},"diagnosis":null`), nil},

		{"target unknown", coachingWith("target_step_id", `2`), problems("value_error body.target_step_id")},
		{"target not there, and a point refers to no step", strings.Replace(coachingWith("target_step_id", `"1"`), `"input_step_id":1`, `"input_step_id":9`, 1),
			problems("int_type body.target_step_id", "value_error body.reinjection_points[0].input_step_id")},
		{"steps that could not be read are not missed", strings.Replace(coachingWith("kind", `"failure"`), `"trajectory":[{"id":1,`, `"trajectory":[{"id":"1",`, 1),
			problems("int_type body.trajectory[0].id")},
		{"target 1.0", coachingWith("target_step_id", `1.0`), problems("int_type body.target_step_id")},
		{"trajectory empty", coachingWith("trajectory", `[]`), problems("value_error body.target_step_id", "value_error body.reinjection_points[0].input_step_id")},
		{"step ids twice", coachingWith("trajectory", `[`+stepJSON+`,`+stepJSON+`]`), problems("value_error body.trajectory[1].id")},
		{"step without fields", coachingWith("trajectory", `[`+stepJSON+`,{}]`), problems("missing body.trajectory[1].id", "missing body.trajectory[1].input")},
		{"step with everything", coachingWith("trajectory", `[{"id":1,"input":`+input+`,"output":{"say":"x"},"error":{"code":"c","message":"m"},"internal_steps":[{}],"execution":{"a":1}}]`), nil},
		{"step with nulls", coachingWith("trajectory", `[{"id":1,"input":`+input+`,"output":null,"error":null}]`), nil},
		{"step with a decision that says and calls", coachingWith("trajectory", `[{"id":1,"input":`+input+`,"output":{"say":"x","tool_calls":[{"name":"a","arguments":{},"target_robot_name":"b"}]}}]`),
			problems("value_error body.trajectory[0].output")},
		{"step with an invalid input", coachingWith("trajectory", `[{"id":1,"input":{"id":0,"instruction":{}}}]`),
			problems("missing body.trajectory[0].input.instruction.type", "missing body.trajectory[0].input.instruction.content")},
		{"step with null lists", coachingWith("trajectory", `[{"id":1,"input":`+input+`,"internal_steps":null,"execution":null}]`),
			problems("list_type body.trajectory[0].internal_steps", "dict_type body.trajectory[0].execution")},

		{"point with an input and a null reference", coachingWith("reinjection_points", `[{"id":"p","input":`+input+`,"input_step_id":null}]`), nil},
		{"point with both", coachingWith("reinjection_points", `[{"id":"p","input":`+input+`,"input_step_id":1}]`), problems("value_error body.reinjection_points[0]")},
		{"point with neither", coachingWith("reinjection_points", `[{"id":"p"}]`), problems("value_error body.reinjection_points[0]")},
		{"point with two nulls", coachingWith("reinjection_points", `[{"id":"p","input":null,"input_step_id":null}]`), problems("value_error body.reinjection_points[0]")},
		{"point refers to no step", coachingWith("reinjection_points", `[{"id":"p","input_step_id":9}]`), problems("value_error body.reinjection_points[0].input_step_id")},
		{"point ids twice", coachingWith("reinjection_points", `[`+pointJSON+`,`+pointJSON+`]`), problems("value_error body.reinjection_points[1].id")},
		{"point without an id", coachingWith("reinjection_points", `[{"input_step_id":1}]`), problems("missing body.reinjection_points[0].id")},
		{"point id not a string", coachingWith("reinjection_points", `[{"id":1,"input_step_id":1}]`), problems("string_type body.reinjection_points[0].id")},
	})
}

func TestCoachingContextFillsTheSameFields(t *testing.T) {
	const three = `"active_errors":["a"],"diagnosis":{"x":1.0},"additional_info":{"b":[]}`
	top, err := DecodeSpecializedCoachingRequest([]byte(coachingWith("stage", `"g",`+three)))
	if err != nil {
		t.Fatal(err)
	}
	below, err := DecodeSpecializedCoachingRequest([]byte(coachingWith("stage", `"g","context":{`+three+`}`)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(top, below); diff != "" {
		t.Errorf("context gives something else (-top +context):\n%s", diff)
	}
	if got := string(top.Diagnosis); got != `{"x":1.0}` {
		t.Errorf("diagnosis became %s", got)
	}
	if top.Stage.ID != nil || top.Stage.Goal != "g" {
		t.Errorf("stage is %+v", top.Stage)
	}
}

func TestUsualCoachingShapes(t *testing.T) {
	checkRules(t, func(b []byte) (*CoachingError, error) { return DecodeCoachingError(b) }, []row{
		{"error", `{"code":"c","description":"d","details":{"a":1}}`, nil},
		{"error without details", `{"code":"c","description":"d"}`, nil},
		{"error of another shape", `{"code":1}`, problems("string_type body.code", "missing body.description")},
		{"error a string", `"x"`, problems("dict_type body")},
	})
	checkRules(t, func(b []byte) (*CoachingDiagnosis, error) { return DecodeCoachingDiagnosis(b) }, []row{
		{"diagnosis", `{"explanation":"e","expected_decision":"d"}`, nil},
		{"diagnosis without a decision", `{"explanation":"e","expected_decision":null}`, nil},
		{"diagnosis of another shape", `{"x":1}`, problems("extra_forbidden body.x", "missing body.explanation")},
	})
}

func TestDecodeSpecializedCoachingResponseRules(t *testing.T) {
	res := func(members string) string { return `{"request_id":"c",` + members + `}` }
	const proposals = `"proposals":[{"reinjection_point_id":"p","extra_keys":{"kind":"replace_say","text":"x"}}]`
	checkRules(t, DecodeSpecializedCoachingResponse, []row{
		{"corrected", res(`"status":"corrected",` + proposals), nil},
		{"corrected with logs", res(`"status":"corrected","reason":null,"logs":[{"coaching_type":"fix_2","content":""}],` + proposals), nil},
		{"abandoned", res(`"status":"abandoned","reason":"r"`), nil},
		{"abandoned with empty lists", res(`"status":"abandoned","reason":"r","proposals":[],"logs":[]`), nil},
		{"error", res(`"status":"error","reason":"r"`), nil},
		{"everything missing", `{}`, problems("missing body.request_id", "missing body.status")},
		{"status unknown", res(`"status":"done"`), problems("literal_error body.status")},
		{"corrected without proposals", res(`"status":"corrected"`), problems("value_error body.proposals")},
		{"corrected with no proposals", res(`"status":"corrected","proposals":[]`), problems("value_error body.proposals")},
		{"abandoned without reason", res(`"status":"abandoned"`), problems("value_error body.reason")},
		{"error with an empty reason", res(`"status":"error","reason":""`), problems("value_error body.reason")},
		{"error with proposals", res(`"status":"error","reason":"r",` + proposals), problems("value_error body.proposals")},
		{"abandoned with proposals and no reason", res(`"status":"abandoned",` + proposals), problems("value_error body.proposals", "value_error body.reason")},
		{"proposal without fields", res(`"status":"corrected","proposals":[{}]`),
			problems("missing body.proposals[0].reinjection_point_id", "missing body.proposals[0].extra_keys")},
		{"log without fields", res(`"status":"error","reason":"r","logs":[{}]`), problems("missing body.logs[0].coaching_type", "missing body.logs[0].content")},
		{"log type with a capital", res(`"status":"error","reason":"r","logs":[{"coaching_type":"Fix","content":""}]`), problems("string_pattern_mismatch body.logs[0].coaching_type")},
		{"log type with a digit first", res(`"status":"error","reason":"r","logs":[{"coaching_type":"1a","content":""}]`), problems("string_pattern_mismatch body.logs[0].coaching_type")},
		{"log type empty", res(`"status":"error","reason":"r","logs":[{"coaching_type":"","content":""}]`), problems("string_pattern_mismatch body.logs[0].coaching_type")},
	})
}

func TestValidateCoachingResponse(t *testing.T) {
	req := &SpecializedCoachingRequest{RequestID: "c", ReinjectionPoints: []ReinjectionPoint{{ID: "p"}, {ID: "q"}}}
	proposal := func(point string) []CoachingProposal {
		return []CoachingProposal{{ReinjectionPointID: point, ExtraKeys: Raw(`{}`)}}
	}
	for _, c := range []struct {
		name string
		res  SpecializedCoachingResponse
		want []string
	}{
		{"corrected", SpecializedCoachingResponse{RequestID: "c", Status: CoachingCorrected, Proposals: proposal("q")}, nil},
		{"abandoned", SpecializedCoachingResponse{RequestID: "c", Status: CoachingAbandoned, Reason: "r"}, nil},
		{"error", SpecializedCoachingResponse{RequestID: "c", Status: CoachingFailed, Reason: "r", Logs: []CoachingLog{{CoachingType: "failure"}}}, nil},
		{"another request's id", SpecializedCoachingResponse{RequestID: "d", Status: CoachingFailed, Reason: "r"}, problems("value_error body.request_id")},
		{"unknown point", SpecializedCoachingResponse{RequestID: "c", Status: CoachingCorrected, Proposals: proposal("z")}, problems("value_error body.proposals[0].reinjection_point_id")},
		{"extra_keys absent", SpecializedCoachingResponse{RequestID: "c", Status: CoachingCorrected, Proposals: []CoachingProposal{{ReinjectionPointID: "p"}}}, problems("dict_type body.proposals[0].extra_keys")},
		{"corrected without proposals", SpecializedCoachingResponse{RequestID: "c", Status: CoachingCorrected}, problems("value_error body.proposals")},
		{"error without reason", SpecializedCoachingResponse{RequestID: "c", Status: CoachingFailed}, problems("value_error body.reason")},
		{"status unknown", SpecializedCoachingResponse{RequestID: "c", Status: "ok"}, problems("literal_error body.status")},
		{"log type", SpecializedCoachingResponse{RequestID: "c", Status: CoachingFailed, Reason: "r", Logs: []CoachingLog{{CoachingType: "A"}}}, problems("string_pattern_mismatch body.logs[0].coaching_type")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, summary(t, c.res.Validate(req))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCoachingResponseLeavesAbsentFieldsOut(t *testing.T) {
	for _, c := range []struct {
		res  SpecializedCoachingResponse
		want string
	}{
		{SpecializedCoachingResponse{RequestID: "c", Status: CoachingAbandoned, Reason: "r"}, `{"request_id":"c","status":"abandoned","reason":"r"}`},
		{SpecializedCoachingResponse{RequestID: "c", Status: CoachingCorrected, Proposals: []CoachingProposal{{ReinjectionPointID: "p", ExtraKeys: Raw(`{"a":1.0}`)}},
			Logs: []CoachingLog{{CoachingType: "format", Content: "# x"}}},
			`{"request_id":"c","status":"corrected","proposals":[{"reinjection_point_id":"p","extra_keys":{"a":1.0}}],"logs":[{"coaching_type":"format","content":"# x"}]}`},
	} {
		if got := string(c.res.AppendJSON(nil)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
