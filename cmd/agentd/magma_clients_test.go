package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentd/internal/base/version"
	"agentd/llama/synth"
)

// genPackages are needed by the exporter and its tests beside magmaPackages. Of
// magma_gen only its export is used, which imports no simulator.
var genPackages = append([]string{"magma_gen==2.0.0", "packaging==26.3", "flit_core==4.2.0"}, magmaPackages...)

var exporter = filepath.Join("..", "..", "clients", "agentd-magma")

// TestExporterWorksUnderMagmaGen: clients/agentd-magma is installed as users do
// it, and exports a graph that magma-gen saved.
func TestExporterWorksUnderMagmaGen(t *testing.T) {
	p := installedPython(t, genPackages).with(t, exporter)
	out, err := p.command(t, "-m", "unittest", "discover", "-v", filepath.Join(exporter, "tests")).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("test_the_rows_are_the_decisions_that_led_on")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestExporterVersionMatchesRelease, without which magma-gen exports nothing.
func TestExporterVersionMatchesRelease(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(exporter, "src", "agentd_magma", "__init__.py"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^__version__ = "(.*?)"`).FindSubmatch(source)
	if m == nil || string(m[1]) != version.Release {
		t.Errorf("the exporter's version is %s, and agentd is %s", m, version.Release)
	}
}

// recorded is one exchange of a run of magma-bench or magma-gen with agentd. Of the
// prompts that requests hold, only the beginning is kept; of answers neither internal
// steps nor logs are.
type recorded struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"` // none in a GET or DELETE
	Status  int               `json:"status"`
	Answer  json.RawMessage   `json:"answer"`
}

func recordedRun(t *testing.T, name string) (list []recorded) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "magma", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v in %.200s", name, err, line)
		}
		list = append(list, r)
	}
	return list
}

// TestRecordedRunsOfMagmaReplay: what the stable tools sent in real runs, with their
// simulator, is answered as they want it. docs/magma.md says how such a run is made.
func TestRecordedRunsOfMagmaReplay(t *testing.T) {
	t.Parallel()
	coach := newCoaches(t, `{"why": "It is not known.", "outcome": "corrected", "decision": {"say": "Which button?", "tool_calls": []}}`)
	for _, name := range []string{"bench-2.0.1.jsonl", "gen-2.0.0.jsonl"} {
		t.Run(name, func(t *testing.T) {
			r := serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--max-new-tokens", "24")
			var bodies []held
			for _, x := range recordedRun(t, name) {
				body := strings.ReplaceAll(string(x.Body), "http://127.0.0.1:18001", coach.URL)
				status, answer := replay(t, r, &x, body)
				if status != x.Status {
					t.Fatalf("%s %s: got %d %s, it was %d", x.Method, x.Path, status, answer, x.Status)
				}
				sent, got := x.models()
				if sent != "" {
					bodies = append(bodies, held{sent, body, x.Path})
				}
				if got != "" {
					bodies = append(bodies, held{got, answer, x.Path})
				}
				if _, err := checked(body, answer); sent == "AgentRequest" && err != nil {
					t.Errorf("%v in %s", err, answer)
				}
			}
			check := func(t *testing.T, refusals checker) {
				for i, refusal := range refusals(t, bodies) {
					if refusal != "" {
						t.Errorf("%s, %s: %s\nof %.2000s", bodies[i].base, bodies[i].Model, refusal, bodies[i].Body)
					}
				}
			}
			t.Run("for the recorded schema", func(t *testing.T) { check(t, recordedModels(t)) })
			t.Run("for the package", func(t *testing.T) { check(t, installedMagma(t).refusals) })
		})
	}
}

// TestTokensReturnedUnaskedGiveRolloutsOfMagmaGen: the tool's strict models take the answers, and the
// export has a row for each decision of the model.
func TestTokensReturnedUnaskedGiveRolloutsOfMagmaGen(t *testing.T) {
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3), "--max-new-tokens", "24", "--return", "token_ids,logprobs")
	var bodies []held
	var exchanges strings.Builder
	decisions := 0
	for _, x := range recordedRun(t, "gen-2.0.0.jsonl") {
		if x.Path != "/v1/responses" {
			continue
		}
		status, answer := replay(t, r, &x, string(x.Body))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		var outs []struct {
			Steps []json.RawMessage `json:"internal_steps"`
		}
		if err := json.Unmarshal([]byte(answer), &outs); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, held{"AgentResponse", answer, x.Path})
		for _, out := range outs {
			for _, step := range out.Steps {
				bodies = append(bodies, held{"InternalStep", string(step), x.Path})
				if strings.Contains(string(step), `"origin":"model"`) {
					decisions++
				}
			}
		}
		fmt.Fprintf(&exchanges, "{\"request\": %s, \"response\": %s}\n", x.Body, strings.TrimSpace(answer))
	}
	for i, refusal := range recordedModels(t)(t, bodies) {
		if refusal != "" {
			t.Errorf("%s: %s\nof %.2000s", bodies[i].Model, refusal, bodies[i].Body)
		}
	}
	path := filepath.Join(t.TempDir(), "run.jsonl")
	writeFile(t, path, exchanges.String())
	rows, summary := exported(t, "--kind", "rollouts", path)
	if decisions < 3 || len(rows) != decisions {
		t.Errorf("%d rows of %d decisions: %s", len(rows), decisions, summary)
	}
}

// replay sends a recorded request as it was, headers included.
func replay(t *testing.T, r *running, x *recorded, body string) (status int, answer string) {
	t.Helper()
	send := http.Header{}
	for name, value := range x.Headers {
		send.Set(name, value)
	}
	send.Del("Accept-Encoding") // the client has its own, which it decodes
	status, _, answer, err := exchangeHeader(x.Method, r.at("/magma").url+x.Path, body, send)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

// models are MAGMA's models of a recorded body and of its answer; "": there is none.
func (x *recorded) models() (sent, got string) {
	switch {
	case x.Method == http.MethodPut:
		return "CoachingSessionConfig", ""
	case x.Method == http.MethodDelete:
		return "", ""
	case strings.HasSuffix(x.Path, "/health"):
		return "", "AgentHealth"
	case strings.HasSuffix(x.Path, "/v1/info"):
		return "", "AgentInfo"
	case strings.HasSuffix(x.Path, "/v1/coaching"):
		return "SpecializedCoachingRequest", "SpecializedCoachingResponse"
	}
	return "AgentRequest", "AgentResponse"
}
