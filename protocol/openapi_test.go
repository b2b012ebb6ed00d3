package protocol

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
)

// modelFields are the tables that the decoders go by, by schema.
var modelFields = map[string]fields{
	"AgentRequest": fieldsOf[AgentRequest](), "AgentInput": fieldsOf[AgentInput](), "AgentInstruction": fieldsOf[AgentInstruction](),
	"StreamedCandidate": fieldsOf[StreamedCandidate](), "StreamEnd": fieldsOf[StreamEnd](), "AgentOutput": fieldsOf[AgentOutput](), "AgentDecision": fieldsOf[AgentDecision](), "ToolCall": fieldsOf[ToolCall](), "AgentError": fieldsOf[AgentError](),
	"InternalStep": fieldsOf[InternalStep](), "AgentHealth": fieldsOf[AgentHealth](), "AgentInfo": fieldsOf[AgentInfo](),
	"CoachingSessionConfig": fieldsOf[CoachingSessionConfig](), "CoachingBackend": fieldsOf[CoachingBackend](),
	"SpecializedCoachingRequest": fieldsOf[SpecializedCoachingRequest](), "CoachingContext": fieldsOf[coachingContext](), "CoachingStage": fieldsOf[CoachingStage](),
	"CoachingError": fieldsOf[CoachingError](), "CoachingDiagnosis": fieldsOf[CoachingDiagnosis](), "TrajectoryStep": fieldsOf[TrajectoryStep](),
	"ReinjectionPoint": fieldsOf[ReinjectionPoint](), "SpecializedCoachingResponse": fieldsOf[SpecializedCoachingResponse](),
	"CoachingProposal": fieldsOf[CoachingProposal](), "CoachingLog": fieldsOf[CoachingLog](),
	"ReplaceSay": fieldsOf[ReplaceSay](), "ReplaceDecision": fieldsOf[ReplaceDecision](),
	"HumanCoachingRequest": fieldsOf[HumanCoachingRequest](), "HumanCoachingResponse": fieldsOf[HumanCoachingResponse](),
}

// fieldsOf are the fields of a model.
func fieldsOf[T any]() fields { return modelOf(reflect.TypeFor[T]()).fields }

func loadOpenAPI(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestOpenAPIIsValid(t *testing.T) {
	doc := loadOpenAPI(t)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi is %q", doc.OpenAPI)
	}
	if err := doc.Validate(t.Context(), openapi3.IsOpenAPI31OrLater()); err != nil {
		t.Error(err)
	}
	if doc.Info.Version != Version {
		t.Errorf("version is %q, want the protocol's %q", doc.Info.Version, Version)
	}
}

// Generators of TypeScript read an object that has neither keyword as one without members. Generators of Go know a list
// of types only as one type or null.
func TestOpenAPISuitsGenerators(t *testing.T) {
	var doc any
	if err := json.Unmarshal(OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			kinds, _ := v["type"].([]any)
			if (v["type"] == "object" || slices.Contains(kinds, any("object"))) && v["properties"] == nil && v["additionalProperties"] == nil {
				t.Errorf("%s has neither properties nor additionalProperties", path)
			}
			if len(kinds) > 2 || len(kinds) == 2 && kinds[1] != "null" {
				t.Errorf("%s has several types; write anyOf, or no type", path)
			}
			for name, inner := range v {
				walk(path+"/"+name, inner)
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprint(path, "/", i), inner)
			}
		}
	}
	walk("", doc)
}

func TestOpenAPIHasEveryEndpoint(t *testing.T) {
	var got []string
	for path, item := range loadOpenAPI(t).Paths.Map() {
		for method := range item.Operations() {
			got = append(got, method+" "+path)
		}
	}
	slices.Sort(got)
	want := []string{
		"DELETE /v1/coaching/sessions/{run_id}", "DELETE /v1/weights/adapters/{name}", "GET /get_world_size", "GET /health", "GET /is_paused", "GET /liveness", "GET /metrics", "GET /openapi.json", "GET /server_info", "GET /v1/info",
		"GET /v1/models", "GET /v1/weights", "GET /weight_info", "POST /abort_requests", "POST /detokenize", "POST /finish_session", "POST /finish_weight_update",
		"POST /inference/v1/abort_requests", "POST /inference/v1/generate", "POST /init_weight_transfer_engine", "POST /load_lora_adapter", "POST /pause", "POST /reset_prefix_cache",
		"POST /resume", "POST /skyrl/v1/load_lora_adapter", "POST /sleep", "POST /start_weight_update", "POST /tokenize", "POST /update_weights", "POST /v1/chat/completions", "POST /v1/coaching", "POST /v1/completions", "POST /v1/decisions", "POST /v1/load_lora_adapter", "POST /v1/pause", "POST /v1/responses", "POST /v1/resume", "POST /v1/systemone", "POST /v1/unload_lora_adapter", "POST /wake_up",
		"PUT /v1/coaching/sessions/{run_id}", "PUT /v1/weights",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// schemaJSON is a schema as plain JSON values, with references in it.
func schemaJSON(t *testing.T) map[string]map[string]any {
	t.Helper()
	var doc struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Components.Schemas
}

func TestOpenAPISchemasHaveTheFieldsOfTheModels(t *testing.T) {
	schemas := schemaJSON(t)
	for name, want := range modelFields {
		t.Run(name, func(t *testing.T) {
			schema := schemas[name]
			if schema == nil {
				t.Fatal("no such schema")
			}
			if schema["additionalProperties"] != false {
				t.Error("unknown fields are allowed")
			}
			properties, _ := schema["properties"].(map[string]any)
			var got fields
			required, _ := schema["required"].([]any)
			for _, f := range want { // in the order of the table
				if property, ok := properties[f.name].(map[string]any); ok {
					f.required, f.nullable = slices.Contains(required, any(f.name)), allowsNull(property)
					got = append(got, f)
				}
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(rule{})); diff != "" {
				t.Errorf("fields (-model +schema):\n%s", diff)
			}
			if len(properties) != len(want) {
				t.Errorf("the schema has %d properties, the model %d fields", len(properties), len(want))
			}
		})
	}
	// Other packages test the schemas of the agent and of the weights.
	others := []string{"Problem", "ValidationError", "Error", "ExtraKeys", "AdapterName", "WeightsChange", "WeightsInfo", "WeightsFile", "Pause", "PauseMode"}
	for name := range schemas {
		if _, known := modelFields[name]; !known && !slices.Contains(others, name) {
			t.Errorf("schema %s is of no model", name)
		}
	}
}

// allowsNull reports whether a property's own keywords allow null.
func allowsNull(property map[string]any) bool {
	if kinds, ok := property["type"].([]any); ok {
		return slices.Contains(kinds, any("null"))
	}
	if choices, ok := property["anyOf"].([]any); ok {
		return slices.ContainsFunc(choices, func(c any) bool {
			choice, _ := c.(map[string]any)
			return choice["type"] == "null"
		})
	}
	_, typed := property["type"]
	_, refers := property["$ref"]
	return !typed && !refers
}

func TestOpenAPIBoundsAreTheLimits(t *testing.T) {
	schemas := schemaJSON(t)
	property := func(schema, name, keyword string) any {
		p, _ := schemas[schema]["properties"].(map[string]any)[name].(map[string]any)
		return p[keyword]
	}
	for _, c := range []struct {
		schema, property, keyword string
		want                      any
	}{
		{"AgentRequest", "inputs", "maxItems", MaxInputs},
		{"AgentInput", "num_outputs", "maximum", MaxNumOutputs},
		{"AgentInput", "num_outputs", "default", 1},
		{"ValidationError", "detail", "maxItems", MaxProblems},
		{"AgentInfo", "protocol_version", "default", Version},
		{"CoachingSessionConfig", "connect_timeout", "default", DefaultConnectTimeout},
		{"CoachingBackend", "timeout", "default", DefaultBackendTimeout},
		{"CoachingBackend", "max_retry", "default", DefaultMaxRetry},
		{"CoachingBackend", "type", "enum", backendTypes},
		{"SpecializedCoachingRequest", "kind", "enum", coachingKinds},
		{"AgentOutput", "status", "enum", []string{StatusCompleted, StatusError}},
		{"AgentInstruction", "type", "enum", []string{InstructionUser, InstructionEnv}},
		{"SpecializedCoachingResponse", "status", "enum", []string{CoachingCorrected, CoachingAbandoned, CoachingFailed}},
		{"AgentHealth", "status", "pattern", "^(" + strings.Join([]string{HealthReady, HealthLoading, HealthDraining, HealthPaused, HealthFailed, HealthStuck + ": .+"}, "|") + ")$"},
		{"InternalStep", "origin", "enum", []string{OriginModel, OriginCoaching}},
		{"HumanCoachingResponse", "status", "enum", []string{HumanCompleted, HumanSkipped, HumanAborted}},
		{"ReplaceSay", "kind", "const", KindReplaceSay},
		{"ReplaceDecision", "kind", "const", KindReplaceDecision},
	} {
		if got := property(c.schema, c.property, c.keyword); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s.%s: %s is %v, want %v", c.schema, c.property, c.keyword, got, c.want)
		}
	}
	text := string(OpenAPI())
	for _, bound := range []int{MaxCandidates, MaxRepeated, MaxDepth, MaxBodyBytes >> 20} {
		if !strings.Contains(text, strconv.Itoa(bound)) {
			t.Errorf("the document does not name the bound %d", bound)
		}
	}
}

// visit checks a value against a schema as JSON Schema 2020-12.
func visit(t *testing.T, schema *openapi3.Schema, body []byte) error {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return schema.VisitJSON(v, openapi3.EnableJSONSchema2020())
}

func TestOpenAPIExamplesAreAcceptedBySchemaAndDecoder(t *testing.T) {
	checked := 0
	example := func(where string, media *openapi3.MediaType) {
		if media == nil {
			return
		}
		model := strings.TrimPrefix(media.Schema.Ref, "#/components/schemas/")
		if media.Schema.Value.Type.Is("array") {
			model = "AgentOutputs"
		}
		for name, e := range media.Examples {
			body, err := json.Marshal(e.Value.Value)
			if err != nil {
				t.Fatal(err)
			}
			if err := visit(t, media.Schema.Value, body); err != nil {
				t.Errorf("%s %s: the schema rejects it: %v", where, name, err)
			}
			for _, c := range codecs {
				if c.name == model {
					checked++
					if _, err := c.reencode(body); err != nil {
						t.Errorf("%s %s: the decoder rejects it: %v", where, name, err)
					}
				}
			}
		}
	}
	for path, item := range loadOpenAPI(t).Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody != nil {
				example(method+" "+path, op.RequestBody.Value.Content.Get("application/json"))
			}
			for status, r := range op.Responses.Map() {
				example(method+" "+path+" "+status, r.Value.Content.Get("application/json"))
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d examples were checked", checked)
	}
}

// Schema and decoder must agree on these bodies.
func TestOpenAPISchemasAgreeWithDecoders(t *testing.T) {
	doc := loadOpenAPI(t)
	cases := map[string][]string{
		"AgentRequest": {
			inputWith(""), requestOf(), requestOf("1"), `{}`, `{"request_id":"","inputs":[{"id":1,` + instructionJSON + `}]}`, inputWith(`"x":1`),
			inputWith(`"num_outputs":0`), inputWith(`"num_outputs":257`), inputWith(`"num_outputs":"1"`), inputWith(`"tools":null`), inputWith(`"tools":[1]`),
			inputWith(`"memory":null`), inputWith(`"memory":{"a":null}`), requestOf(`{"id":1,"instruction":{"type":"x","content":""}}`), requestOf(`{"id":1.5,` + instructionJSON + `}`),
		},
		"AgentDecision": {
			`{}`, `{"say":"x"}`, `{"say":null}`, `{"say":"x","tool_calls":[]}`, `{"say":"x","tool_calls":[{"name":"a","arguments":{},"target_robot_name":"b"}]}`,
			`{"tool_calls":[{"name":"","arguments":{},"target_robot_name":"b"}]}`, `{"tool_calls":[{"name":"a","target_robot_name":"b"}]}`,
		},
		"CoachingSessionConfig": {
			sessionWith(""), `{}`, `{"backends":{}}`, `{"backends":[]}`, `{"backends":null}`, `{"provider":"human"}`, `{"provider":"human","endpoint":null}`,
			`{"provider":"human","endpoint":"http://h"}`, `{"backends":[{"type":"local","model":"m"}]}`, `{"backends":[{"type":"local"}]}`,
			`{"backends":[{"type":"ollama","model":"m"}]}`, `{"backends":[{"type":"ollama","model":"m","endpoint":null}]}`, `{"backends":[{"type":"local","model":"m","default_model":"m"}]}`,
			sessionWith(`"timeout":0`), sessionWith(`"max_retry":-1`), sessionWith(`"headers":{"a":1}`), sessionWith(`"type2":1`),
		},
		"SpecializedCoachingRequest": {
			coachingWith("x", ""), coachingWith("x", "1"), coachingWith("kind", `"x"`), coachingWith("stage", `"g"`), coachingWith("stage", `1`),
			coachingWith("stage", `{"id":1}`), coachingWith("active_errors", `null`), coachingWith("active_errors", `{}`), coachingWith("diagnosis", `null`), coachingWith("diagnosis", `7`),
			coachingWith("context", `{"x":1}`), coachingWith("context", `{}`), coachingWith("context", `null`), coachingWith("reinjection_points", `[]`),
			coachingWith("reinjection_points", `[{"id":"p"}]`), coachingWith("reinjection_points", `[{"id":"p","input":null,"input_step_id":1}]`),
			coachingWith("reinjection_points", `[{"id":"p","input":{"id":0,`+instructionJSON+`},"input_step_id":1}]`), coachingWith("trajectory", `null`),
		},
		"SpecializedCoachingResponse": {
			`{"request_id":"c","status":"abandoned","reason":"r"}`, `{"request_id":"c","status":"abandoned"}`, `{"request_id":"c","status":"error","reason":""}`,
			`{"request_id":"c","status":"error","reason":"r","proposals":[]}`, `{"request_id":"c","status":"corrected"}`, `{"request_id":"c","status":"corrected","proposals":[]}`,
			`{"request_id":"c","status":"corrected","proposals":[{"reinjection_point_id":"p","extra_keys":{}}],"reason":null}`,
			`{"request_id":"c","status":"error","reason":"r","proposals":[{"reinjection_point_id":"p","extra_keys":{}}]}`,
			`{"request_id":"c","status":"error","reason":"r","logs":[{"coaching_type":"A","content":""}]}`,
		},
		"HumanCoachingResponse": {
			`{"request_id":"r","status":"completed","output":"x"}`, `{"request_id":"r","status":"completed","output":null}`, `{"request_id":"r","status":"skipped"}`,
			`{"request_id":"r","status":"skipped","error":"e"}`, `{"request_id":"r","status":"skipped","error":"e","force_save_example":true}`,
		},
		"AgentInfo": {`{"agent_id":"a","agent_version":"1","capabilities":{}}`, `{"agent_id":"a","agent_version":"1","capabilities":{"a":1}}`,
			`{"agent_id":"a","agent_version":"1","capabilities":{},"specialized_coaching":["x"]}`, `{"agent_id":"a"}`},
		"AgentHealth": {`{"status":"ready"}`, `{"status":"x"}`, `{}`},
	}
	for _, c := range codecs {
		for _, body := range cases[c.name] {
			_, decodeErr := c.reencode([]byte(body))
			schemaErr := visit(t, doc.Components.Schemas[c.name].Value, []byte(body))
			if (decodeErr == nil) != (schemaErr == nil) {
				t.Errorf("%s %s:\ndecoder: %v\nschema: %v", c.name, body, decodeErr, schemaErr)
			}
		}
		delete(cases, c.name)
	}
	for name := range cases {
		t.Errorf("cases of %s were not checked", name)
	}
	output := doc.Components.Schemas["AgentOutput"].Value
	for _, members := range []string{`"status":"completed"`, `"status":"completed","output":{}`, `"status":"completed","output":null`, `"status":"completed","output":{},"error":null`,
		`"status":"completed","output":{},"error":{"code":"c","message":"m"}`, `"status":"error"`, `"status":"error","error":{"code":"c","message":"m"}`,
		`"status":"error","error":{"code":"c","message":"m"},"output":{}`, `"status":"error","error":{"code":"","message":"m"}`} {
		body := `{"request_id":"r","source_id":1,"candidate_index":0,"memory":{},` + members + `}`
		_, decodeErr := DecodeAgentOutputs([]byte("[" + body + "]"))
		schemaErr := visit(t, output, []byte(body))
		if (decodeErr == nil) != (schemaErr == nil) {
			t.Errorf("AgentOutput %s:\ndecoder: %v\nschema: %v", body, decodeErr, schemaErr)
		}
	}
}

func TestOpenAPIReturnsACopy(t *testing.T) {
	OpenAPI()[0] = 'x'
	if OpenAPI()[0] != '{' {
		t.Error("a caller can change the document")
	}
}
