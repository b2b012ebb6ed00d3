package live

import (
	"fmt"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/inference/load"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/scheduler"
)

// TestSummariesAreAdmittedWithTheirCandidates, and unused places are given back.
func TestSummariesAreAdmittedWithTheirCandidates(t *testing.T) {
	s := openTiny(t, synth.Qwen3, load.Config{ContextLength: 8192, Scheduler: scheduler.Config{QueueLimit: 3}, Agent: agent.Config{Kind: agent.HistorySummarized, Summary: agent.Summary{Budget: 1500, MaxTokens: 8}}})
	ask := func(history string, n int) ([]protocol.AgentOutput, error) {
		req, err := protocol.DecodeAgentRequest([]byte(fmt.Sprintf(
			`{"request_id":"r","inputs":[{"id":1,"num_outputs":%d,"memory":{"history":[%s]},"instruction":{"type":"user","content":"Go."}}]}`, n, history)))
		if err != nil {
			t.Fatal(err)
		}
		return s.Decide(t.Context(), req)
	}
	long := `{"content":"` + strings.Repeat("the cup is on the table ", 200) + `"}`
	if outs, err := ask(long, 2); err != nil || len(outs) != 2 || len(outs[0].InternalSteps) != 2 {
		t.Fatalf("%d outputs, %v: %+v", len(outs), err, outs[0].Error)
	}
	if _, err := ask(long, 3); err == nil || !strings.Contains(err.Error(), "but this server admits 3; send fewer inputs or candidates, or raise queue_limit") {
		t.Errorf("one more than may be admitted: %v", err)
	}
	if outs, err := ask("", 3); err != nil || len(outs) != 3 {
		t.Errorf("without a history: %d outputs, %v", len(outs), err)
	}
	if n := s.Engine.Stats().Admitted; n != 0 {
		t.Errorf("%d are admitted in the end", n)
	}
}
