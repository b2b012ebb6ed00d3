package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/household"
	"agentd/inference/load"
	"agentd/protocol"
	"agentd/scheduler"
)

// branchTold is what a step reports of a candidate of a search.
type branchTold struct {
	Elements struct {
		Generation struct {
			Candidate *struct {
				Probability, Logprob float64
				Paths                int
				Exact                bool
			}
		}
	} `json:"input_elements"`
}

// Through the whole service, with the default model: decisions differ and are ranked.
func TestDistinctCandidatesDifferAndAreRanked(t *testing.T) {
	s := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}})
	for i, in := range conversations(t, s)[:12] {
		in.NumOutputs = 4
		in.ExtraKeys = protocol.Raw(`{"inference_mode":true,"candidates":{"distinct":true,"rank":"logprob"}}`)
		req := &protocol.AgentRequest{RequestID: fmt.Sprint(i), Inputs: []protocol.AgentInput{in}}
		outs, err := s.Decide(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if err := protocol.ValidateResponse(req, outs); err != nil {
			t.Fatal(err)
		}
		sum, last := 0.0, 1.0
		for k, out := range outs {
			if out.Output == nil {
				if out.Error.Code != agent.CodeFewerCandidates && out.Error.Code != agent.CodeInvalidOutput && out.Error.Code != agent.CodeTruncated {
					t.Errorf("candidate %d: %+v", k, out.Error)
				}
				continue
			}
			for _, before := range outs[:k] {
				if before.Output == nil || household.Same(*before.Output, *out.Output) {
					t.Errorf("input %d: candidate %d is missing or equals a later one", i, before.CandidateIndex)
				}
			}
			var step branchTold
			if err := json.Unmarshal(out.InternalSteps[0], &step); err != nil {
				t.Fatal(err)
			}
			c := step.Elements.Generation.Candidate
			if c == nil || c.Paths < 1 || c.Probability > last || math.Abs(math.Exp(c.Logprob)-c.Probability) > 1e-9 {
				t.Fatalf("candidate %d: %+v after %g", k, c, last)
			}
			sum, last = sum+c.Probability, c.Probability
		}
		if sum <= 0 || sum > 1.001 {
			t.Errorf("input %d: the probabilities sum up to %g", i, sum)
		}
	}
}

func TestDistinctCandidatesAreRefusedWhereTheyCannotBe(t *testing.T) {
	in := household.New(1, household.Options{Split: household.Eval}).Input()
	for name, c := range map[string]struct {
		cfg  load.Config
		keys string
		says string
	}{
		"draws":    {load.Config{}, `{"candidates":{"distinct":true}}`, "inference_mode"},
		"logprobs": {load.Config{}, `{"inference_mode":true,"candidates":{"distinct":true},"return":["logprobs"]}`, "logprobs"},
	} {
		s := openDefault(t, c.cfg)
		in.ExtraKeys = protocol.Raw(c.keys)
		_, err := s.Decide(t.Context(), &protocol.AgentRequest{RequestID: "1", Inputs: []protocol.AgentInput{in}})
		var problems protocol.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The cost of a search is counted in steps and rows, since a time is not a property of the code. Plain
// samples of the same inputs are the measure: docs/decisions/distinct-candidates.md.
func TestSearchNeedsAsManyRowsAsPlainSamples(t *testing.T) {
	s := openDefault(t, load.Config{Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: width}}})
	const (
		plain, best, candidates = 0, 1, 8
	)
	var steps, rows [2]uint64
	paths, outcomes := 0, 0
	for i, in := range conversations(t, s)[:20] {
		in.NumOutputs = candidates
		decide(t, s, in) // the prompt is cached
		for way, keys := range [...]string{plain: `{"inference_mode":false}`, best: `{"inference_mode":true,"candidates":{"distinct":true}}`} {
			in.ExtraKeys = protocol.Raw(keys)
			before := s.Engine.Stats()
			outs, err := s.Decide(t.Context(), &protocol.AgentRequest{RequestID: fmt.Sprint(i), Inputs: []protocol.AgentInput{in}})
			if err != nil {
				t.Fatal(err)
			}
			after := s.Engine.Stats()
			steps[way] += after.Steps - before.Steps
			rows[way] += after.Rows - before.Rows
			for _, out := range outs {
				var step branchTold
				if len(out.InternalSteps) == 0 || json.Unmarshal(out.InternalSteps[0], &step) != nil || step.Elements.Generation.Candidate == nil {
					continue
				}
				outcomes++
				paths += step.Elements.Generation.Candidate.Paths
			}
		}
	}
	t.Logf("plain: %d steps of %d rows; most probable: %d steps of %d rows; %d decisions by %d token sequences", steps[plain], rows[plain], steps[best], rows[best], outcomes, paths)
	if rows[best] > rows[plain]+rows[plain]/4 || steps[best] > 3*steps[plain] {
		t.Errorf("%d steps of %d rows, plain samples take %d steps of %d rows", steps[best], rows[best], steps[plain], rows[plain])
	}
}
