package inference

import (
	"fmt"
	"strings"
	"testing"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/llama/synth"
	"agentd/protocol"
)

func TestTheBudgetOfSummariesFitsTheContext(t *testing.T) {
	for name, test := range map[string]struct {
		opts              Options
		context, trained  int
		budget, maxTokens int
		want              string // of the error
	}{
		"a large context":                     {Options{MaxNewTokens: 1024}, 32768, 40960, 5000, 1024, ""},
		"a model of a short context":          {Options{MaxNewTokens: 1024}, 32768, 4096, 2304, 576, ""},
		"a small cache":                       {Options{MaxNewTokens: 256}, 2048, 4096, 1344, 336, ""},
		"a longer summary leaves less":        {Options{MaxNewTokens: 256, SummaryMaxTokens: 1000}, 4096, 0, 2322, 1000, ""},
		"characters":                          {Options{MaxNewTokens: 1024, SummaryCharacters: true}, 32768, 40960, 20000, 1024, ""},
		"characters in a small cache":         {Options{MaxNewTokens: 256, SummaryCharacters: true}, 2048, 4096, 5376, 336, ""},
		"a budget that one chose":             {Options{MaxNewTokens: 256, SummaryBudget: 1500}, 2048, 4096, 1500, 375, ""},
		"few characters":                      {Options{MaxNewTokens: 256, SummaryBudget: 5000, SummaryCharacters: true}, 8192, 8192, 5000, 312, ""},
		"without contexts, for prompts alone": {Options{MaxNewTokens: 256}, 0, 0, 5000, 1024, ""},

		"a budget beyond the context":        {Options{MaxNewTokens: 1024, SummaryBudget: 3100}, 32768, 4096, 0, 0, "--summary-budget 3100 and the 1024 tokens"},
		"a summary beyond it":                {Options{MaxNewTokens: 16, SummaryBudget: 2000, SummaryMaxTokens: 100}, 2048, 0, 0, 0, "the 100 tokens of an answer or a summary do not fit"},
		"a summary that fills the budget":    {Options{MaxNewTokens: 256, SummaryBudget: 1000, SummaryMaxTokens: 1000}, 8192, 0, 0, 0, "--summary-max-tokens 1000 leaves nothing"},
		"one that fills few characters":      {Options{MaxNewTokens: 256, SummaryBudget: 4000, SummaryMaxTokens: 1000, SummaryCharacters: true}, 8192, 0, 0, 0, "--summary-max-tokens 1000 leaves nothing"},
		"no room at all":                     {Options{MaxNewTokens: 252}, 256, 0, 0, 0, "has no room"},
		"a budget too small for any summary": {Options{MaxNewTokens: 252, SummaryBudget: 2}, 8192, 0, 0, 0, "has no room"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Service{facts: Facts{ContextLength: test.context, TrainedContext: test.trained}}
			got, err := s.summary(test.opts)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want one with %q", err, test.want)
				}
				return
			}
			if err != nil || got.Budget != test.budget || got.MaxTokens != test.maxTokens {
				t.Errorf("budget %d, summary %d, %v; want %d, %d", got.Budget, got.MaxTokens, err, test.budget, test.maxTokens)
			}
		})
	}
}

func TestTokensAreCountedAsTheyAreComputed(t *testing.T) {
	s := openTiny(t, synth.Qwen3, Options{})
	prompt := []format.Segment{{Text: "<|im_start|>", Special: true}, {Text: strings.Repeat("the cup is on the table ", 40)}}
	tokens, err := s.tokenizer.tokens(t.Context(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.countTokens(t.Context(), prompt, 1<<20); err != nil || n != len(tokens) {
		t.Errorf("%d tokens, %v; want %d", n, err, len(tokens))
	}
	if n, err := s.countTokens(t.Context(), prompt, 3); err != nil || n <= 3 {
		t.Errorf("%d tokens, %v, of %d with a limit of 3", n, err, len(tokens))
	}
}

// TestSummariesAreAdmittedWithTheirRequest and give back what they do not need.
func TestSummariesAreAdmittedWithTheirRequest(t *testing.T) {
	s := openTiny(t, synth.Qwen3, Options{Agent: agent.HistorySummarized, SummaryBudget: 3000, SummaryMaxTokens: 8, QueueLimit: 3, ContextLength: 8192})
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
	if _, err := ask(long, 3); err == nil || !strings.Contains(err.Error(), "needs 4 generations at once, but --queue-limit is 3") {
		t.Errorf("one more than may be admitted: %v", err)
	}
	if outs, err := ask("", 3); err != nil || len(outs) != 3 {
		t.Errorf("without a history: %d outputs, %v", len(outs), err)
	}
	if n := s.engine.Stats().Admitted; n != 0 {
		t.Errorf("%d are admitted in the end", n)
	}
}
