package main

import (
	"path/filepath"
	"strings"
	"testing"

	"agentd/cmd/internal/options/optionstest"
)

func TestDocumentedOptionsExist(t *testing.T) {
	uses := optionstest.Uses(t, filepath.Join("..", ".."), "agentbench")
	if len(uses) < 3 {
		t.Fatalf("%d commands were found", len(uses))
	}
	for _, use := range uses {
		if len(use.Args) == 0 {
			continue
		}
		help := mustBench(t, use.Args[0], "--help")
		for _, flag := range use.Flags() {
			if !strings.Contains(help, "--"+flag+" ") && !strings.Contains(help, "--"+flag+"\n") {
				t.Errorf("%s: agentbench %s has no option --%s", use.File, use.Args[0], flag)
			}
		}
	}
}
