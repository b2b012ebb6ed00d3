package agent

import (
	"encoding/json"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"agentd/protocol"
)

// oneAdapter is an engine with the adapter "careful".
type oneAdapter struct{}

func (oneAdapter) Adapter(name string) (Adapter, bool) {
	return Adapter{Name: name, ID: 1}, name == "careful"
}
func (oneAdapter) Names() []string { return []string{"careful"} }

// TestExtraKeysAgreeWithDocument: what the agent refuses, the schema of the OpenAPI document does.
func TestExtraKeysAgreeWithDocument(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(protocol.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	schema := doc.Components.Schemas["ExtraKeys"].Value
	read := map[string]bool{}
	for _, text := range []string{
		`{}`, `{"other": [1, null]}`,
		`{"inference_mode": true}`, `{"inference_mode": false}`, `{"inference_mode": null}`, `{"inference_mode": 1}`,
		`{"coaching": null}`, `{"coaching": {"kind": "replace_say", "text": "x"}}`, `{"coaching": 1}`,
		`{"adapter": null}`, `{"adapter": "careful"}`, `{"adapter": 1}`, `{"adapter": ["careful"]}`,
		`{"candidates": {}}`, `{"candidates": null}`, `{"candidates": []}`, `{"candidates": {"distinct": true}}`, `{"candidates": {"distinct": false}}`, `{"candidates": {"distinct": 1}}`,
		`{"candidates": {"distinct": true, "rank": "logprob"}}`, `{"inference_mode": true, "candidates": {"distinct": true, "rank": "logprob"}}`, `{"inference_mode": false, "candidates": {"distinct": true}}`, `{"candidates": {"distinct": true, "rank": "x"}}`, `{"candidates": {"distinct": false, "rank": "logprob"}}`,
		`{"candidates": {"rank": "logprob"}}`, `{"candidates": {"top": 1}}`,
		`{"inference_mode": true, "options": ["unsure", {"say": "yes"}]}`, `{"options": ["unsure", {"say": "yes"}]}`, `{"inference_mode": true, "options": ["unsure"]}`, `{"inference_mode": true, "options": ["unsure", "sure"]}`, `{"options": null}`, `{"inference_mode": true, "options": ["unsure", {"said": "yes"}]}`,
		`{"inference_mode": true, "options": ["unsure", {"say": "yes"}], "ask": "run-1"}`, `{"inference_mode": true, "options": ["unsure", {"say": "yes"}], "ask": ""}`, `{"inference_mode": true, "options": ["unsure", {"say": "yes"}], "ask": 1}`, `{"ask": "run-1"}`, `{"ask": null}`,
		`{"return": []}`, `{"return": null}`, `{"return": "token_ids"}`, `{"return": ["token_ids", "logprobs"]}`, `{"return": ["forced_logprobs"]}`, `{"return": ["scores"]}`, `{"return": [1]}`,
		`{"continue": [[]]}`, `{"continue": [[1, 2, 3]]}`, `{"continue": null}`, `{"continue": [1]}`, `{"continue": [["1"]]}`, `{"continue": [[-1]]}`, `{"continue": [[1.5]]}`, `{"continue": [[null]]}`, `{"continue": [[4294967296]]}`,
		`{"priority": 0}`, `{"priority": 100}`, `{"priority": -100}`, `{"priority": 101}`, `{"priority": -101}`, `{"priority": null}`, `{"priority": "1"}`, `{"priority": 1.5}`,
		`{"return": ["token_ids"], "candidates": {"distinct": true}, "inference_mode": true, "adapter": "careful"}`,
	} {
		input := protocol.AgentInput{ExtraKeys: protocol.Raw(text), NumOutputs: 1}
		problems := (&Agent{cfg: Config{Ask: &Ask{}}}).readExtraKeys(&inputRun{input: &input}, oneAdapter{})
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		err := schema.VisitJSON(v, openapi3.EnableJSONSchema2020())
		if (len(problems) == 0) != (err == nil) {
			t.Errorf("%s:\nagent: %v\nschema: %v", text, problems, err)
		}
		for name := range v {
			read[name] = read[name] || len(problems) > 0
		}
	}
	for name := range schema.Properties {
		if refused, tried := read[name]; !tried || !refused && name != "coaching" { // candidates report a bad correction
			t.Errorf("no case refuses %s", name)
		}
	}
}
