package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// magmaVersion is the stable release of MAGMA's protocol package that /magma is
// held against.
const magmaVersion = "2.0.1"

// magmaPackages are all that the models need. magma_core's other dependencies,
// PyTorch among them, are not installed.
var magmaPackages = []string{
	"magma_core==" + magmaVersion, "pydantic==2.14.4", "pydantic_core==2.50.5", "annotated-types==0.8.0",
	"typing_extensions==4.16.0", "typing-inspection==0.4.5",
}

var (
	rewrite     = flag.Bool("rewrite", false, "record the schema of MAGMA's models anew")
	magmaSchema = filepath.Join("testdata", "magma", "schema-"+magmaVersion+".json")
	magmaCheck  = filepath.Join("testdata", "magma", "check.py")
)

// held is a body that is held against a model of magma_core.
type held struct {
	Model string `json:"model"`
	Body  string `json:"body"`
	base  string // where it comes from
}

// checker says for each body why its model refuses it, "" when it does not.
type checker func(t *testing.T, bodies []held) (refusals []string)

// TestMagmaCoreAcceptsOnlyMagmaPath: everything that a client of MAGMA's
// stable packages reads, at both base paths. The recorded schema holds it against
// them on every machine, the package itself where it can be had.
func TestMagmaCoreAcceptsOnlyMagmaPath(t *testing.T) {
	c := newCoaches(t, `{"why": "The pantry is a door.", "outcome": "corrected", "reinjection_point_id": "start", "decision": {"say": "Which door?", "tool_calls": []}}`)
	f := newAdapterFiles(t)
	r := serveModel(t, append(f.options(), "--max-new-tokens", "24")...)
	var answers []held
	collect := func(r *running, model, method, path, body string) {
		t.Helper()
		status, text, err := exchange(method, r.url+path, body)
		if err != nil || status != 200 {
			t.Fatalf("%s: got %d %.500s, %v", path, status, text, err)
		}
		answers = append(answers, held{model, text, r.base})
	}
	for _, base := range bases {
		r := r.at(base)
		collect(r, "AgentInfo", "GET", "/v1/info", "")
		collect(r, "AgentHealth", "GET", "/health", "")
		collect(r, "AgentResponse", "POST", "/v1/responses", body(t, "all", failedStep().outputs(8), user(8, "hi").tools(`[{}]`),
			user(9, "hi").extra(`{"coaching": {"kind": "replace_say", "text": "x"}}`)))
		adapted := body(t, "adapter", user(8, "hi").extra(`{"inference_mode": true, "adapter": "careful", "return": ["token_ids"]}`))
		answers = append(answers, held{"AgentRequest", adapted, r.base})
		collect(r, "AgentResponse", "POST", "/v1/responses", adapted)
		r.expect(204, "", "PUT", session1, llmSession("openai", c.URL))
		collect(r, "SpecializedCoachingResponse", "POST", "/v1/coaching", coachingRequest(t, "c"))
		r.expect(204, "", "DELETE", session1, "")
	}
	off := startFake(t, ready(newFakeModel()), "--coaching", "off")
	off.health("ready")
	collect(off.at("/magma"), "AgentInfo", "GET", "/v1/info", "")

	const nowhere = "a body that must be refused, so that the test shows something"
	answers = append(answers,
		held{"AgentInfo", `{"agent_id": "a"}`, nowhere},
		held{"AgentResponse", `[{"request_id": "r"}]`, nowhere},
		held{"AgentHealth", `{"status": "loading"}`, nowhere},
		held{"SpecializedCoachingResponse", `{"request_id": "r", "status": "done"}`, nowhere})
	check := func(t *testing.T, refusals checker) {
		for i, got := range refusals(t, answers) {
			switch a := answers[i]; {
			case a.base == nowhere && got == "":
				t.Errorf("%s accepts %s", a.Model, a.Body)
			case a.base == nowhere:
			case a.base == "" && a.Model == "AgentInfo":
				if !strings.Contains(got, "coaching_session_version") {
					t.Errorf("the root's info is refused with %q, want coaching_session_version in it", got)
				}
			case got != "":
				t.Errorf("at %q, %s: %s\nof %.2000s", a.base, a.Model, got, a.Body)
			}
		}
	}
	t.Run("the recorded schema", func(t *testing.T) { check(t, recordedModels(t)) })
	t.Run("the package", func(t *testing.T) { check(t, installedMagma(t).refusals) })
}

// recordedModels are the models as the recorded JSON Schema has them.
func recordedModels(t *testing.T) checker {
	t.Helper()
	text, err := os.ReadFile(magmaSchema)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("magma.json", doc); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, bodies []held) (refusals []string) {
		t.Helper()
		for _, b := range bodies {
			schema, err := compiler.Compile("magma.json#/$defs/" + b.Model)
			if err != nil {
				t.Fatal(err)
			}
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(b.Body))
			if err == nil {
				err = schema.Validate(v)
			}
			refusal := ""
			if err != nil {
				refusal = err.Error()
			}
			refusals = append(refusals, refusal)
		}
		return refusals
	}
}

// TestRecordedSchemaMatchesPackage; with -rewrite it is recorded.
func TestRecordedSchemaMatchesPackage(t *testing.T) {
	got, err := installedMagma(t).command(t, magmaCheck, "schema").Output()
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(magmaSchema, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(magmaSchema)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what %s writes; record it anew with -rewrite", magmaSchema, magmaCheck)
	}
}

// refusals are the errors of the models themselves.
func (m magma) refusals(t *testing.T, bodies []held) (refusals []string) {
	t.Helper()
	var lines bytes.Buffer
	for _, b := range bodies {
		if err := json.NewEncoder(&lines).Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	c := m.command(t, magmaCheck)
	c.Stdin = &lines
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range bytes.Lines(out) {
		var answer struct{ Error string }
		if err := json.Unmarshal(line, &answer); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		refusals = append(refusals, answer.Error)
	}
	if len(refusals) != len(bodies) {
		t.Fatalf("%d answers for %d bodies", len(refusals), len(bodies))
	}
	return refusals
}

// magma is a Python that has magma_core.
type magma struct{ python }

// installedMagma skips where there is no such Python.
func installedMagma(t *testing.T) magma {
	t.Helper()
	return magma{installedPython(t, magmaPackages)}
}
