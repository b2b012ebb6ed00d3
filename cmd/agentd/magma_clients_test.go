package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentd/internal/version"
	"agentd/llama/synth"
	"agentd/protocol"
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
	coach := httptest.NewServer(http.HandlerFunc(pressesTheButton))
	t.Cleanup(coach.Close)
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
				sent, got := checkReplayed(t, &x, body, answer)
				if sent != "" {
					bodies = append(bodies, held{sent, body, x.Path})
				}
				if got != "" {
					bodies = append(bodies, held{got, answer, x.Path})
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
	req, err := http.NewRequestWithContext(t.Context(), x.Method, r.at("/magma").url+x.Path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range x.Headers {
		req.Header.Set(name, value)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if text, err = gzip.NewReader(text); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := io.ReadAll(text)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// checkReplayed holds an answer against its request and, where no model decides,
// against the recorded one. It names MAGMA's models of both.
func checkReplayed(t *testing.T, x *recorded, body, answer string) (sent, got string) {
	t.Helper()
	switch {
	case x.Method == http.MethodPut:
		return "CoachingSessionConfig", ""
	case x.Method == http.MethodDelete:
		return "", ""
	case x.Method == http.MethodGet:
		was := strings.ReplaceAll(string(x.Answer), `"agent_version":"0.1.0"`, `"agent_version":"`+version.Release+`"`)
		if !sameJSON(t, answer, was) {
			t.Errorf("%s: got %s, it was %s", x.Path, answer, was)
		}
		if strings.HasSuffix(x.Path, "/health") {
			return "", "AgentHealth"
		}
		return "", "AgentInfo"
	case strings.HasSuffix(x.Path, "/v1/coaching"):
		checkCoached(t, x, body, answer)
		return "SpecializedCoachingRequest", "SpecializedCoachingResponse"
	}
	request, err := protocol.DecodeAgentRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	outs, err := protocol.DecodeAgentOutputs([]byte(answer))
	if err != nil {
		t.Fatal(err)
	}
	if err := protocol.ValidateResponse(request, outs); err != nil {
		t.Fatal(err)
	}
	was, err := protocol.DecodeAgentOutputs(x.Answer)
	if err != nil || len(was) != len(outs) {
		t.Fatalf("%d outputs were recorded, and %d came: %v", len(was), len(outs), err)
	}
	for i, o := range outs {
		if _, corrected := protocol.Get(request.Inputs[i].ExtraKeys, "coaching"); corrected &&
			(answerOf(o) != answerOf(was[i]) || string(o.Memory) != string(was[i].Memory)) {
			t.Errorf("the correction of input %d: got %s, memory %s; it was %s, memory %s", i, answerOf(o), o.Memory, answerOf(was[i]), was[i].Memory)
		}
	}
	return "AgentRequest", "AgentResponse"
}

// checkCoached holds a coaching response against its request. The coach is the same
// as it was, so the proposals have to be.
func checkCoached(t *testing.T, x *recorded, body, answer string) {
	t.Helper()
	request, err := protocol.DecodeSpecializedCoachingRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := protocol.DecodeSpecializedCoachingResponse([]byte(answer))
	if err != nil {
		t.Fatal(err)
	}
	was, err := protocol.DecodeSpecializedCoachingResponse(x.Answer)
	if err != nil {
		t.Fatal(err)
	}
	if response.RequestID != request.RequestID || response.Status != was.Status || len(response.Proposals) != len(was.Proposals) {
		t.Fatalf("%s: got %s, it was %s", request.Kind, answer, x.Answer)
	}
	for i, p := range response.Proposals {
		if p.ReinjectionPointID != was.Proposals[i].ReinjectionPointID || !sameJSON(t, string(p.ExtraKeys), string(was.Proposals[i].ExtraKeys)) {
			t.Errorf("%s, proposal %d: got %+v, it was %+v", request.Kind, i, p, was.Proposals[i])
		}
	}
}

// sameJSON compares two JSON texts but for white space and the order of members.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var texts [2]string
	for i, text := range []string{a, b} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		sorted, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(sorted)
	}
	return texts[0] == texts[1]
}

var goalButton = regexp.MustCompile(`goal of this stage is to press (\w+)`)

// pressesTheButton is the coach of the recorded run, examples/magma/coach.py: it
// presses the button that the stage's goal names.
func pressesTheButton(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages       []struct{ Content string }
		ResponseFormat struct {
			Schema struct {
				Schema struct {
					Properties struct {
						Point struct{ Enum []string } `json:"reinjection_point_id"`
					}
				}
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	points := request.ResponseFormat.Schema.Schema.Properties.Point.Enum
	goal := goalButton.FindStringSubmatch(request.Messages[len(request.Messages)-1].Content)
	if goal == nil || len(points) == 0 {
		answerChat(w, "{}") // the test of the connection
		return
	}
	call := map[string]any{"name": "press_button", "arguments": map[string]string{"id": goal[1]}, "target_robot_name": "panda"}
	answer, err := json.Marshal(map[string]any{
		"why": "The stage is done when it is pressed.", "outcome": "corrected", "reinjection_point_id": points[len(points)-1],
		"decision": map[string]any{"say": "", "tool_calls": []any{call}},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answerChat(w, string(answer))
}
