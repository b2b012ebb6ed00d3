package llama

import (
	"errors"
	"strings"
	"testing"

	"agentd/llama/synth"
)

// decodeTwice decodes two batches of one shape in a context, which evaluates the same graph twice.
func decodeTwice(t *testing.T, c *Context) error {
	t.Helper()
	for round := range Pos(2) {
		if err := c.Decode([]Row{{65, 2 * round, 0, false}, {65, 2*round + 1, 0, true}}); err != nil {
			return err
		}
	}
	return nil
}

func TestBrokenAssumptionIsRefusedWithItsReason(t *testing.T) {
	if !SharedAttention() {
		t.Skip("this machine has no shared attention")
	}
	m := shared(t, synth.Qwen3)
	for _, tc := range []struct {
		name string
		kind int
		want string
	}{
		{"a renamed output node", outputName, "result_output"},
		{"no call of the hook", graphHook, "hook"},
		{"no call that sets threads", threadCall, "threads before each evaluation"},
		{"another layout of masks", maskLayout, "layout of masks"},
		{"logits read past the backend", outputRead, "through the backend"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defer breakAssumption(0)
			breakAssumption(tc.kind)
			c, err := m.NewContext(SetContext(256), SetBatch(32), SetThreads(1, 1))
			if err == nil {
				err = decodeTwice(t, c)
				c.Close()
			}
			if !errors.Is(err, ErrIncompatible) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "; ") {
				t.Errorf("%v does not say %q and what to do", err, tc.want)
			}
			SetSharedAttention(false)
			defer SetSharedAttention(true)
			if err := decodeTwice(t, newContext(t, m)); err != nil {
				t.Errorf("without shared attention: %v", err)
			}
		})
	}
}

func TestLogitsReadPastTheBackendAreNoticedWhileDecoding(t *testing.T) {
	if !SharedAttention() {
		t.Skip("this machine has no shared attention")
	}
	c := newContext(t, shared(t, synth.Qwen3))
	defer breakAssumption(0)
	breakAssumption(outputRead)
	if err := decodeTwice(t, c); !errors.Is(err, ErrIncompatible) {
		t.Errorf("got %v", err)
	}
}

func TestUnknownGrammarElementIsRefused(t *testing.T) {
	defer breakAssumption(0)
	breakAssumption(grammarElement)
	if err := checkGrammar(shared(t, synth.Qwen3), `root ::= [a-z]`); !errors.Is(err, ErrGrammar) || !strings.Contains(err.Error(), "grammar element") {
		t.Errorf("got %v", err)
	}
}
