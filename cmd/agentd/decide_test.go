package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/household"
	"agentd/llama/synth"
	"agentd/protocol"
)

// decidePackages are what the clients of decisions need: the first of OpenAI's with them.
var decidePackages = append([]string{"openai==3.51.0", "typesafe-sdk==0.7.5", "tenacity==9.2.1", "packaging==26.4"}, openAIPackages[1:]...)

func TestReleasedClientsOfDecisions(t *testing.T) {
	t.Parallel()
	p := installedPython(t, decidePackages)
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3))
	command := p.command(t, filepath.Join("testdata", "decide_client.py"), r.url)
	command.Env = append(command.Env, "NO_PROXY=127.0.0.1")
	if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "all is well") {
		t.Errorf("%v\n%s", err, out)
	}
}

// asked is the answers part of a decision, byte for byte.
func asked(r *running, path, body string) (string, error) {
	status, answer, err := exchange("POST", r.url+path, body)
	if err != nil || status != http.StatusOK {
		return "", fmt.Errorf("got %d %.500s, %w", status, answer, err)
	}
	var got struct{ Answers json.RawMessage }
	err = json.Unmarshal([]byte(answer), &got)
	return string(got.Answers), err
}

const goTool = `{"type": "function", "name": "go_to", "parameters": {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}}`

// manyDecisions are bodies of every kind, by number.
func manyDecisions(k int) (path, body string) {
	state := fmt.Sprintf("Robot %d is in room %d. %s", k%5, k%3, strings.Repeat("It has a cup and a book. ", 1+k%7))
	switch k % 3 {
	case 0:
		return "/v1/systemone", fmt.Sprintf(`{"state": %q, "orders": 2, "questions": {"a": {"type": "noul", "instructions": "Is it %d?"}, "b": {"type": "choice", "criteria": {"hall": null, "attic": "high", "room %d": null}}}}`, state, k, k)
	case 1:
		var choices []string
		for i := range 30 {
			choices = append(choices, fmt.Sprintf(`{"value": "place %d"}`, i))
		}
		return "/v1/decisions", fmt.Sprintf(`{"input": %q, "questions": [{"type": "choice", "instructions": "Where?", "choices": [%s]}]}`, state, strings.Join(choices, ","))
	}
	call := func(room string) string {
		return fmt.Sprintf(`{"value": {"type": "function_call", "name": "go_to", "arguments": "{\"room\": \"%s\"}"}}`, room)
	}
	return "/v1/decisions", fmt.Sprintf(`{"input": %q, "tools": [%s], "questions": [{"type": "choice", "instructions": "Go on.", "choices": [%s, %s, {"value": "unsure"}]}]}`,
		state, goTool, call("hall"), call(fmt.Sprint("room ", k)))
}

func TestSixteenClientsGetTheBytesThatTheyGetAlone(t *testing.T) {
	t.Parallel()
	const n = 24
	r := serveModel(t) // the default model
	alone := make([]string, n)
	for k := range n {
		path, body := manyDecisions(k)
		var err error
		if alone[k], err = asked(r, path, body); err != nil {
			t.Fatalf("%d: %v", k, err)
		}
	}
	var wg sync.WaitGroup
	for client := range 16 {
		wg.Go(func() {
			for i := range n / 2 { // others have the other half
				k := (i*7 + client*5) % n
				path, body := manyDecisions(k)
				if got, err := asked(r, path, body); err != nil || got != alone[k] {
					t.Errorf("%d: %v\n%s\nalone:\n%s", k, err, got, alone[k])
				}
			}
		})
	}
	wg.Wait()
}

func TestStateIsComputedOnceForAllQuestions(t *testing.T) {
	t.Parallel()
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3))
	var questions []string
	for i := range 32 {
		questions = append(questions, fmt.Sprintf(`{"type": "predicate", "instructions": "Is it %d?"}`, i))
	}
	before := r.metric("agentd_step_tokens_total")
	status, answer, err := exchange("POST", r.url+"/v1/decisions", `{"input": "`+strings.Repeat("It has a cup. ", 60)+`", "questions": [`+strings.Join(questions, ",")+`]}`)
	var got struct {
		Usage struct {
			Input   int `json:"input_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"input_tokens_details"`
		}
	}
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(answer), &got) != nil {
		t.Fatalf("%d %.500s, %v", status, answer, err)
	}
	computed := int(r.metric("agentd_step_tokens_total") - before)
	if computed < got.Usage.Input/32 || computed > got.Usage.Input/3 || got.Usage.Details.Cached < got.Usage.Input/2 {
		t.Errorf("%d tokens were computed, usage %+v", computed, got.Usage)
	}
}

// optionTold is what a step reports of an option.
type optionTold struct {
	Elements struct {
		Generation struct {
			Candidate struct {
				Probability, Logprob, Omitted float64
				Mass                          float64 `json:"label_mass"`
				Paths, Option                 int
			}
		}
	} `json:"input_elements"`
}

// The options are what a search for different decisions finds, and a reply.
func TestOptionsOfADecisionAreRankedByProbability(t *testing.T) {
	t.Parallel()
	r := serveModel(t)
	sent := household.New(3, household.Options{Split: household.Eval}).Input()
	in := user(sent.ID, sent.Instruction.Content).tools(string(protocol.AppendElements(nil, sent.Tools...)))
	in.Attributes = json.RawMessage(sent.Attributes)
	found := r.ask("a", in.outputs(3).extra(`{"inference_mode": true, "candidates": {"distinct": true}}`))
	options := []string{`"unsure"`}
	for _, out := range found {
		if out.Output != nil {
			options = append(options, string(out.Output.AppendJSON(nil)))
		}
	}
	if len(options) < 3 {
		t.Fatalf("only %d decisions were found", len(options)-1)
	}
	outs := r.ask("a", in.outputs(len(options)).extra(`{"inference_mode": true, "options": [`+strings.Join(options, ",")+`]}`))
	sum, last := 0.0, 1.0
	for k, out := range outs {
		if out.Output == nil {
			t.Fatalf("candidate %d: %+v", k, out.Error)
		}
		var told optionTold
		if err := json.Unmarshal(out.InternalSteps[0], &told); err != nil {
			t.Fatal(err)
		}
		c := told.Elements.Generation.Candidate
		want, err := protocol.DecodeAgentDecision([]byte(options[c.Option]))
		if options[c.Option] == `"unsure"` {
			want, err = &protocol.AgentDecision{Say: "unsure"}, nil
		}
		if err != nil || !household.Same(*want, *out.Output) {
			t.Errorf("candidate %d is %+v, and names option %d: %s", k, out.Output, c.Option, options[c.Option])
		}
		if c.Probability > last || c.Paths < 1 || c.Mass > 1+1e-6 || math.Abs(math.Exp(c.Logprob)/c.Mass-c.Probability) > 1e-9 {
			t.Errorf("candidate %d: %+v", k, c)
		}
		sum, last = sum+c.Probability, c.Probability
		if k == 0 && !household.Same(*out.Output, *found[0].Output) {
			t.Errorf("the most probable option is %+v, and the search found %+v", out.Output, found[0].Output)
		}
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("the probabilities sum up to %g", sum)
	}
	none := r.ask("a", in.outputs(2).extra(`{"inference_mode": true, "options": ["unsure", {"tool_calls": [{"name": "fly", "arguments": {}, "target_robot_name": "x"}]}]}`))
	if none[0].Error == nil || none[0].Error.Code != "invalid_options" || !strings.Contains(none[0].Error.Message, "option 1") {
		t.Errorf("a call of an unknown tool: %s", answerOf(none[0]))
	}
	more := r.ask("a", in.outputs(3).extra(`{"inference_mode": true, "options": ["unsure", {"say": "yes"}]}`))
	if more[2].Error == nil || more[2].Error.Code != "fewer_candidates" {
		t.Errorf("a third candidate of two options: %s", answerOf(more[2]))
	}
}

func TestToolsOfAQuestionThatCannotBeCompiledAreNamed(t *testing.T) {
	t.Parallel()
	r := serveModel(t, "--model", tinyModel(t, synth.Qwen3))
	call := `{"value": {"type": "function_call", "name": "f", "arguments": "{}"}}`
	body := func(parameters string) string {
		return `{"input": "a", "tools": [{"type": "function", "name": "f", "parameters": ` + parameters + `}], "questions": [{"type": "choice", "instructions": "", "choices": [` + call + `, {"value": "no"}]}]}`
	}
	r.expect(400, `questions[0]`, "POST", "/v1/decisions", body(`{"type": "object", "properties": {"a": {"type": "string", "pattern": "^.(?=a).*$"}}, "required": ["a"]}`))
	r.expect(400, `option 0 can't be answered`, "POST", "/v1/decisions", body(`{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}`))
	r.expect(200, `"function_call"`, "POST", "/v1/decisions", body(`{"type": "object"}`))
	r.expect(400, `context of 8192`, "POST", "/v1/systemone", `{"state": "`+strings.Repeat("a b ", 20000)+`", "questions": {"q": {"type": "noul"}}}`)
}

// TestVLLMWithQwenGivesTheSameProbabilities is for make test-vllm, which starts a vLLM with random weights.
func TestVLLMWithQwenGivesTheSameProbabilities(t *testing.T) {
	url, dir := os.Getenv("AGENTD_TEST_VLLM_QWEN"), os.Getenv("AGENTD_TEST_VLLM_QWEN_MODEL")
	if url == "" {
		t.Skip("no AGENTD_TEST_VLLM_QWEN; make test-vllm starts vLLM and sets it")
	}
	r := serveModel(t, "--model", dir)
	type told struct {
		Answers map[string]struct {
			Type          string
			Probabilities map[string]float64
			Confidence    float64
			Noul, Score   float64
			Choice        string
		}
		Usage struct {
			Input int `json:"input_tokens"`
		}
		Diagnostics map[string]struct {
			Mass float64 `json:"label_mass"`
			Best bool    `json:"argmax_is_label"`
		}
	}
	worst := 0.0
	for k := range 12 {
		body := fmt.Sprintf(`{"model": %q, "state": {"robot": %d, "rooms": ["hall", "attic"], "text": "é %s"}, "instructions": "Be exact.", "questions": {
			"lit": {"type": "noul", "instructions": "Is room %d lit?", "criteria": {"true": "the lamp is on"}},
			"where": {"type": "choice", "instructions": "Where?", "criteria": {"hall": "big", "attic": null, "room %d": "new"}},
			"full": {"type": "score", "criteria": ["empty", "half", "full"]}}}`, dir, k, strings.Repeat("It has a cup. ", k*3), k, k)
		var answers [2]told
		for i, server := range []string{url, r.url} {
			status, _, text, err := exchangeHeader("POST", server+"/v1/systemone", body, http.Header{"Content-Type": {"application/json"}})
			if err != nil || status != 200 {
				t.Fatalf("%s: %d %s, %v", server, status, text, err)
			}
			if err := json.Unmarshal([]byte(text), &answers[i]); err != nil {
				t.Fatal(err)
			}
		}
		want, got := answers[0], answers[1]
		if want.Usage.Input != got.Usage.Input || len(got.Answers) != 3 {
			t.Errorf("%d: usage %+v, vLLM %+v", k, got.Usage, want.Usage)
		}
		for name, a := range want.Answers {
			b := got.Answers[name]
			if len(a.Probabilities) != len(b.Probabilities) || a.Type != b.Type || a.Choice != b.Choice || math.Abs(a.Noul-b.Noul) > 1e-3 || math.Abs(a.Score-b.Score) > 1e-3 {
				t.Errorf("%d %s: %+v, vLLM %+v", k, name, b, a)
			}
			for option, p := range a.Probabilities {
				worst = max(worst, math.Abs(p-b.Probabilities[option]))
				if math.Abs(p-b.Probabilities[option]) > 1e-3 {
					t.Errorf("%d %s: %s has %g, with vLLM %g", k, name, option, b.Probabilities[option], p)
				}
			}
			m, n := want.Diagnostics[name], got.Diagnostics[name]
			worst = max(worst, math.Abs(n.Mass/m.Mass-1))
			if math.Abs(m.Mass-n.Mass) > 1e-3*m.Mass || m.Best != n.Best {
				t.Errorf("%d %s: %+v, vLLM %+v", k, name, n, m)
			}
		}
	}
	t.Logf("the largest difference is %.1g", worst)
}
