package serve

import "agentd/agent"

// summarizedAgentID names the history-summarized agent in the protocol's registry of
// agents.
const summarizedAgentID = "history-summarized-agent"

// noCoaching is the reason in /v1/info for the missing coaching of the history-summarized
// agent.
const noCoaching = "the history-summarized agent has no coaching, since a corrected decision would not repair a summary; --agent full-history has it"

// Units of the budget of summaries.
const (
	unitTokens     = "tokens"
	unitCharacters = "characters"
)

// summarizes reports whether the history-summarized agent is served.
func (c *Config) summarizes() bool { return c.Inference.Agent.Kind == agent.HistorySummarized }
