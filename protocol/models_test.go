package protocol

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeAgentHealthRules(t *testing.T) {
	checkRules(t, DecodeAgentHealth, []row{
		{"ready", `{"status":"ready"}`, nil},
		{"loading", `{"status":"loading"}`, nil},
		{"draining", `{"status":"draining"}`, nil},
		{"stuck", `{"status":"stuck: context 0, context 2"}`, nil},
		{"stuck without a context", `{"status":"stuck"}`, problems("literal_error body.status")},
		{"another status", `{"status":"ok"}`, problems("literal_error body.status")},
		{"no status", `{}`, problems("missing body.status")},
		{"unknown field", `{"status":"ready","x":1}`, problems("extra_forbidden body.x")},
	})
}

func TestDecodeAgentInfoRules(t *testing.T) {
	info := func(members string) string { return `{"agent_id":"a","agent_version":"1",` + members + `}` }
	checkRules(t, DecodeAgentInfo, []row{
		{"minimal", info(`"capabilities":{"inference":true}`), nil},
		{"everything", info(`"capabilities":{"inference":true,"coaching":true},"protocol_version":"2.0","specialized_coaching":["failure","suboptimal","format"],"coaching_resume":true,"coaching_session_version":"1"`), nil},
		{"nulls of optional fields", info(`"capabilities":{},"coaching_session_version":null,"coaching_unavailable_reason":null`), nil},
		{"everything missing", `{}`, problems("missing body.agent_id", "missing body.agent_version", "missing body.capabilities")},
		{"capability not a boolean", info(`"capabilities":{"inference":"yes"}`), problems("bool_type body.capabilities.inference")},
		{"kind unknown", info(`"capabilities":{},"specialized_coaching":["failure","x"]`), problems("literal_error body.specialized_coaching[1]")},
		{"protocol_version null", info(`"capabilities":{},"protocol_version":null`), problems("string_type body.protocol_version")},
		{"coaching_resume null", info(`"capabilities":{},"coaching_resume":null`), problems("bool_type body.coaching_resume")},
	})
}

func TestAgentInfoDefaults(t *testing.T) {
	got, err := DecodeAgentInfo([]byte(`{"agent_id":"a","agent_version":"1","capabilities":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &AgentInfo{ProtocolVersion: "2.0", AgentID: "a", AgentVersion: "1", Capabilities: map[string]bool{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAgentInfoValidate(t *testing.T) {
	coached := func() *AgentInfo {
		return &AgentInfo{ProtocolVersion: Version, AgentID: "a", AgentVersion: "1", Capabilities: map[string]bool{"inference": true, "coaching": true},
			SpecializedCoaching: CoachingKinds(), CoachingResume: true, CoachingSessionVersion: CoachingSessionVersion}
	}
	switchedOff := func() *AgentInfo {
		return &AgentInfo{ProtocolVersion: Version, AgentID: "a", AgentVersion: "1", Capabilities: map[string]bool{"inference": true, "coaching": false},
			CoachingResume: true, CoachingUnavailableReason: "switched off"}
	}
	for _, c := range []struct {
		name   string
		info   *AgentInfo
		change func(*AgentInfo)
		want   []string
	}{
		{"with coaching", coached(), func(*AgentInfo) {}, nil},
		{"coaching switched off", switchedOff(), func(*AgentInfo) {}, nil},
		{"inference only", switchedOff(), func(i *AgentInfo) { i.CoachingUnavailableReason, i.CoachingResume = "", false }, nil},
		{"inference not advertised", coached(), func(i *AgentInfo) { delete(i.Capabilities, "inference") }, problems("missing body.capabilities.inference")},
		{"reason while coaching", coached(), func(i *AgentInfo) { i.CoachingUnavailableReason = "x" }, problems("value_error body.coaching_unavailable_reason")},
		{"no session version while coaching", coached(), func(i *AgentInfo) { i.CoachingSessionVersion = "" }, problems("value_error body.coaching_session_version")},
		{"session version without coaching", switchedOff(), func(i *AgentInfo) { i.CoachingSessionVersion = "1" }, problems("value_error body.coaching_session_version")},
		{"kinds without coaching", switchedOff(), func(i *AgentInfo) { i.SpecializedCoaching = CoachingKinds() }, problems("value_error body.specialized_coaching")},
		{"unknown kind", coached(), func(i *AgentInfo) { i.SpecializedCoaching = []string{"x"} }, problems("literal_error body.specialized_coaching[0]")},
		{"no names", coached(), func(i *AgentInfo) { i.ProtocolVersion, i.AgentID, i.AgentVersion = "", "", "" },
			problems("string_too_short body.protocol_version", "string_too_short body.agent_id", "string_too_short body.agent_version")},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change(c.info)
			if diff := cmp.Diff(c.want, summary(t, c.info.Validate())); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeCorrectionRules(t *testing.T) {
	checkRules(t, func(b []byte) (Correction, error) { return DecodeCorrection(b) }, []row{
		{"replace_say", `{"kind":"replace_say","text":"x"}`, nil},
		{"replace_say, kind last", `{"text":"x", "kind":"replace_say"}`, nil},
		{"replace_say, kind escaped", `{"k\u0069nd":"replace\u005fsay","text":"x"}`, nil},
		{"replace_decision", `{"kind":"replace_decision","decision":{"tool_calls":[{"name":"a","arguments":{},"target_robot_name":"b"}]}}`, nil},
		{"replace_decision with an empty decision", `{"kind":"replace_decision","decision":{}}`, nil},
		{"not an object", `"x"`, problems("dict_type body")},
		{"null", `null`, problems("dict_type body")},
		{"no kind", `{"text":"x"}`, problems("missing body.kind")},
		{"kind not a string", `{"kind":1,"text":"x"}`, problems("string_type body.kind")},
		{"kind unknown", `{"kind":"replace","text":"x"}`, problems("literal_error body.kind")},
		{"text missing", `{"kind":"replace_say"}`, problems("missing body.text")},
		{"text empty", `{"kind":"replace_say","text":""}`, problems("string_too_short body.text")},
		{"text null", `{"kind":"replace_say","text":null}`, problems("string_type body.text")},
		{"unknown field", `{"kind":"replace_say","text":"x","decision":{}}`, problems("extra_forbidden body.decision")},
		{"decision missing", `{"kind":"replace_decision"}`, problems("missing body.decision")},
		{"decision null", `{"kind":"replace_decision","decision":null}`, problems("dict_type body.decision")},
		{"decision says and calls", `{"kind":"replace_decision","decision":{"say":"x","tool_calls":[{"name":"a","arguments":{},"target_robot_name":"b"}]}}`, problems("value_error body.decision")},
		{"duplicate kind", `{"kind":"replace_say","kind":"replace_say"}`, problems("json_invalid body[22]")},
		{"kind cut off", `{"kind":"repl`, problems("json_invalid body[13]")},
	})
}

func TestCorrectionsAreDecisions(t *testing.T) {
	say, err := DecodeCorrection(Raw(`{"kind":"replace_say","text":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(AgentDecision{Say: "x"}, say.Corrected()); diff != "" {
		t.Error(diff)
	}
	decision, err := DecodeCorrection(Raw(`{"kind":"replace_decision","decision":{"say":"y"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(AgentDecision{Say: "y"}, decision.Corrected()); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeAgentDecision(t *testing.T) {
	got, err := DecodeAgentDecision([]byte(`{"tool_calls":[{"name":"a","arguments":{"x":[1.0]},"target_robot_name":"b"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &AgentDecision{ToolCalls: []ToolCall{{Name: "a", Arguments: Raw(`{"x":[1.0]}`), TargetRobotName: "b"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := validDecision(got); err != nil {
		t.Error(err)
	}
}

func TestDecodeInternalStepRules(t *testing.T) {
	step := func(members string) string {
		return `{"id":"step-0","component":"commander","full_prompt":"p","output_raw":"o"` + members + `}`
	}
	checkRules(t, func(b []byte) (*InternalStep, error) { return DecodeInternalStep(b) }, []row{
		{"minimal", step(``), nil},
		{"everything", step(`,"origin":"coaching","input_elements":{"a":1}`), nil},
		{"origin unknown", step(`,"origin":"x"`), problems("literal_error body.origin")},
		{"input_elements null", step(`,"input_elements":null`), problems("dict_type body.input_elements")},
		{"another field", step(`,"x":1`), problems("extra_forbidden body.x")},
		{"everything missing", `{}`, problems("missing body.id", "missing body.component", "missing body.full_prompt", "missing body.output_raw")},
	})
}

func TestDecodeHumanCoachingRules(t *testing.T) {
	checkRules(t, DecodeHumanCoachingRequest, []row{
		{"task", `{"request_id":"r","payload_id":1,"payload_type":"t","payload":{"a":1.0},"rendered_prompt":"p"}`, nil},
		{"everything missing", `{}`, problems("missing body.request_id", "missing body.payload_id", "missing body.payload_type", "missing body.payload", "missing body.rendered_prompt")},
		{"wrong types", `{"request_id":1,"payload_id":"1","payload_type":null,"payload":[],"rendered_prompt":{},"allow_force_save_example":0}`, problems(
			"string_type body.request_id", "int_type body.payload_id", "string_type body.payload_type", "dict_type body.payload",
			"string_type body.rendered_prompt", "bool_type body.allow_force_save_example")},
	})
	checkRules(t, DecodeHumanCoachingResponse, []row{
		{"completed", `{"request_id":"r","status":"completed","output":"","error":null,"force_save_example":true}`, nil},
		{"skipped", `{"request_id":"r","status":"skipped","error":"e","output":null}`, nil},
		{"aborted", `{"request_id":"r","status":"aborted","error":"e"}`, nil},
		{"completed without output", `{"request_id":"r","status":"completed"}`, problems("value_error body.output")},
		{"skipped without reason", `{"request_id":"r","status":"skipped"}`, problems("value_error body.error")},
		{"aborted with an empty reason", `{"request_id":"r","status":"aborted","error":""}`, problems("value_error body.error")},
		{"skipped but saved", `{"request_id":"r","status":"skipped","error":"e","force_save_example":true}`, problems("value_error body.force_save_example")},
		{"status unknown", `{"request_id":"r","status":"done"}`, problems("literal_error body.status")},
		{"everything missing", `{}`, problems("missing body.request_id", "missing body.status")},
	})
}

func TestHumanCoachingResponseValidate(t *testing.T) {
	output := "{}"
	req := &HumanCoachingRequest{RequestID: "r"}
	for _, c := range []struct {
		name string
		res  HumanCoachingResponse
		want []string
	}{
		{"completed", HumanCoachingResponse{RequestID: "r", Status: HumanCompleted, Output: &output}, nil},
		{"another request's id", HumanCoachingResponse{RequestID: "s", Status: HumanSkipped, Error: "e"}, problems("value_error body.request_id")},
		{"saved without leave", HumanCoachingResponse{RequestID: "r", Status: HumanCompleted, Output: &output, ForceSaveExample: true}, problems("value_error body.force_save_example")},
		{"status unknown", HumanCoachingResponse{RequestID: "r"}, problems("literal_error body.status")},
		{"completed without output", HumanCoachingResponse{RequestID: "r", Status: HumanCompleted}, problems("value_error body.output")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, summary(t, c.res.Validate(req))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCallsOverSay(t *testing.T) {
	const calls = `"tool_calls":[{"name":"n","arguments":{"x":1.50},"target_robot_name":"r"}]`
	for name, test := range map[string]struct{ in, want string }{
		"say and calls":        {`{"kind":"replace_decision","decision":{"say":"a",` + calls + `}}`, `{"kind":"replace_decision","decision":{` + calls + `}}`},
		"in another order":     {`{"decision":{` + calls + `, "say":"a"},"kind":"replace_decision"}`, `{"decision":{` + calls + `},"kind":"replace_decision"}`},
		"calls alone":          {`{"kind":"replace_decision","decision":{"say":"",` + calls + `}}`, ""},
		"say alone":            {`{"kind":"replace_decision","decision":{"say":"a","tool_calls":[]}}`, ""},
		"say of another type":  {`{"kind":"replace_decision","decision":{"say":1,` + calls + `}}`, ""},
		"calls that are none":  {`{"kind":"replace_decision","decision":{"say":"a","tool_calls":{"a":1}}}`, ""},
		"another kind":         {`{"kind":"replace_say","decision":{"say":"a",` + calls + `}}`, ""},
		"no kind":              {`{"decision":{"say":"a",` + calls + `}}`, ""},
		"no decision":          {`{"kind":"replace_decision"}`, ""},
		"null":                 {`null`, ""},
		"a list":               {`[1]`, ""},
		"other members remain": {`{"x":1,"kind":"replace_decision","decision":{"y":2,"say":"a",` + calls + `}}`, `{"x":1,"kind":"replace_decision","decision":{"y":2,` + calls + `}}`},
	} {
		if test.want == "" {
			test.want = test.in
		}
		if got := string(CallsOverSay(Raw(test.in))); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
