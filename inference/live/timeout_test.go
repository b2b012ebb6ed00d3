package live

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/agent"
	"agentd/inference/load"
	"agentd/internal/base/waittest"
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
	req := decoded(t, `{"id":1,"num_outputs":32,"instruction":{"type":"user","content":"Go."}}`)
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

// TestCandidatesAreGivenBeforeTheirRequestEnds: the client leaves after the first one.
func TestCandidatesAreGivenBeforeTheirRequestEnds(t *testing.T) {
	s := openTiny(t, synth.Qwen3, load.Config{FixedTokens: 500, Scheduler: scheduler.Config{Policy: scheduler.Policy{MaxRunning: 1}, QueueLimit: 32}})
	ctx, leave := context.WithCancel(t.Context())
	given := make(chan int, 32)
	_, err := s.serving().DecideEach(ctx, decoded(t, `{"id":1,"num_outputs":32,"instruction":{"type":"user","content":"Go."}}`), func() {},
		func(_ int, out *protocol.AgentOutput) {
			given <- out.CandidateIndex
			leave()
		})
	if !errors.Is(err, context.Canceled) || len(given) == 0 || len(given) == 32 || <-given != 0 {
		t.Errorf("%v after %d candidates", err, len(given))
	}
	waittest.Eventually(t, "the engine is idle", func() bool { n := s.Engine.Stats(); return n.Running+n.Waiting == 0 })
}

func decoded(t *testing.T, inputs string) *protocol.AgentRequest {
	t.Helper()
	req, err := protocol.DecodeAgentRequest([]byte(`{"request_id":"r","inputs":[` + inputs + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// TestGivenCandidatesAreThoseOfTheWholeAnswer, failed and corrected ones too.
func TestGivenCandidatesAreThoseOfTheWholeAnswer(t *testing.T) {
	for _, kind := range []string{agent.FullHistory, agent.HistorySummarized} {
		t.Run(kind, func(t *testing.T) {
			s := openTiny(t, synth.Qwen3, load.Config{Agent: agent.Config{Kind: kind, MaxNewTokens: 24}, Scheduler: scheduler.Config{QueueLimit: 32}})
			req := decoded(t, `{"id":1,"num_outputs":5,"instruction":{"type":"user","content":"Go."}},
				{"id":2,"num_outputs":3,"instruction":{"type":"user","content":"Go."},"extra_keys":{"inference_mode":true}},
				{"id":3,"num_outputs":2,"instruction":{"type":"user","content":"Go."},"tools":[{"name":"a b"}]},
				{"id":4,"instruction":{"type":"user","content":"Go."},"extra_keys":{"coaching":{"kind":"replace_say","text":"Yes."}}},
				{"id":5,"num_outputs":2,"instruction":{"type":"user","content":"`+strings.Repeat("far ", 9000)+`"}}`)
			want, err := s.Decide(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			begun := 0
			got := make([]protocol.AgentOutput, len(want))
			first := []int{0, 5, 8, 10, 11}
			_, err = s.serving().DecideEach(t.Context(), req, func() { begun++ }, func(input int, out *protocol.AgentOutput) {
				mu.Lock()
				defer mu.Unlock()
				if place := first[input] + out.CandidateIndex; begun != 1 || got[place].Status != "" {
					t.Errorf("candidate %d of input %d, after %d beginnings", out.CandidateIndex, input, begun)
				} else {
					got[place] = *out
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range want { // the prefix cache has changed meanwhile
				for _, list := range [][]protocol.AgentOutput{want, got} {
					for k, step := range list[i].InternalSteps {
						list[i].InternalSteps[k] = cachedTokens.ReplaceAll(step, nil)
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var cachedTokens = regexp.MustCompile(`"cached_tokens":\d+,`)
