package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"agentd/agent/format"
	"agentd/agent/internal/gbnf"
)

// ModelAPI is what the agent asks of the loaded model apart from generation.
type ModelAPI = format.ModelAPI

// Generator completes prompts.
type Generator interface {
	// Generate takes all generations of a request together, in an order that is
	// part of how they are computed. It calls done once for each as it ends, from
	// any goroutine and also at the same time, and returns when the last call has
	// returned. Errors of single completions are in their Err; err is that of a
	// whole generation: a [ContextOverflowError], [GrammarError], [ModelError],
	// [ErrClosed], or the context's when that ended first.
	Generate(ctx context.Context, gs []Generation, done func(i int, r Result, err error))
}

// Reserved is a Generator that holds room for the completions of a request.
type Reserved interface {
	Generator
	// AtMost says how many completions will still be asked for at most.
	AtMost(completions int)
}

// Generation asks for N completions of one prompt.
type Generation struct {
	Prompt    []format.Segment
	N         int
	MaxTokens int
	Greedy    bool // Sampling and Seeds don't count
	Sampling  Sampling
	Seeds     []uint32 // one for each completion, distinct
	// Grammar in llama.cpp's notation, root rule "root"; "" is no constraint.
	Grammar string
	// SuppressControl: control tokens that do not end the answer are never
	// sampled.
	SuppressControl bool
	// StopRepeats: an answer that repeats itself ends (FinishRepeat): an n-gram of tokens
	// four times in a row, or one of the Calls again.
	StopRepeats bool
	Calls       format.CallForm
	// IgnoreEnd: the model can't end an answer; each has MaxTokens.
	IgnoreEnd bool
}

// Sampling says how a token is drawn.
type Sampling struct {
	Temperature float32 // above 0
	TopP        float32
	MinP        float32
	TopK        int
}

// DefaultSampling is what the first implementation samples with.
var DefaultSampling = Sampling{Temperature: 0.6, TopP: 0.95, TopK: 20}

// Result is the outcome of a Generation.
type Result struct {
	PromptTokens int
	CachedTokens int // of the prompt, not computed anew
	Completions  []Completion
}

// Reasons for the end of a completion.
const (
	FinishStop   = "stop"   // an end token
	FinishLength = "length" // MaxTokens
	FinishRepeat = "repetition"
)

// Completion is one answer.
type Completion struct {
	Text   string // special tokens rendered, the final end token left out
	Stop   string // text of the end token, "" when cut
	Tokens int
	Finish string
	// Repeated says, with FinishRepeat, what came how often, as a part of a sentence.
	Repeated string
	Err      error
}

// ErrClosed is returned by a Generator that takes no more work; Run returns it.
var ErrClosed = errors.New("the generator is closed")

// ContextOverflowError says that a prompt and its answer don't fit the context.
type ContextOverflowError struct {
	Prompt int // tokens
	MaxNew int // tokens that the answer may have
	Limit  int // tokens that a sequence may have
	// AtLeast says that the prompt was too long to count.
	AtLeast bool
}

func (e ContextOverflowError) Error() string {
	return fmt.Sprintf("the prompt has %s tokens; with %d for the answer that is more than the context's %d",
		e.Count(), e.MaxNew, e.Limit)
}

// Count is the number of the prompt's tokens, for messages.
func (e ContextOverflowError) Count() string {
	if e.AtLeast {
		return fmt.Sprintf("at least %d", e.Prompt)
	}
	return strconv.Itoa(e.Prompt)
}

// GrammarError says that a grammar can't be used, or admitted no token.
type GrammarError struct{ Err error }

func (e GrammarError) Error() string { return "the output grammar can't be used: " + e.Err.Error() }
func (e GrammarError) Unwrap() error { return e.Err }

// ModelError says that the model failed.
type ModelError struct{ Err error }

func (e ModelError) Error() string { return "the model failed: " + e.Err.Error() }
func (e ModelError) Unwrap() error { return e.Err }

// Codes of candidate errors.
const (
	CodeInvalidOutput   = "invalid_output"   // the model's output is no decision
	CodeTruncated       = "truncated"        // the token limit was reached first, or the answer repeated itself
	CodeContextOverflow = "context_overflow" // the prompt does not fit
	CodeModelError      = "model_error"      // the model, its template or the grammar's use failed
	CodeTimeout         = "timeout"          // the request's time was up
	CodeInvalidTools    = "invalid_tools"    // the input's tools can't be used
	CodeInvalidCoaching = "invalid_coaching" // extra_keys.coaching is no correction, or none is taken
	CodeContextBudget   = "context_budget"   // a summary can't bring the prompt within its budget
)

var errTimeUp = errors.New("the request's time was up before the answer was complete; ask for fewer candidates at once, or raise --request-timeout")

// Components of candidate errors and internal steps.
const (
	ComponentCommander = "commander" // the agent and its parsers
	ComponentScheduler = "scheduler"
	ComponentModel     = "model"

	// Of the history-summarized agent alone.
	ComponentSummarizer    = "summarizer"     // its summaries
	ComponentContextBudget = "context_budget" // the measure of its prompts
)

// classify is the code and the component of a generation's error.
func classify(err error) (code, component string) {
	switch {
	case is[ContextOverflowError](err):
		return CodeContextOverflow, ComponentScheduler
	case is[GrammarError](err):
		return CodeModelError, ComponentScheduler
	case errors.Is(err, context.DeadlineExceeded):
		return CodeTimeout, ComponentScheduler
	}
	return CodeModelError, ComponentModel
}

// is reports whether err is a T or a *T.
func is[T error](err error) bool {
	var value T
	var pointer *T
	return errors.As(err, &value) || errors.As(err, any(&pointer))
}

// PlainGrammar is a Generation's grammar without the marks that only llama.cpp under
// agentd knows: for other engines that take llama.cpp's notation. It admits more.
func PlainGrammar(grammar string) string { return gbnf.WithoutMarks(grammar) }
