package serve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"agentd/llama"
)

func TestIncompatibleLlamaCppGetsHintWithOption(t *testing.T) {
	for _, test := range []struct {
		err  error
		hint bool
	}{
		{fmt.Errorf("the engine could not start: %w", llama.ErrIncompatible), true},
		{llama.ErrNoKVSlot, false},
	} {
		got := withHint(test.err)
		if !errors.Is(got, test.err) || strings.Contains(got.Error(), "--debug cpu-attention=ggml") != test.hint {
			t.Errorf("%v: got %v", test.err, got)
		}
	}
}
