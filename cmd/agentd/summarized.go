package main

import (
	"agentd/agent"
	"agentd/protocol"
)

// summarizedAgentID names the history-summarized agent in the protocol's registry of
// agents.
const summarizedAgentID = "history-summarized-agent"

// noCoaching is why the history-summarized agent is not coached.
const noCoaching = "the history-summarized agent has no coaching, since a corrected decision would not repair a summary; --agent full-history has it"

// What --summary-budget counts.
const (
	unitTokens     = "tokens"
	unitCharacters = "characters"
)

// summarizes reports whether the history-summarized agent is served.
func (c *Config) summarizes() bool { return c.Agent == agent.HistorySummarized }

// info is the body of /v1/info.
func (d *daemon) info() protocol.AgentInfo {
	info := agentInfo(d.config.AgentVersion, d.coaching != nil)
	if d.config.summarizes() {
		info.AgentID = summarizedAgentID
		info.CoachingResume = false
		info.CoachingUnavailableReason = noCoaching
	}
	return info
}

// validateAgent checks the options that belong to one of the agents alone.
func (c *Config) validateAgent(from origins, fail func(option, format string, args ...any)) {
	if !c.summarizes() {
		for _, o := range []struct {
			option string
			given  bool
		}{
			{"summary-budget", c.SummaryBudget != 0},
			{"summary-unit", c.SummaryUnit != unitTokens},
			{"summary-max-tokens", c.SummaryMaxTokens != 0},
			{"summary-keep", c.SummaryKeep != 0},
		} {
			if o.given {
				fail(o.option, "is for --agent %s; add that, or remove this", agent.HistorySummarized)
			}
		}
		return
	}
	if c.HistoryMaxMessages > 0 {
		fail("history-max-messages", "hides messages that a summary would have to hold; remove it, or use --agent %s", agent.FullHistory)
	}
	if c.FixedTokens > 0 {
		fail("fixed-tokens", "makes text that is no summary; remove it, or use --agent %s", agent.FullHistory)
	}
	if _, given := from["coaching"]; given && c.Coaching == "on" {
		fail("coaching", "is not possible with --agent %s; remove it, or use --agent %s", agent.HistorySummarized, agent.FullHistory)
	}
}
