package load

import (
	"cmp"
	"fmt"

	"agentd/agent"
)

// summary returns the configuration of the history-summarized agent. Open settings get values with which
// prompts, answers and summaries fit the context.
func (m *Model) summary(cfg Config) (agent.Summary, error) {
	c := cfg.Agent.Summary
	window := m.Window() // 0: unknown without contexts
	auto := agent.DefaultSummaryBudget
	if window > 0 {
		// The rest of the context is for the turn that exceeds the budget.
		auto = min(auto, (window-max(cfg.Agent.MaxNewTokens, cfg.Agent.Summary.MaxTokens))/summaryPart*(summaryPart-1))
	}
	unit := 1
	if c.Characters {
		unit = agent.CharactersPerToken
	}
	c.Budget = cmp.Or(c.Budget, auto*unit)
	c.MaxTokens = cmp.Or(c.MaxTokens, min(agent.DefaultSummaryMaxTokens, c.Budget/unit/summaryPart))
	switch tokens := c.Budget / unit; {
	case tokens < 1 || c.MaxTokens < 1:
		return c, fmt.Errorf("Config.Agent.Kind %s can't fit prompts and summaries in a context of %d tokens with Config.Agent.MaxNewTokens %d; raise Config.ContextLength, or lower Config.Agent.MaxNewTokens or Config.Agent.Summary.MaxTokens",
			agent.HistorySummarized, window, cfg.Agent.MaxNewTokens)
	case !c.Characters && window > 0 && c.Budget+max(cfg.Agent.MaxNewTokens, c.MaxTokens) > window:
		return c, fmt.Errorf("Config.Agent.Summary.Budget %d and the %d tokens of an answer or a summary do not fit the %d tokens of the context; lower Config.Agent.Summary.Budget, Config.Agent.MaxNewTokens or Config.Agent.Summary.MaxTokens, or raise Config.ContextLength",
			c.Budget, max(cfg.Agent.MaxNewTokens, c.MaxTokens), window)
	case c.MaxTokens >= tokens:
		return c, fmt.Errorf("Config.Agent.Summary.MaxTokens %d leaves nothing of a Config.Agent.Summary.Budget of %d tokens for the rest of the prompt; lower the one or raise the other",
			c.MaxTokens, tokens)
	}
	return c, nil
}
