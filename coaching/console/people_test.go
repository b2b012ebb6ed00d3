package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agentd/protocol"
)

func TestTaskOfAgentdShowsItsPoints(t *testing.T) {
	f := open(t)
	f.post(ours("r1"))
	var detail taskDetail
	f.want(http.StatusOK, http.MethodGet, "/api/tasks/1", nil, &detail)
	if detail.Task.Kind != "failure" || detail.Task.RunID != "run-1" || detail.Task.Stage != "Cube in box" {
		t.Errorf("the task is %+v", detail.Task)
	}
	if strings.Contains(string(detail.Request), keyCoachingRequest) || !strings.Contains(string(detail.Request), `"rendered_prompt":"# Failure"`) {
		t.Errorf("the request is %s", detail.Request)
	}
	if decoded, err := protocol.DecodeSpecializedCoachingRequest(detail.Coaching); err != nil || string(decoded.ActiveErrors[0]) != `{"code":"E1","description":"unreachable","details":{"x":0.50}}` {
		t.Errorf("the coaching request did not come as it was sent: %s (%v)", detail.Coaching, err)
	}
	if len(detail.Points) != 2 || detail.Answer != nil || string(detail.Draft) != "null" {
		t.Fatalf("points %+v, answer %+v, draft %s", detail.Points, detail.Answer, detail.Draft)
	}
	p0, p1 := detail.Points[0], detail.Points[1]
	t0, t1 := detail.Toolsets[p0.Toolset], detail.Toolsets[p1.Toolset]
	if p0.ID != "p0" || *p0.StepID != 7 || string(p0.Input) != "null" || t0.ToolsError != nil || len(t0.Tools) != 1 || t0.Tools[0].Name != "pick" || t0.Robots[0] != "arm" {
		t.Errorf("the first point is %+v with %+v", p0, t0)
	}
	var schema struct {
		Type       string
		Properties map[string]any
	}
	if err := json.Unmarshal(t0.Tools[0].Schema, &schema); err != nil || schema.Type != "object" || schema.Properties["object"] == nil {
		t.Errorf("the tool's schema is %s", t0.Tools[0].Schema)
	}
	if p1.ID != "p1" || p1.StepID != nil || len(t1.Tools) != 0 || t1.Robots == nil || !strings.Contains(string(p1.Input), "Go on.") {
		t.Errorf("the second point is %+v with %+v", p1, t1)
	}
}

func TestPointsOfAStepShareToolsAndInput(t *testing.T) {
	f := open(t)
	points := make([]string, 2000)
	for i := range points {
		points[i] = fmt.Sprintf(`{"id":"p%d","input_step_id":7}`, i)
	}
	at := strings.Index(coachingRequest, `"reinjection_points"`)
	body := strings.Replace(coachingRequest[:at], "Put the cube", strings.Repeat("Put the cube", 1000), 1) + `"reinjection_points":[` + strings.Join(points, ",") + `]}`
	f.post(`{"request_id":"r","payload_id":1,"payload_type":"FailureFixPayload","payload":{"coaching_request":` + body + `},"rendered_prompt":"p"}`)
	var detail taskDetail
	r := f.want(http.StatusOK, http.MethodGet, "/api/tasks/1", nil, &detail)
	if len(detail.Points) != len(points) || len(detail.Toolsets) != 1 || len(r.body) > 4*len(body) {
		t.Errorf("%d points, %d toolsets, %d bytes for a request of %d", len(detail.Points), len(detail.Toolsets), len(r.body), len(body))
	}
}

func TestTaskOfOtherAgentIsShownUnchanged(t *testing.T) {
	f := open(t)
	for i, test := range []struct {
		payload, kind, payloadType string
		points                     int
		toolsError                 bool
	}{
		{`{"anything":[1.0,null]}`, "other", "Whatever", 0, false},
		{`{"tools_api":{"pick":{"description":"d","parameters":{}}}}`, "failure", "FailureFixPayload", 1, false},
		{`{"tools_api":"pick(object)"}`, "format", "FormatFixPayload", 1, true},
		{`{"tools_api":[1]}`, "suboptimal", "SuboptimalFixPayload", 1, true},
		{`{"coaching_request":{"kind":"of another version"}}`, "other", "Whatever", 0, false},
	} {
		id := string(rune('a' + i))
		f.post(`{"request_id":"` + id + `","payload_id":1,"payload_type":"` + test.payloadType + `","payload":` + test.payload + `,"rendered_prompt":"p"}`)
		var detail taskDetail
		f.want(http.StatusOK, http.MethodGet, "/api/tasks/"+taskID(uint64(i+1)), nil, &detail)
		if string(detail.Coaching) != "null" || detail.Task.Kind != test.kind || len(detail.Points) != test.points ||
			!strings.Contains(string(detail.Request), test.payload) {
			t.Errorf("%s: shown as %+v", test.payload, detail)
		}
		if test.points > 0 && (detail.Toolsets[0].ToolsError != nil) != test.toolsError {
			t.Errorf("%s: tools error %v", test.payload, detail.Toolsets[0].ToolsError)
		}
	}
}

func TestDecisionIsSentInTheAgentsFormat(t *testing.T) {
	f := open(t)
	f.post(ours("ours"))
	f.post(foreign("suboptimal"))
	f.post(strings.Replace(foreign("failure"), "SuboptimalFixPayload", "FailureFixPayload", 1))
	f.post(unsure("unsure"))
	for name, test := range map[string]struct {
		task   string
		body   object
		output string
	}{
		"a call for an agentd server":       {"1", object{"point": "p0", "decision": pick("cube")}, `{"reinjection_point_id":"p0","say":"","tool_calls":[{"name":"pick","arguments":{"object":"cube"},"target_robot_name":"arm"}]}`},
		"a text for an agentd server":       {"1", object{"point": "p1", "decision": object{"say": "Hi"}}, `{"reinjection_point_id":"p1","say":"Hi","tool_calls":[]}`},
		"a call for another agent":          {"2", object{"point": "", "decision": pick("cube")}, `{"say": "", "action": {"arm": {"name": "pick", "arguments": {"object": "cube"}}}}`},
		"a text for another agent":          {"2", object{"decision": object{"say": "Hi"}}, `{"say": "Hi", "action": {}}`},
		"a call for its failure coaching":   {"3", object{"decision": pick("cube")}, `[{"name":"pick","arguments":{"object":"cube"},"robot":"arm"}]`},
		"raw text for another agent":        {"2", object{"output": "anything"}, "anything"},
		"a text for its failure coaching":   {"3", object{"decision": object{"say": "Hi"}}, `{"say": "Hi", "action": {}}`},
		"an option of an unsure agent":      {"4", object{"point": "now", "decision": pick("cube")}, `{"reinjection_point_id":"now","say":"","tool_calls":[{"name":"pick","arguments":{"object":"cube"},"target_robot_name":"arm"}]}`},
		"its option unsure":                 {"4", object{"output": `{"say":"unsure"}`}, `{"say":"unsure"}`},
		"a raw output for an agentd server": {"1", object{"output": `{"say":"Hi","action":{}}`}, `{"say":"Hi","action":{}}`},
	} {
		var got verdict
		f.want(http.StatusOK, http.MethodPost, "/api/tasks/"+test.task+"/check", test.body, &got)
		if !got.Valid || got.Output != test.output || len(got.Problems) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCheckFindsInvalidDecisions(t *testing.T) {
	f := open(t)
	f.post(ours("ours"))
	f.post(foreign("foreign"))
	f.post(`{"request_id":"bare","payload_id":1,"payload_type":"x","payload":{},"rendered_prompt":"p"}`)
	f.post(unsure("unsure"))
	if kind := f.tasks("open")[3].Kind; kind != "unsure" {
		t.Errorf("an unsure agent's task is of kind %s", kind)
	}
	wrongTool := object{"tool_calls": []object{{"name": "drop", "arguments": object{}, "target_robot_name": "arm"}}}
	for name, test := range map[string]struct {
		task string
		body object
		loc  string // of the finding, and of the 422 within the body
	}{
		"unknown tool":               {"1", object{"point": "p0", "decision": wrongTool}, `decision,tool_calls,0,name`},
		"unknown tool, other agent":  {"2", object{"decision": wrongTool}, `decision,tool_calls,0,name`},
		"empty decision":             {"1", object{"point": "p0", "decision": object{}}, `decision`},
		"empty, other agent":         {"2", object{"decision": object{"say": " "}}, `decision`},
		"unknown point":              {"1", object{"point": "p9", "decision": object{"say": "Hi"}}, `point`},
		"no points":                  {"3", object{"decision": object{"say": "Hi"}}, `point`},
		"text and calls":             {"1", object{"point": "p0", "decision": object{"say": "Hi", "tool_calls": pick("x")["tool_calls"]}}, `decision`},
		"field that does not exist":  {"1", object{"point": "p0", "decision": object{"said": "Hi"}}, `decision,said`},
		"empty output":               {"2", object{"output": " "}, `output`},
		"none of the options":        {"4", object{"point": "now", "decision": object{"say": "Hi"}}, `decision`},
		"none of them, as output":    {"4", object{"output": `{"say":"Hi"}`}, `output`},
		"output that is no decision": {"1", object{"output": `{"say":"","action":{"arm":{"name":"drop","arguments":{}}}}`}, `output`},
	} {
		var got verdict
		f.want(http.StatusOK, http.MethodPost, "/api/tasks/"+test.task+"/check", test.body, &got)
		if got.Valid || len(got.Problems) == 0 {
			t.Errorf("%s: the check says %+v", name, got)
			continue
		}
		relative := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(test.loc, "decision"), "output"), ",")
		if loc := dotted(got.Problems[0].Loc); loc != relative {
			t.Errorf("%s: found at %q, want %q (%s)", name, loc, relative, got.Problems[0].Msg)
		}
		body := object{"claim": f.claimed(test.task, "Ann"), "status": "completed"}
		for key, value := range test.body {
			body[key] = value
		}
		r := f.call(http.MethodPost, "/api/tasks/"+test.task+"/answer", body)
		_, problems := protocol.DecodeErrorBody(r.body)
		if r.status != http.StatusUnprocessableEntity || len(problems) == 0 || dotted(problems[0].Loc) != "body,"+test.loc {
			t.Errorf("%s: the answer got %d %s", name, r.status, r.body)
		}
		f.want(http.StatusNoContent, http.MethodPost, "/api/tasks/"+test.task+"/release", object{"claim": body["claim"]}, nil)
	}
	if n := len(f.tasks("open")); n != 4 {
		t.Errorf("%d tasks are open", n)
	}
}

func dotted(loc []any) string {
	raw, err := json.Marshal(loc)
	if err != nil {
		panic(err) // numbers and strings
	}
	return strings.NewReplacer("[", "", "]", "", `"`, "").Replace(string(raw))
}

func TestNamesOfPeopleInEveryScript(t *testing.T) {
	for name, valid := range map[string]bool{
		"Ann":                   true,
		"José":                  true,
		"نسیم\u200cرضا":         true, // zero-width non-joiner
		"ක්\u200dරිස්ටි":        true, // zero-width joiner
		"Jean\u00a0Luc":         true, // no-break space
		"Jean\u202fLuc":         true, // narrow no-break space
		"山田\u3000太郎":            true, // ideographic space
		"\u200fדוד":             true, // mark of direction
		"Ann 👩\u200d🔧":          true,
		"word\u2060joiner":      true,
		"\u200d\u00a0\u200c":    false,
		"\u2060":                false,
		"A\u2028B":              false,
		"A\u2029B":              false,
		"A\u0085B":              false,
		"A\tB":                  false,
		"A\x7fB":                false,
		"A\u202eB":              false,
		"A\u2066B":              false,
		strings.Repeat("ü", 80): true,
		strings.Repeat("ü", 81): false,
	} {
		b := claimBody{Person: name}
		if err := b.check(); (err == nil) != valid {
			t.Errorf("%+q: %v, want valid: %t", name, err, valid)
		}
	}
}

func TestInvalidBodiesAreRefused(t *testing.T) {
	f := open(t)
	f.post(ours("r1"))
	claim := f.claimed("1", "Ann")
	for name, test := range map[string]struct {
		path, body string
		status     int
		detail     string
	}{
		"no JSON":             {"claim", `{`, 422, "body"},
		"no object":           {"claim", `[]`, 422, "body"},
		"unknown field":       {"claim", `{"person":"Ann","Claim":""}`, 422, "unknown field"},
		"a name twice":        {"claim", `{"person":"Ann","person":"Bob"}`, 422, "body"},
		"nobody":              {"claim", `{"person":" "}`, 422, "person"},
		"a name of two lines": {"claim", `{"person":"A\nB"}`, 422, "person"},
		"a name too long":     {"claim", `{"person":"` + strings.Repeat("x", maxPerson+1) + `"}`, 422, "person"},
		"a number for a name": {"claim", `{"person":1}`, 422, "person"},
		"release of another":  {"release", `{"claim":"x"}`, 409, "lapsed"},
		"check of nothing":    {"check", `{}`, 422, "either"},
		"check of both":       {"check", `{"output":"x","decision":{}}`, 422, "either"},
		"point of an output":  {"check", `{"output":"x","point":"p0"}`, 422, "point"},
		"draft that is text":  {"draft", `{"claim":"x","draft":"x"}`, 422, "draft"},
		"draft of another":    {"draft", `{"claim":"x","draft":{}}`, 409, "lapsed"},
		"unknown status":      {"answer", `{"claim":"x","status":"done"}`, 422, "status"},
		"no reason":           {"answer", `{"claim":"x","status":"skipped","reason":" "}`, 422, "reason"},
		"reason too long":     {"answer", `{"claim":"x","status":"skipped","reason":"` + strings.Repeat("x", maxReason+1) + `"}`, 422, "reason"},
		"reason and answer":   {"answer", `{"claim":"x","status":"completed","reason":"y","output":"{}"}`, 422, "reason"},
		"answer and skipped":  {"answer", `{"claim":"x","status":"skipped","reason":"y","output":"{}"}`, 422, "status"},
		"example of nothing":  {"answer", `{"claim":"x","status":"skipped","reason":"y","force_save_example":true}`, 422, "force_save_example"},
		"example not allowed": {"answer", `{"claim":"` + claim + `","status":"completed","point":"p1","decision":{"say":"Hi"},"force_save_example":true}`, 422, "force_save_example"},
		"answer of another":   {"answer", `{"claim":"x","status":"skipped","reason":"y"}`, 409, "lapsed"},
		"no candidates":       {"candidates", `{"point":"p0","n":0}`, 422, "n"},
		"too many candidates": {"candidates", `{"point":"p0","n":9}`, 422, "n"},
		"too large":           {"claim", `{"person":"` + strings.Repeat("x", maxPeopleBody) + `"}`, 413, "larger"},
	} {
		method := http.MethodPost
		if test.path == "draft" {
			method = http.MethodPut
		}
		if r := f.call(method, "/api/tasks/1/"+test.path, test.body); r.status != test.status || !strings.Contains(r.detail(), test.detail) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	for _, path := range []string{"/api/tasks/2", "/api/tasks/01", "/api/tasks/x", "/api/tasks/-1", "/api/nothing", "/x"} {
		if r := f.call(http.MethodGet, path, nil); r.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	f.want(http.StatusNotFound, http.MethodPost, "/api/tasks/2/claim", object{"person": "Ann"}, nil)
	f.want(http.StatusUnprocessableEntity, http.MethodGet, "/api/tasks?state=all", nil, nil)
	if r := f.want(http.StatusMethodNotAllowed, http.MethodPost, "/api/tasks", object{}, nil); r.header.Get("Allow") != "GET" {
		t.Errorf("Allow is %q", r.header.Get("Allow"))
	}
}

func TestRepeatedAnswerIsTakenOnce(t *testing.T) {
	f := open(t)
	f.post(ours("r1"))
	claim := f.claimed("1", "Ann")
	body := object{"claim": claim, "status": "completed", "point": "p0", "decision": pick("cube")}
	first := f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", body, nil)
	again := f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", body, nil)
	if string(first.body) != string(again.body) {
		t.Errorf("first %s, then %s", first.body, again.body)
	}
	body["decision"] = pick("box")
	if r := f.call(http.MethodPost, "/api/tasks/1/answer", body); r.status != http.StatusConflict || r.detail() != errDone.Detail {
		t.Errorf("another answer got %d %s", r.status, r.body)
	}
	for path, body := range map[string]object{"claim": {"person": "Bob"}, "release": {"claim": claim}} {
		f.want(http.StatusConflict, http.MethodPost, "/api/tasks/1/"+path, body, nil)
	}
	var detail taskDetail
	f.want(http.StatusOK, http.MethodGet, "/api/tasks/1", nil, &detail)
	if detail.Answer == nil || detail.Answer.Status != "completed" || !strings.Contains(*detail.Answer.Output, "cube") {
		t.Errorf("the answer is shown as %+v", detail.Answer)
	}
}

func TestDraftIsKeptForTheNextPerson(t *testing.T) {
	f := open(t)
	f.post(ours("r1"))
	claim := f.claimed("1", "Ann")
	f.want(http.StatusNoContent, http.MethodPut, "/api/tasks/1/draft", `{"claim":"`+claim+`","draft":{"say":"first"}}`, nil)
	f.want(http.StatusNoContent, http.MethodPut, "/api/tasks/1/draft", `{"claim":"`+claim+`","draft":{"say":"second","n":1.0}}`, nil)
	f.want(http.StatusNoContent, http.MethodPost, "/api/tasks/1/release", object{"claim": claim}, nil)
	bob := f.claimed("1", "Bob")
	var detail taskDetail
	f.want(http.StatusOK, http.MethodGet, "/api/tasks/1", nil, &detail)
	if string(detail.Draft) != `{"say":"second","n":1.0}` || !detail.Task.HasDraft {
		t.Errorf("the draft is %s", detail.Draft)
	}
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/1/answer", object{"claim": bob, "status": "skipped", "reason": "x"}, nil)
	var after taskDetail
	f.want(http.StatusOK, http.MethodGet, "/api/tasks/1", nil, &after)
	if string(after.Draft) != "null" || after.Task.HasDraft {
		t.Errorf("after the answer the draft is %s", after.Draft)
	}
}
