package inference

import (
	"context"
	"fmt"

	"agentd/agent"
	"agentd/agent/format"
)

// summary is what the history-summarized agent summarizes by: what the options say,
// the rest so that prompts, answers and summaries fit the context.
func (s *Service) summary(opts Options) (agent.Summary, error) {
	c := agent.Summary{
		Budget: opts.SummaryBudget, Characters: opts.SummaryCharacters,
		MaxTokens: opts.SummaryMaxTokens, Keep: opts.SummaryKeep, Count: s.countTokens,
	}
	window := s.Window() // 0: unknown, since there are no contexts
	auto := agent.DefaultSummaryBudget
	if window > 0 {
		// The turn that exceeds the budget has to fit as well, in the rest.
		auto = min(auto, (window-max(opts.MaxNewTokens, opts.SummaryMaxTokens))/summaryPart*(summaryPart-1))
	}
	unit := 1
	if c.Characters {
		unit = agent.CharactersPerToken
	}
	if c.Budget == 0 {
		c.Budget = auto * unit
	}
	if c.MaxTokens == 0 {
		c.MaxTokens = min(agent.DefaultSummaryMaxTokens, c.Budget/unit/summaryPart)
	}
	switch tokens := c.Budget / unit; {
	case tokens < 1 || c.MaxTokens < 1:
		return c, fmt.Errorf("--agent %s has no room for prompts and summaries in a context of %d tokens with --max-new-tokens %d; raise --context-length, or lower --max-new-tokens or --summary-max-tokens",
			agent.HistorySummarized, window, opts.MaxNewTokens)
	case !c.Characters && window > 0 && c.Budget+max(opts.MaxNewTokens, c.MaxTokens) > window:
		return c, fmt.Errorf("--summary-budget %d and the %d tokens of an answer or a summary do not fit the %d tokens of the context; lower --summary-budget, --max-new-tokens or --summary-max-tokens, or raise --context-length",
			c.Budget, max(opts.MaxNewTokens, c.MaxTokens), window)
	case c.MaxTokens >= tokens:
		return c, fmt.Errorf("--summary-max-tokens %d leaves nothing of a --summary-budget of %d tokens for the rest of the prompt; lower the one or raise the other",
			c.MaxTokens, tokens)
	}
	return c, nil
}

// countTokens counts the tokens of a prompt. One that is over the limit by its length
// alone is not tokenized, which could take minutes.
func (s *Service) countTokens(ctx context.Context, prompt []format.Segment, limit int) (int, error) {
	bytes := 0
	for _, piece := range prompt {
		bytes += len(piece.Text)
	}
	if least := bytes / s.model.Vocab().LongestPiece(); least > limit {
		return least, nil
	}
	tokens, err := s.tokenizer.tokens(ctx, prompt)
	return len(tokens), err
}
