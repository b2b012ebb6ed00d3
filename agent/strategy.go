package agent

import (
	"context"
	"errors"
	"fmt"

	"agentd/agent/format"
	"agentd/scheduler/generation"
)

// The kinds of agents. They differ in how they handle a growing memory. Each understands the
// memory of the other.
const (
	// FullHistory shows the model the whole history.
	FullHistory = "full-history"
	// HistorySummarized lets the model summarize the history when the prompt exceeds its
	// budget.
	HistorySummarized = "history-summarized"
)

// memoryStrategy handles a growing memory.
type memoryStrategy interface {
	// completions is the most completions that an input needs before its candidates.
	completions(in *inputRun) int
	// corrects reports whether corrections from coaching are applied.
	corrects() bool
	// shortening returns the generation that shortens the memory of a rendered input, nil if
	// the memory is short enough.
	shortening(ctx context.Context, requestID string, in *inputRun) (*shortening, *failure)
	// shorten replaces the input's memory and prompt after the shortening has ended or failed.
	shorten(ctx context.Context, in *inputRun, result *generation.Result, err error) *failure
}

// shortening is a generation before that of the candidates.
type shortening struct {
	request generation.Request
	prompt  *format.Prompt
	size    int // of the candidates' prompt afterwards, in the budget's unit
	cut     int // messages of the history that were left out without a summary
}

// SummaryCounts are what became of the summaries of a request.
type SummaryCounts struct {
	Whole, Truncated, Failed int // summaries; a truncated one reached its token limit or repeated itself
	Cut                      int // histories whose oldest messages were left out
}

// fullHistory leaves memories unchanged.
type fullHistory struct{}

func (fullHistory) completions(*inputRun) int { return 0 }
func (fullHistory) corrects() bool            { return true }

func (fullHistory) shortening(context.Context, string, *inputRun) (*shortening, *failure) {
	return nil, nil
}

func (fullHistory) shorten(context.Context, *inputRun, *generation.Result, error) *failure {
	return nil
}

// errNoCorrections: an edit of the memory would not repair a summary.
var errNoCorrections = errors.New("the " + HistorySummarized + " agent takes no corrections, see coaching_resume of /v1/info: leave extra_keys.coaching out, or use a server with the " + FullHistory + " agent")

// fillKind sets the defaults of the kind of agent and validates its settings.
func (c *Config) fillKind() error {
	s := &c.Summary
	switch c.Kind {
	case "", FullHistory:
		c.Kind = FullHistory
		if s.Budget != 0 || s.MaxTokens != 0 || s.Keep != 0 || s.Characters {
			return fmt.Errorf("a summary is for the %s agent, and this is %s", HistorySummarized, FullHistory)
		}
		return nil
	case HistorySummarized:
	default:
		return fmt.Errorf("agent is %q; it must be %s or %s", c.Kind, FullHistory, HistorySummarized)
	}
	if s.Budget == 0 {
		s.Budget = DefaultSummaryBudget
		if s.Characters {
			s.Budget *= CharactersPerToken
		}
	}
	if s.MaxTokens == 0 {
		s.MaxTokens = DefaultSummaryMaxTokens
	}
	var errs []error
	bad := func(msg string, args ...any) { errs = append(errs, fmt.Errorf(msg, args...)) }
	if s.Budget < 0 || s.MaxTokens < 0 || s.Keep < 0 {
		bad("the summary's budget is %d, its tokens %d, the messages kept %d; none can be negative", s.Budget, s.MaxTokens, s.Keep)
	}
	if c.HistoryMaxMessages > 0 {
		bad("history_max_messages hides messages that a summary would have to hold; leave it out with the %s agent", HistorySummarized)
	}
	if c.IgnoreEnd {
		bad("answers of a fixed length are not summaries; use the %s agent for benchmarks", FullHistory)
	}
	return errors.Join(errs...)
}
