//go:build !race

package household

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agentd/protocol"
)

// answering is a server that gives the same outputs, and keeps the request.
type answering struct {
	outs []protocol.AgentOutput
	err  error
	req  *protocol.AgentRequest
}

func (a *answering) Responses(_ context.Context, req *protocol.AgentRequest) ([]protocol.AgentOutput, error) {
	a.req = req
	return a.outs, a.err
}

// TestCorrectionCarriesTheRightDecision, and the answer's memory decides.
func TestCorrectionCarriesTheRightDecision(t *testing.T) {
	for seed := range uint64(20) {
		e := New(seed, Options{Split: Eval})
		s := &answering{outs: []protocol.AgentOutput{{Memory: protocol.Raw(`{"corrected":true}`), Output: new(protocol.AgentDecision)}}}
		memory, err := e.Correct(t.Context(), s)
		if err != nil || string(memory) != `{"corrected":true}` {
			t.Fatalf("got %s, %v", memory, err)
		}
		req, err := protocol.DecodeAgentRequest(s.req.AppendJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := protocol.Get(req.Inputs[0].ExtraKeys, "coaching")
		correction, err := protocol.DecodeCorrection(raw)
		if err != nil || !Same(correction.Corrected(), e.Expected()) {
			t.Errorf("seed %d: %s corrects to something else than %v: %v", seed, raw, e.Expected(), err)
		}
	}
}

// TestInvalidAnswersAreErrors; an output without a decision is one only for a correction.
func TestInvalidAnswersAreErrors(t *testing.T) {
	broken := errors.New("broken")
	none := protocol.AgentOutput{Error: &protocol.AgentError{Code: "invalid_output", Message: "no decision"}}
	for name, test := range map[string]struct {
		server       answering
		ask, correct string // "": no error
	}{
		"a server that fails": {answering{err: broken}, "broken", "broken"},
		"two answers":         {answering{outs: []protocol.AgentOutput{none, none}}, "2 answers", "2 answers"},
		"no decision":         {answering{outs: []protocol.AgentOutput{none}}, "", "invalid_output: no decision"},
	} {
		e := New(1, Options{})
		out, err := e.Ask(t.Context(), &test.server)
		if (err == nil) != (test.ask == "") || err != nil && !strings.Contains(err.Error(), test.ask) || err == nil && out.Error == nil {
			t.Errorf("%s: asked, got %v", name, err)
		}
		if _, err := e.Correct(t.Context(), &test.server); err == nil || !strings.Contains(err.Error(), test.correct) {
			t.Errorf("%s: corrected, got %v", name, err)
		}
	}
}
