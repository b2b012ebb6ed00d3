package load

import (
	"strings"
	"testing"

	"agentd/agent"
	"agentd/llama"
)

func TestSummaryBudgetFitsTheContext(t *testing.T) {
	for name, test := range map[string]struct {
		opts              Config
		context, trained  int
		budget, maxTokens int
		want              string // of the error
	}{
		"a large context":                     {Config{Agent: agent.Config{MaxNewTokens: 1024}}, 32768, 40960, 5000, 1024, ""},
		"a model of a short context":          {Config{Agent: agent.Config{MaxNewTokens: 1024}}, 32768, 4096, 2304, 576, ""},
		"a small cache":                       {Config{Agent: agent.Config{MaxNewTokens: 256}}, 2048, 4096, 1344, 336, ""},
		"a longer summary leaves less":        {Config{Agent: agent.Config{MaxNewTokens: 256, Summary: agent.Summary{MaxTokens: 1000}}}, 4096, 0, 2322, 1000, ""},
		"characters":                          {Config{Agent: agent.Config{MaxNewTokens: 1024, Summary: agent.Summary{Characters: true}}}, 32768, 40960, 20000, 1024, ""},
		"characters in a small cache":         {Config{Agent: agent.Config{MaxNewTokens: 256, Summary: agent.Summary{Characters: true}}}, 2048, 4096, 5376, 336, ""},
		"a budget that one chose":             {Config{Agent: agent.Config{MaxNewTokens: 256, Summary: agent.Summary{Budget: 1500}}}, 2048, 4096, 1500, 375, ""},
		"few characters":                      {Config{Agent: agent.Config{MaxNewTokens: 256, Summary: agent.Summary{Budget: 5000, Characters: true}}}, 8192, 8192, 5000, 312, ""},
		"without contexts, for prompts alone": {Config{Agent: agent.Config{MaxNewTokens: 256}}, 0, 0, 5000, 1024, ""},

		"a budget beyond the context":        {Config{Agent: agent.Config{MaxNewTokens: 1024, Summary: agent.Summary{Budget: 3100}}}, 32768, 4096, 0, 0, "Config.Agent.Summary.Budget 3100 and the 1024 tokens"},
		"a summary beyond it":                {Config{Agent: agent.Config{MaxNewTokens: 16, Summary: agent.Summary{Budget: 2000, MaxTokens: 100}}}, 2048, 0, 0, 0, "the 100 tokens of an answer or a summary do not fit"},
		"a summary that fills the budget":    {Config{Agent: agent.Config{MaxNewTokens: 256, Summary: agent.Summary{Budget: 1000, MaxTokens: 1000}}}, 8192, 0, 0, 0, "Config.Agent.Summary.MaxTokens 1000 leaves nothing"},
		"one that fills few characters":      {Config{Agent: agent.Config{MaxNewTokens: 256, Summary: agent.Summary{Budget: 4000, MaxTokens: 1000, Characters: true}}}, 8192, 0, 0, 0, "Config.Agent.Summary.MaxTokens 1000 leaves nothing"},
		"no room at all":                     {Config{Agent: agent.Config{MaxNewTokens: 252}}, 256, 0, 0, 0, "can't fit"},
		"a budget too small for any summary": {Config{Agent: agent.Config{MaxNewTokens: 252, Summary: agent.Summary{Budget: 2}}}, 8192, 0, 0, 0, "can't fit"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Model{Info: EngineInfo{ContextLength: test.context, ModelInfo: llama.ModelInfo{ContextTrain: test.trained}}}
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
