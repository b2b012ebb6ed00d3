// Package generation declares the requests, results, events and errors of an engine. It has no
// cgo, so that the agent, the scheduler and its core can share these types.
package generation

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"
)

// Token is a token's id in the vocabulary. It is an alias of int32, as llama.cpp's llama_token is: slices pass
// between packages without a copy.
type Token = int32

// AdapterID identifies a LoRA adapter that an engine has loaded. Ids are never reused. 0 is the model without an
// adapter.
type AdapterID int32

// Request asks for N completions of one prompt.
type Request struct {
	// Prompt must not be modified until the request has ended.
	Prompt []Token
	Params
	// Context has values of this request, such as its trace span; nil: the values of the call's context.
	// Its cancellation does not end the request.
	Context context.Context
	// Watch, if set, is called with the events of the request until it ends, by one goroutine at a time that the engine
	// does not wait for. Engines at URLs don't call it.
	Watch func(Event)
}

// Event is a change of a completion before the request has ended.
type Event struct {
	Kind       EventKind
	Completion int
	Result     *Result // of Ended: only Completions[Completion] is set
	// Tokens are the tokens of Chosen, possibly beyond MaxTokens, with Scores if the request has Params.Scores.
	Tokens []Token
	Scores []Score
}

// EventKind is a kind of event.
type EventKind int

// Kinds of events. The last two need Params.Stream.
const (
	Ended     EventKind = iota // a completion has ended; after Restarted, it ends again
	Chosen                     // tokens were appended to a completion
	Restarted                  // all completions start again
)

// Params are the settings of a request.
type Params struct {
	// Adapter is applied to the model for this request.
	Adapter AdapterID
	// N is the number of completions, at least 1.
	N int
	// MaxTokens is the token limit of one completion, at least 1. With ScoreFrom it may be 0: completions are empty.
	MaxTokens int
	Sampling
	// Seeds holds one seed for each completion.
	Seeds []uint32
	// Grammar is a GBNF text with the root rule "root"; "" means unconstrained.
	Grammar string
	// SuppressControl excludes control tokens that do not end a completion.
	SuppressControl bool
	// Suppress lists tokens that are never sampled.
	Suppress []Token
	// IgnoreEnd suppresses end-of-generation tokens, so that every completion has MaxTokens tokens, for
	// benchmarks. It can't be combined with Grammar or StopRepeats.
	IgnoreEnd bool
	// Least is the number of tokens of a completion before an end-of-generation token. It excludes Grammar.
	Least int
	// StopRepeats ends a completion that repeats an n-gram of tokens four times in a row.
	StopRepeats bool
	// Stop ends a completion at certain texts or tokens; nil for none.
	Stop *Stop
	// Scores asks for Completion.Scores. It changes no token and needs no additional rows.
	Scores bool
	// Top is the number of tokens in Score.Top, with Scores.
	Top int
	// Sample turns forced tokens off, so that each token has a logprob.
	Sample bool
	// ScoreFrom, if above 0, asks for Result.PromptScores from that index of the prompt on. These tokens, and the one
	// before, are computed even if they are cached. It can't be combined with Distinct.
	ScoreFrom int
	// Masks asks for Score.Mask. The grammar is then applied before TopK, TopP and MinP, which may change a
	// token. It needs Scores.
	Masks bool
	// Distinct asks for the most probable different completions; nil: independent ones.
	Distinct *Distinct
	// Choice asks for the probabilities of given answers; nil: completions.
	Choice *Choice
	// Resume is a result whose completions with FinishPaused continue after their tokens; the others are returned
	// unchanged. nil: all start. It can't be combined with Distinct or Choice.
	Resume *Result
	// Salt separates prefixes: in the embedded engine, requests with different salts share none.
	Salt string
	// Abort, when it is closed, ends the remaining completions with FinishPaused and their tokens so far. It may be
	// nil.
	Abort <-chan struct{}
	// Session names the run that the request belongs to; "": not known. Requests of a session probably share a prefix.
	Session string
	// Priority: requests with a higher one start first, and preempt running ones with a lower one. Each
	// second of waiting adds 1 to it.
	Priority int
	// Client names the client, see ForClient; the engine sets it. Clients of the same priority take turns.
	Client string
	// Stream asks for the events Chosen and Restarted.
	Stream bool
}

// Sampling configures how a token is chosen.
type Sampling struct {
	Temperature float32 // <= 0: the most probable token (greedy)
	TopP        float32 // outside (0, 1): off
	MinP        float32 // <= 0: off
	TopK        int     // <= 0: off
}

// Stop ends a completion after the token that completes one of Texts, or is one of Tokens. That token, and all of its
// text, stays in the completion. Engines at URLs support no Tokens other than those that end every answer.
type Stop struct {
	Texts  []string
	Tokens []Token
	// Visible returns the part of a completion's text in which Texts are searched; nil: all of it. It must be safe
	// for concurrent use.
	Visible func(text string) string
}

// Ends reports whether the visible part of a text contains one of Texts. It is false for a nil Stop.
func (s *Stop) Ends(text string) bool {
	return s.Has(text) && (s.Visible == nil || s.Has(s.Visible(text)))
}

// Has reports whether a text contains one of Texts, visible or not. It is false for a nil Stop.
func (s *Stop) Has(text string) bool {
	return s != nil && slices.ContainsFunc(s.Texts, func(stop string) bool { return strings.Contains(text, stop) })
}

// Tail returns the end of a text that contains every occurrence of Texts which ends in the last added bytes.
func (s *Stop) Tail(text string, added int) string {
	longest := 1
	for _, stop := range s.Texts {
		longest = max(longest, len(stop))
	}
	return text[max(0, len(text)-added-longest+1):]
}

// Distinct asks for the N most probable completions with different keys, most probable first, by the softmax
// under the grammar. Completions that the search did not find have the error [ErrFewer]. It can't be combined
// with a Temperature above 0, Scores, IgnoreEnd, Stop or Stream.
type Distinct struct {
	// Key returns the key of a completion's text, without the end token. ok is false for a text that is
	// not wanted. It must be safe for concurrent use.
	Key func(text string) (key string, ok bool)
}

// Choice asks for the probability that the model writes each of some answers next: by the softmax of the model's
// logits, at temperature 1, without grammar, suppressed tokens or truncation. The request has one completion with
// Completion.Chances and no tokens. It can't be combined with settings of how tokens are chosen. Engines at URLs refuse
// it.
type Choice struct {
	// Answers has one or more texts for each answer, as the tokenizer's tokens. The probability of an answer is the
	// sum over its texts. Answers must not share texts.
	Answers [][][]Token
	// Whole: the model ends after the answer, so the probability includes that of an end-of-generation token.
	// Otherwise the model may write more, and no answer may begin with another one.
	Whole bool
}

// MaxTokens returns the Params.MaxTokens for a Choice: spellings may have more tokens than the tokenizer's.
func (c *Choice) MaxTokens() int {
	longest := 0
	for _, texts := range c.Answers {
		for _, t := range texts {
			longest = max(longest, len(t))
		}
	}
	return longest + longest/2 + 2
}

// Chances is the result of a Choice.
type Chances struct {
	// Logprobs has the natural logarithm of the probability of each answer, over all sequences of
	// tokens that spell it. It is -Inf below what a float can hold.
	Logprobs []float64
	Paths    []int // for each answer: the number of these sequences
	// Omitted is an upper bound of the probability of all sequences that were not computed: rare spellings.
	Omitted float64
	Best    bool // the most probable first token begins an answer
	Rows    int  // number of rows of logits that were used
}

// Result is the outcome of a Request.
type Result struct {
	PromptTokens int
	// CachedTokens is the number of prompt tokens from the prefix cache.
	CachedTokens int
	// Completions are in the order of Seeds.
	Completions []Completion
	// PromptScores has a score, with Logprob, Rank and Top, for each token of the prompt from Params.ScoreFrom on.
	PromptScores []Score
	// Version names the weights if the engine that answered has its own name for them, else "".
	Version string
	Times   Times
}

// Paused reports whether completions of the result have FinishPaused.
func (r *Result) Paused() bool {
	return slices.ContainsFunc(r.Completions, func(c Completion) bool { return c.Finish == FinishPaused })
}

// Times are the latencies of a request, measured from Submitted. A zero duration means that the event did not happen.
type Times struct {
	Submitted  time.Time
	Queue      time.Duration // until its first sequence started
	FirstToken time.Duration // until its first token was sampled
	End        time.Duration // until its last candidate ended
}

// Completion is the outcome of one candidate.
type Completion struct {
	Tokens []Token
	// Text is Tokens with special tokens rendered.
	Text string
	// Stop is the text of the end-of-generation token that ended the completion, "" without one, and
	// StopToken its id. Neither Tokens nor Text includes it.
	Stop      string
	StopToken Token
	// Scores, with Params.Scores, has one element for each of Tokens and then one for StopToken. With
	// OnlyLogprobs, as of engines at URLs, only Logprob is known.
	Scores       []Score
	OnlyLogprobs bool
	Finish       Finish
	// Parts names the weights of its tokens, if they can change during a completion.
	Parts []Part
	// Branch is set with Params.Distinct.
	Branch *Branch
	// Chances is set with Params.Choice.
	Chances *Chances
	// Repeated describes the repetition of FinishRepeat, as a clause for a message.
	Repeated string
	// Err is the cause with FinishError, and ErrPaused with FinishPaused.
	Err error
}

// All returns Tokens followed by the token that ended the completion.
func (c *Completion) All() []Token {
	if c.Stop == "" {
		return c.Tokens
	}
	return append(c.Tokens[:len(c.Tokens):len(c.Tokens)], c.StopToken)
}

// Part names the weights that computed a completion's tokens from index From to the next part.
type Part struct {
	From             int
	Version, Adapter string // versions of the model and of the adapter; "" without one
}

// Branch is a search's report about a completion.
type Branch struct {
	// Logprob is the natural logarithm of the probability of all Paths completions with the
	// same key that were found: at temperature 1 without truncation, under the grammar.
	Logprob float64
	Paths   int
	// Exact: the N keys are proven to be the best, by the most probable completion of each.
	Exact bool
	// Option is set for an answer of a Choice. Then Logprob is without grammar, and Exact is not set.
	Option *Option
}

// Option is an answer of a Choice compared with the others.
type Option struct {
	Index       int     // in Choice.Answers
	Probability float64 // share of Mass
	Mass        float64 // the probability of all answers together
	Omitted     float64 // as in Chances
}

// Options returns the answers, most probable first; nil if all have the probability 0.
func (c *Chances) Options() (list []Option) {
	sum := 0.0
	for _, x := range c.Logprobs {
		sum += math.Exp(x)
	}
	for i, x := range c.Logprobs {
		if sum > 0 {
			list = append(list, Option{Index: i, Probability: math.Exp(x) / sum, Mass: sum, Omitted: c.Omitted})
		}
	}
	slices.SortStableFunc(list, func(a, b Option) int { return cmp.Compare(b.Probability, a.Probability) })
	return list
}

// Score describes how a token was chosen. Logarithms are natural; NaN means not known.
type Score struct {
	// Logprob is the logarithm of the token's probability in the softmax of the model's
	// logits: at temperature 1, without grammar, suppressed tokens or truncation. It is NaN for a
	// forced token of the embedded engine, which is chosen without logits.
	Logprob float32
	// Masked is the logarithm of the probability with which the token was drawn, under the grammar and all settings of
	// Sampling. It is 0 with Temperature <= 0 and for forced tokens. Without Mask it has single precision.
	Masked float64
	// Forced: the grammar allowed no other text.
	Forced bool
	// Drafted: the token was computed as a speculative token before it was chosen.
	Drafted bool
	// Top has, with Params.Top, the most probable tokens in the softmax of Logprob, best first; nil if they are not
	// known.
	Top []Likely
	// Rank is 1 for the most probable token. Only Result.PromptScores have it.
	Rank int
	// Mask has, with Params.Masks, the tokens from which this one was drawn, ascending: those that grammar, suppressed
	// tokens and Sampling allow. Masked is by the softmax of logits / Temperature over them. For a forced or greedy
	// token it is the token only. nil: more than MaxMask tokens, or MaxMasks in the completion.
	Mask []Token
}

// Likely is a token with the logarithm of its probability.
type Likely struct {
	Token   Token
	Logprob float32
}

// Bounds of masks.
const (
	MaxMask  = 1 << 10 // tokens in Score.Mask
	MaxMasks = 1 << 16 // tokens in all masks of a completion
)

// Finish is the reason why a completion ended.
type Finish string

// Finish reasons. The first three are as in OpenAI's API.
const (
	FinishStop   Finish = "stop"       // at an end-of-generation token, or where the grammar allows nothing more
	FinishLength Finish = "length"     // at MaxTokens
	FinishError  Finish = "error"      // see Completion.Err
	FinishRepeat Finish = "repetition" // see Params.StopRepeats
	FinishPaused Finish = "paused"     // interrupted; Params.Resume continues it
)

type clientKey struct{}

// ForClient returns a context whose requests have Params.Client set to name.
func ForClient(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, clientKey{}, name)
}

// ClientOf returns the name that ForClient set, "" without one.
func ClientOf(ctx context.Context) string {
	name, _ := ctx.Value(clientKey{}).(string)
	return name
}
