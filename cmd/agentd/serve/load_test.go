package serve

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
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

func TestLocalServerNamesTheFileOfAMissingModel(t *testing.T) {
	c := DefaultConfig()
	c.Inference.Path = filepath.Join(t.TempDir(), "none.gguf")
	if _, err := StartLocal(t.Context(), *c, io.Discard); err == nil || !strings.Contains(err.Error(), "none.gguf") {
		t.Errorf("got %v", err)
	}
}
