package agent

import (
	"context"
	"errors"
	"fmt"

	"agentd/agent/format"
	"agentd/agent/internal/gbnf"
	"agentd/agent/tokens"
	"agentd/scheduler/generation"
)

// ModelAPI is the part of a loaded model that prompt formats need.
type ModelAPI = format.ModelAPI

// Vocabulary is the tokenizer of a loaded model, such as a *llama.Vocab.
type Vocabulary = tokens.Vocabulary

// Generator generates for one request that an engine has admitted. A *scheduler.Admission is one.
type Generator interface {
	// GenerateAll submits requests together and in order. It calls done once for each as it ends, from
	// any goroutine, and returns after the last. err is of package generation, ctx's, or of a failed
	// computation. Each completion of r has its own error.
	GenerateAll(ctx context.Context, requests []generation.Request, done func(i int, r *generation.Result, err error))
	// Keep reduces the admission to n completions.
	Keep(n int)
}

// DefaultSampling is used where Config.Sampling is zero. It is what the first implementation sampled with.
var DefaultSampling = generation.Sampling{Temperature: 0.6, TopP: 0.95, TopK: 20}

// Codes of candidate errors.
const (
	CodeInvalidOutput   = "invalid_output"   // the model's output is not a decision
	CodeTruncated       = "truncated"        // the output reached its token limit or repeated itself
	CodeContextOverflow = "context_overflow" // the prompt does not fit
	CodeModelError      = "model_error"      // the model, its template or the grammar failed
	CodeTimeout         = "timeout"          // the request's deadline passed
	CodeInvalidTools    = "invalid_tools"    // the input's tools can't be used
	CodeInvalidCoaching = "invalid_coaching" // extra_keys.coaching is not a correction, or corrections are not supported
	CodePaused          = "paused"           // a pause with mode=abort interrupted the answer
	CodeInvalidContinue = "invalid_continue" // the model can't have written the tokens of extra_keys.continue
	CodeContextBudget   = "context_budget"   // a summary can't bring the prompt within its budget
)

var errTimeUp = errors.New("the request's time was up before the answer was complete; ask for fewer candidates at once, or raise request_timeout on the server")

// Components of candidate errors and internal steps.
const (
	ComponentCommander = "commander" // the agent and its parsers
	ComponentScheduler = "scheduler"
	ComponentModel     = "model"

	// Components of the history-summarized agent.
	ComponentSummarizer    = "summarizer"     // writes summaries
	ComponentContextBudget = "context_budget" // measures prompts
)

// failure is the error of an input or a candidate.
type failure struct {
	code      string
	component string
	err       error
}

// failed returns the failure for the error of a generation.
func failed(err error) *failure {
	switch {
	case errors.As(err, new(*generation.OverflowError)):
		return &failure{CodeContextOverflow, ComponentScheduler, fmt.Errorf("%w; shorten memory.history, "+
			"set history_max_messages on the server, or start it with agent history-summarized", err)}
	case errors.Is(err, generation.ErrGrammar):
		return &failure{CodeModelError, ComponentScheduler, err}
	case errors.Is(err, generation.ErrFewer):
		return &failure{CodeFewerCandidates, ComponentScheduler, fmt.Errorf("%w; lower num_outputs", err)}
	case errors.Is(err, generation.ErrPaused):
		return &failure{CodePaused, ComponentScheduler, fmt.Errorf("%w; send the input again, with the step's token_ids in extra_keys.continue to go on", err)}
	case errors.Is(err, generation.ErrResume):
		return &failure{CodeInvalidContinue, ComponentScheduler, fmt.Errorf("extra_keys.continue: %w; send token_ids as they were returned", err)}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{CodeTimeout, ComponentScheduler, err}
	case ends(err):
		return &failure{CodeModelError, ComponentModel, err}
	}
	return &failure{CodeModelError, ComponentModel, fmt.Errorf("the model failed: %w", err)}
}

// ends reports whether an error fails the whole request and not only an input.
func ends(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, generation.ErrClosed) ||
		errors.As(err, new(*generation.BusyError)) || errors.As(err, new(*generation.QueueFullError))
}

// PlainGrammar removes our marks, for other engines that read llama.cpp's notation. The result admits more.
func PlainGrammar(grammar string) string { return gbnf.WithoutMarks(grammar) }
