package agent_test

import (
	"errors"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/protocol"
)

func TestTokenIDsBeyondTheContextAreRefused(t *testing.T) {
	a := newAgent(t, agent.Config{MaxNewTokens: 10, ContextLength: 100}, nil)
	for n, refused := range map[int]bool{100: false, 101: true, 10_000: true} {
		ids := strings.Repeat("1,", n-1) + "1"
		req := request(t, `{"num_outputs": 2, "extra_keys": {"continue": [[1], [`+ids+`]]}}`)
		_, err := a.Prepare(req, nil)
		var problems protocol.Problems
		if errors.As(err, &problems) != refused {
			t.Errorf("%d token ids: %v", n, err)
		}
		if refused && (len(problems) != 1 || problems[0].Path() != "body.inputs[0].extra_keys.continue[1]" && !strings.Contains(problems[0].Path(), "continue")) {
			t.Errorf("%d token ids: %v", n, problems)
		}
	}
	// What follows the token beyond the limit is not read.
	req := request(t, `{"extra_keys": {"continue": [[`+strings.Repeat("1,", 100)+`-1]]}}`)
	if _, err := a.Prepare(req, nil); err == nil || !strings.Contains(err.Error(), "more token ids than the 100 of the model's context") {
		t.Errorf("a token id that is wrong beyond the limit: %v", err)
	}
}
