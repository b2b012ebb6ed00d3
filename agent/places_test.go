package agent_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/agent"
)

// kept records what is left of an admission.
type kept struct {
	instant
	left []int
}

func (k *kept) Keep(n int) { k.left = append(k.left, n) }

// TestPromptThatDoesNotFitGivesItsPlacesBack before anything is generated.
func TestPromptThatDoesNotFitGivesItsPlacesBack(t *testing.T) {
	a := newAgent(t, agent.Config{MaxNewTokens: 10, ContextLength: 4000}, nil)
	req := request(t, "{"+tools+"}", "{"+tools+"}")
	req.Inputs[1].Instruction.Content = strings.Repeat("word ", 5000)
	plan, err := a.Prepare(req, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &kept{}
	if _, err := a.Run(t.Context(), plan, g); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{2, 1, 1}, g.left); diff != "" {
		t.Error(diff)
	}
}
