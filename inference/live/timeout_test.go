package live

import (
	"context"
	"testing"
	"time"

	"agentd/agent"
	"agentd/inference/load"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/scheduler"
)

// overdue is a context whose deadline passes when a test says so.
type overdue struct {
	context.Context
	done chan struct{}
}

func (o overdue) Done() <-chan struct{} { return o.done }

func (o overdue) Err() error {
	select {
	case <-o.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestTimeoutFailsOnlyUnfinishedCandidates: one candidate decodes at a time, and the time is up
// after the first one.
func TestTimeoutFailsOnlyUnfinishedCandidates(t *testing.T) {
	s := openTiny(t, synth.Qwen3, load.Config{FixedTokens: 500, Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1}, QueueLimit: 32}})
	req, err := protocol.DecodeAgentRequest([]byte(`{"request_id":"r","inputs":[{"id":1,"num_outputs":32,"instruction":{"type":"user","content":"Go."}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	late := overdue{t.Context(), make(chan struct{})}
	go func() {
		defer close(late.done)
		for s.Engine.Stats().Finished == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	outs, err := s.Decide(late, req)
	if err != nil || len(outs) != 32 {
		t.Fatalf("%d outputs, %v", len(outs), err)
	}
	if outs[0].Status != protocol.StatusCompleted {
		t.Errorf("the first one was done, and is %+v", outs[0].Error)
	}
	if e := outs[31].Error; e == nil || e.Code != agent.CodeTimeout {
		t.Errorf("the last one was not done, and is %s, %+v", outs[31].Status, e)
	}
}
