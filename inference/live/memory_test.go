package live

import (
	"errors"
	"strings"
	"testing"

	"agentd/inference/load"
	"agentd/internal/base/budget"
	"agentd/llama/synth"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

func TestTextBeyondTheContextIsNotTokenized(t *testing.T) {
	s := openTiny(t, synth.Qwen3, load.Config{})
	most := s.Window() * s.Llama.Vocab().LongestPiece()
	var overflow *generation.OverflowError
	if _, err := s.Tokenize(strings.Repeat("a", most+s.Llama.Vocab().LongestPiece()), false); !errors.As(err, &overflow) || !overflow.AtLeast {
		t.Errorf("got %v", err)
	}
	if ids, err := s.Tokenize(strings.Repeat("a", most), false); err != nil || len(ids) < s.Window() {
		t.Errorf("a text that may fit: %d tokens, %v", len(ids), err)
	}
}

func TestWorkBeyondTheBudgetIsNotBegun(t *testing.T) {
	s := openTiny(t, synth.Qwen3, load.Config{})
	req, err := protocol.DecodeAgentRequest([]byte(`{"request_id":"r","inputs":[{"id":1,"instruction":{"type":"user","content":"` + strings.Repeat("x", 1<<20) + `"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	share := budget.New(4 << 20).Share()
	if _, err := s.Decide(budget.With(t.Context(), share), req); !errors.As(err, new(*budget.TooLargeError)) {
		t.Errorf("got %v", err)
	}
	if share.Held() != 0 {
		t.Errorf("it holds %d bytes", share.Held())
	}
}
