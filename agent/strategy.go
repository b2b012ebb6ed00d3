package agent

import (
	"context"
	"errors"
	"fmt"

	"agentd/agent/format"
)

// The kinds of agents. They differ in what they do when a memory grows; either goes
// on with the memory of the other.
const (
	// FullHistory shows the model all of the history.
	FullHistory = "full-history"
	// HistorySummarized has the model summarize the history when the prompt exceeds
	// its budget.
	HistorySummarized = "history-summarized"
)

// memoryStrategy is what an agent does when a memory grows.
type memoryStrategy interface {
	// sequences is how many the model may have to generate for an input before its
	// candidates.
	sequences(j *job) int
	// corrects tells whether corrections from coaching are applied.
	corrects() bool
	// look sees an input whose prompt is made. It returns what shall be generated
	// first to shorten the memory, nil where nothing is.
	look(ctx context.Context, requestID string, t *task) (*shortening, *failure)
	// shorten makes the input's memory and prompt anew, after what look asked for
	// was generated or failed.
	shorten(ctx context.Context, t *task, result Result, err error) *failure
}

// shortening is a generation that comes before those of the candidates.
type shortening struct {
	generation Generation
	prompt     *format.Prompt
	size       int // of the candidates' prompt then, in the budget's unit
}

// fullHistory leaves memories as they are.
type fullHistory struct{}

func (fullHistory) sequences(*job) int { return 0 }
func (fullHistory) corrects() bool     { return true }

func (fullHistory) look(context.Context, string, *task) (*shortening, *failure) { return nil, nil }

func (fullHistory) shorten(context.Context, *task, Result, error) *failure { return nil }

// errNoCorrections: a memory that is edited would not repair a summary.
var errNoCorrections = errors.New("the " + HistorySummarized + " agent takes no corrections, as coaching_resume of /v1/info says: leave extra_keys.coaching out, or ask a server whose agent is " + FullHistory)

// fillKind sets the defaults of the kind of agent and checks what belongs to it.
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
	if !s.Characters && s.Count == nil {
		bad("a budget of tokens needs something that counts them")
	}
	if c.HistoryMaxMessages > 0 {
		bad("history_max_messages hides messages that a summary would have to hold; leave it out with the %s agent", HistorySummarized)
	}
	if c.IgnoreEnd {
		bad("answers of a fixed length are no summaries; use the %s agent for benchmarks", FullHistory)
	}
	return errors.Join(errs...)
}
