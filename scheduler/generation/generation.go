// Package generation declares what is asked of an engine and what it answers: requests,
// completions, finish reasons and errors. It is pure Go without cgo, so that the agent,
// the scheduler and its core share the same types.
package generation

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"
)

// Token is a vocabulary id. It is an alias because llama.cpp's llama_token is an int32 as
// well: token slices pass between the packages without a copy.
type Token = int32

// AdapterID names an adapter of the weights that an engine has loaded. Its ids are never used again.
// 0 is the model without an adapter.
type AdapterID int32

// Request asks for N completions of one prompt.
type Request struct {
	// Prompt must not change until the request has ended.
	Prompt []Token
	Params
	// Context has values that belong to this request alone, such as the span of its trace; nil:
	// the values of the call's context hold. Its end does not end the request.
	Context context.Context
	// Watch, if set, gets the events of the request until it ends, from an engine that knows them. It is called from
	// one goroutine at a time, and does not hold up the engine.
	Watch func(Event)
}

// Event is what happens to a completion before the request has ended.
type Event struct {
	Kind       EventKind
	Completion int
	Result     *Result // of Ended: it has Completions[Completion], and no other one
	// Tokens of Chosen may be beyond MaxTokens. They have Scores if the request asks for them.
	Tokens []Token
	Scores []Score
}

// EventKind is a kind of event.
type EventKind int

// The kinds. The last two need Params.Stream.
const (
	Ended     EventKind = iota // a completion has ended; one that was computed again ends again
	Chosen                     // tokens were chosen
	Restarted                  // all completions begin again
)

// Params are the settings of a request.
type Params struct {
	// Adapter computes the request.
	Adapter AdapterID
	// N is the number of completions, at least 1.
	N int
	// MaxTokens is the token limit of one completion, at least 1, or 0 with ScoreFrom: then completions are empty.
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
	// IgnoreEnd excludes end-of-generation tokens: every completion has MaxTokens tokens.
	// Benchmarks use it for a fixed load. It excludes Grammar and StopRepeats.
	IgnoreEnd bool
	// StopRepeats ends a completion that repeats itself: an n-gram of tokens four times in a row.
	StopRepeats bool
	// Stop ends a completion by a text, see there; nil: none does.
	Stop *Stop
	// Scores asks for Completion.Scores. It changes no choice and adds no row to a step.
	Scores bool
	// Top asks for so many of Score.Top, with Scores.
	Top int
	// Sample samples each token, also where the grammar leaves one text. So each has a logprob.
	Sample bool
	// ScoreFrom, above 0, asks for Result.PromptScores from that token of the prompt on, in its prefill. Of the tokens
	// before, the last one is computed again even where it is cached. It excludes Distinct.
	ScoreFrom int
	// Masks asks for Score.Mask. Then the grammar excludes tokens before TopK, TopP and MinP count, which may change a
	// choice. It needs Scores.
	Masks bool
	// Distinct asks for completions that differ, see there.
	Distinct *Distinct
	// Choice asks for the probabilities of given answers, see there.
	Choice *Choice
	// Resume continues the completions of a result whose Finish is FinishPaused; their tokens are a
	// forced beginning. It returns the other ones as they are. nil: all begin. It excludes Distinct and Choice.
	Resume *Result
	// Salt separates prefixes: requests with different ones share none in an embedded engine.
	Salt string
	// Abort ends the completions that have not ended with FinishPaused and their tokens so far, when it is closed; nil:
	// nothing does.
	Abort <-chan struct{}
	// Session names the run that the request belongs to. Requests with the same session
	// share a prefix more likely than others. "": not known.
	Session string
	// Priority: requests with a higher one start first, and take the place of running ones with a
	// lower one, which continue later. Each second of waiting counts as one step.
	Priority int
	// Client shares an engine equally with other clients of the same priority. The engine sets it, see
	// ForClient.
	Client string
	// Stream gives Request.Watch tokens as they are chosen.
	Stream bool
}

// Sampling configures how a token is chosen.
type Sampling struct {
	Temperature float32 // <= 0: the most probable token (greedy)
	TopP        float32 // outside (0, 1): off
	MinP        float32 // <= 0: off
	TopK        int     // <= 0: off
}

// Stop ends a completion with the token that completes one of Texts, or is one of Tokens. The token stays, and with it
// all text. Engines on other machines know no Tokens but those that end every answer.
type Stop struct {
	Texts  []string
	Tokens []Token
	// Visible returns a part of a text so far, in which the others are looked for; nil: all of it. It must be safe for
	// concurrent use.
	Visible func(text string) string
}

// Ends reports whether a text has one of the others. A nil Stop ends none.
func (s *Stop) Ends(text string) bool {
	return s.Has(text) && (s.Visible == nil || s.Has(s.Visible(text)))
}

// Has reports whether a text has one of the others, visible or not. A nil Stop has none.
func (s *Stop) Has(text string) bool {
	return s != nil && slices.ContainsFunc(s.Texts, func(stop string) bool { return strings.Contains(text, stop) })
}

// Tail returns the end of a text in which Texts can end within its last added bytes.
func (s *Stop) Tail(text string, added int) string {
	longest := 1
	for _, stop := range s.Texts {
		longest = max(longest, len(stop))
	}
	return text[max(0, len(text)-added-longest+1):]
}

// Distinct asks for the N most probable completions with different keys, most probable first, by the
// softmax under the grammar. Completions that the search did not find have the error [ErrFewer]. It
// excludes a Temperature above 0, Scores, IgnoreEnd, Stop and Stream. An engine on another machine
// refuses it.
type Distinct struct {
	// Key returns what two completions must not have in common, from a text without its end.
	// ok is false for a text that is not wanted. It must be safe for concurrent use.
	Key func(text string) (key string, ok bool)
}

// Choice asks how probable each of some answers is as what the model writes next: in the softmax of the
// model's logits, at temperature 1, without grammar, suppressed tokens or truncation. The request has one completion,
// with Completion.Chances and no tokens. It excludes all that chooses tokens. An engine on another machine refuses it.
type Choice struct {
	// Answers has the texts of each answer, as the tokenizer's tokens. An answer has the probability of all
	// its texts. No two answers have the same.
	Answers [][][]Token
	// Whole: the model ends after an answer, so its probability has that of an end-of-generation token.
	// Else the model may write more, and no answer begins with another one.
	Whole bool
}

// MaxTokens is the limit of tokens for a Choice: other spellings of an answer may have more tokens than its own.
func (c *Choice) MaxTokens() int {
	longest := 0
	for _, texts := range c.Answers {
		for _, t := range texts {
			longest = max(longest, len(t))
		}
	}
	return longest + longest/2 + 2
}

// Chances are what a Choice asked for.
type Chances struct {
	// Logprobs has the natural logarithm of the probability of each answer, over all sequences of
	// tokens that spell it. It is -Inf below what a float can hold.
	Logprobs []float64
	Paths    []int // how many sequences that are
	// Omitted is the probability of all sequences that were not counted, at most. They are rare spellings.
	Omitted float64
	Best    bool // the most probable first token begins an answer
	Rows    int  // rows of logits that were read
}

// Result is the outcome of a Request.
type Result struct {
	PromptTokens int
	// CachedTokens of the prompt came from the prefix cache.
	CachedTokens int
	// Completions are in the order of Seeds.
	Completions []Completion
	// PromptScores has the score of each token of the prompt from Params.ScoreFrom on: Logprob, Rank and Top.
	PromptScores []Score
	// Version names the weights where the engine that answered has its own name for them; "":
	// it has not.
	Version string
	Times   Times
}

// Paused reports whether a pause has interrupted completions of the result.
func (r *Result) Paused() bool {
	return slices.ContainsFunc(r.Completions, func(c Completion) bool { return c.Finish == FinishPaused })
}

// Times are the latencies of a request, measured from Submitted. Zero means that the
// event did not happen.
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
	// Stop is the text of the end-of-generation token, "" if none ended the completion, and
	// StopToken its id if there is a Stop. Neither Tokens nor Text includes it.
	Stop      string
	StopToken Token
	// Scores has one element for each of Tokens and then one for StopToken, if Params.Scores
	// asked for them. With OnlyLogprobs their other fields are not known: an engine on
	// another machine does not report them.
	Scores       []Score
	OnlyLogprobs bool
	Finish       Finish
	// Parts names the weights of its tokens where they may change during a completion.
	Parts []Part
	// Branch is set for a completion that Params.Distinct asked for.
	Branch *Branch
	// Chances is set where Params.Choice asked for it.
	Chances *Chances
	// Repeated describes the repetition for FinishRepeat, as a clause for a message.
	Repeated string
	// Err is the cause of FinishError, and ErrPaused with FinishPaused.
	Err error
}

// All returns the tokens with the one that ended the completion.
func (c *Completion) All() []Token {
	if c.Stop == "" {
		return c.Tokens
	}
	return append(c.Tokens[:len(c.Tokens):len(c.Tokens)], c.StopToken)
}

// Part names the weights that computed the tokens of a completion from an index on, up to the next part.
type Part struct {
	From             int
	Version, Adapter string // versions of the model, and of its adapter; "": there is none
}

// Branch is what a search reports about a completion.
type Branch struct {
	// Logprob is the natural logarithm of the probability of all Paths completions with the
	// same key that were found: at temperature 1 without truncation, under the grammar.
	Logprob float64
	Paths   int
	// Exact: the N are proven best, by the most probable path of each key.
	Exact bool
	// Option is set for an answer of a Choice; then Logprob is not under a grammar, and Exact is not known.
	Option *Option
}

// Option is an answer of a Choice among the others.
type Option struct {
	Index       int     // in Choice.Answers
	Probability float64 // among the answers
	Mass        float64 // the probability of all answers together
	Omitted     float64 // as in Chances
}

// Options are the answers, most probable first; nil if all have the probability 0.
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

// Score says how a token came about. Logarithms are natural; NaN is not known.
type Score struct {
	// Logprob is the logarithm of the token's probability in the softmax of the model's
	// logits: at temperature 1, without grammar, suppressed tokens or truncation. It is NaN for a
	// forced token of the embedded engine, which is chosen without logits.
	Logprob float32
	// Masked is that of the probability with which the token was drawn: under the grammar and
	// all settings of Sampling. It is 0 where there was no choice: with Temperature <= 0 and
	// for forced tokens. It has single precision where Mask is nil.
	Masked float64
	// Forced: the grammar allowed no other token, or no other way to write the text.
	Forced bool
	// Drafted: the token was computed as a speculative token before it was chosen.
	Drafted bool
	// Top are the most probable tokens in the softmax of Logprob, best first, with Params.Top; nil where that is not
	// known.
	Top []Likely
	// Rank is 1 for the most probable token; only Result.PromptScores have it.
	Rank int
	// Mask has the tokens among which this one was drawn, ascending, with Params.Masks: what the grammar, suppressed
	// tokens and Sampling left. Masked is that of a softmax of logits / Temperature over them. Only the token itself
	// where there was no choice. nil: more than MaxMask tokens, or more than MaxMasks in the completion.
	Mask []Token
}

// Likely is a token with the logarithm of its probability.
type Likely struct {
	Token   Token
	Logprob float32
}

// Bounds of what a score has.
const (
	MaxMask  = 1 << 10 // tokens in Score.Mask
	MaxMasks = 1 << 16 // tokens in all masks of a completion
)

// Finish is the reason why a completion ended.
type Finish string

// Finish reasons. All but the last two are common to servers of this kind.
const (
	FinishStop   Finish = "stop"       // an end-of-generation token, or the end of the grammar
	FinishLength Finish = "length"     // MaxTokens
	FinishError  Finish = "error"      // see Completion.Err
	FinishRepeat Finish = "repetition" // see Params.StopRepeats
	FinishPaused Finish = "paused"     // interrupted; Params.Resume continues it
)

type clientKey struct{}

// ForClient returns a context whose requests belong to the client of that name.
func ForClient(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, clientKey{}, name)
}

// ClientOf returns the name that ForClient set, "" without one.
func ClientOf(ctx context.Context) string {
	name, _ := ctx.Value(clientKey{}).(string)
	return name
}
