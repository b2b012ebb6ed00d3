package main

import (
	"encoding/json"
	"math"
	"testing"

	"agentd/agent"
	"agentd/household"
	"agentd/protocol"
)

func TestLlamaServerDrawsDistinctCandidates(t *testing.T) {
	distinctDraws(t, serveEngines(t, []string{llamaServer(t, defaultFile(t), "--ctx-size", "32768").url}))
}

func TestAgentdAsEngineDrawsDistinctCandidates(t *testing.T) {
	distinctDraws(t, serveEngines(t, []string{serveModel(t, "--completions").url}))
}

// distinctDraws asks a server before an engine for distinct candidates. The oracle of their
// probabilities is the search of the embedded engine.
func distinctDraws(t *testing.T, r *running) {
	const most = `{"inference_mode":true,"candidates":{"distinct":true,"rank":"logprob"}}`
	ours := newClient(t, serveModel(t))
	several, compared := 0, 0
	for i, in := range householdInputs(t, ours, 12) {
		in.NumOutputs = 6
		ask := func(s household.Server, keys string) []protocol.AgentOutput {
			in.ExtraKeys = protocol.Raw(keys)
			outs, err := s.Responses(t.Context(), &protocol.AgentRequest{RequestID: "r", Inputs: []protocol.AgentInput{in}})
			if err != nil {
				t.Fatal(err)
			}
			return outs
		}
		searched := ask(ours, most)
		last, found := 1.0, 0
		for k, out := range ask(newClient(t, r), `{"inference_mode":false,"candidates":{"distinct":true,"rank":"logprob"}}`) {
			if out.Output == nil {
				if out.Error.Code != agent.CodeFewerCandidates && out.Error.Code != agent.CodeInvalidOutput && out.Error.Code != agent.CodeTruncated {
					t.Errorf("input %d, candidate %d: %+v", i, k, out.Error)
				}
				continue
			}
			p, exact := candidateOf(t, &out)
			if k != found || p > last || exact {
				t.Errorf("input %d: candidate %d has %g after %g, exact %t", i, k, p, last, exact)
			}
			last, found = p, found+1
			for _, s := range searched {
				if s.Output == nil || !household.Same(*s.Output, *out.Output) {
					continue
				}
				// The grammar only adds to a probability. Engines round otherwise.
				if q, _ := candidateOf(t, &s); p > 1.1*q+0.01 || q > 0.5 && p < q/2 {
					t.Errorf("input %d, candidate %d: %g, and %g by the search", i, k, p, q)
				}
				compared++
			}
		}
		if found == 0 {
			t.Errorf("input %d: no decision", i)
		}
		if found > 1 {
			several++
		}
	}
	if several == 0 || compared < 12 {
		t.Errorf("%d of 12 inputs have several decisions, %d probabilities were compared", several, compared)
	}
	r.expect(422, "inference_mode", "POST", "/v1/responses",
		`{"request_id":"r","inputs":[{"id":1,"instruction":{"type":"user","content":"Wait."},"extra_keys":`+most+`}]}`)
}

// candidateOf reads what the last step tells of a candidate.
func candidateOf(t *testing.T, out *protocol.AgentOutput) (probability float64, exact bool) {
	t.Helper()
	var step struct {
		Elements struct {
			Generation struct {
				Candidate *struct {
					Probability, Logprob float64
					Exact                bool
				}
			}
		} `json:"input_elements"`
	}
	if err := json.Unmarshal(out.InternalSteps[len(out.InternalSteps)-1], &step); err != nil || step.Elements.Generation.Candidate == nil {
		t.Fatalf("%v in %.500s", err, out.InternalSteps)
	}
	c := step.Elements.Generation.Candidate
	if math.Abs(math.Exp(c.Logprob)-c.Probability) > 1e-9 {
		t.Errorf("%+v", c)
	}
	return c.Probability, c.Exact
}
