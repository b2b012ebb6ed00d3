// Package target asks the servers that agentbench compares: agentd,
// llama-server, and whatever speaks OpenAI's chat API.
package target

import (
	"context"
	"errors"
	"time"

	"agentd/bench/workload"
	"agentd/protocol"
)

// Target is one server. It may be used by any number of goroutines.
type Target interface {
	// Ask sends one turn and waits for all its candidates. Errors are *Failure
	// or the context's; any other says that the turn can't be asked at all with
	// these options, which ends a run.
	Ask(ctx context.Context, t *workload.Turn, o Options) (Answer, error)
	// Counters reads what the server counted since it started; ErrNoCounters
	// when it does not say.
	Counters(ctx context.Context) (Counters, error)
	// Describe says what is measured: version, model, flags, as far as the server
	// tells.
	Describe(ctx context.Context) (map[string]string, error)
	Close() error
}

// Options of all turns of a run.
type Options struct {
	// FixedTokens makes every candidate exactly so long, without a grammar. 0:
	// candidates end by themselves, constrained where the turn has a grammar.
	FixedTokens int
	// MaxTokens bounds a candidate that ends by itself.
	MaxTokens int
	// Greedy asks for deterministic decoding. Otherwise candidates are sampled at
	// temperature 1 with Seed and the candidate's number, but of inputs that ask for
	// deterministic decoding themselves, as recorded ones may.
	Greedy bool
	Seed   uint64
	// Stream asks for tokens as they come, where the target can, to see the time
	// to the first one and between them. It costs every side some throughput.
	Stream bool
}

// greedy tells whether a turn is decoded deterministically.
func (o *Options) greedy(t *workload.Turn) bool {
	extra, _ := protocol.Get(t.Input, extraKeys)
	mode, _ := protocol.Get(extra, inferenceMode)
	return o.Greedy || mode.Kind() == 't'
}

// Members of an input that say how it is decoded.
const (
	extraKeys     = "extra_keys"
	inferenceMode = "inference_mode"
)

// Answer is what one turn got.
type Answer struct {
	Candidates []Candidate
	// Tokens of the prompt, counted once however many requests asked for the
	// candidates, and those that the server computed for all of these requests,
	// which can be more; -1: it does not say.
	PromptTokens, ComputedTokens int
	// OutputTokens of all candidates; -1: the server does not say.
	OutputTokens int
	// Queue is how long the server let the turn wait, First when the first token
	// of the first candidate was there, both from when the request was sent; -1:
	// unknown.
	Queue, First time.Duration
	// Copies tells that the candidates are copies of one that was generated.
	Copies bool
	// Gaps between the tokens of a candidate, for all candidates; nil: unknown.
	Gaps []time.Duration
	// Prompt is what the server says it gave to the model; "" when it does not.
	Prompt string
}

// Candidate is one answer.
type Candidate struct {
	Text   string
	Tokens int // -1: the server does not say
	// Failure is the code of a candidate that failed; "" when it did not.
	Failure string
}

// ErrNoCounters says that a server does not tell what it counted.
var ErrNoCounters = errors.New("the server tells no counters")

// Counters are what a server counted since it started; -1 where it does not say.
type Counters struct {
	// Prefilled, Cached and Generated tokens; Steps of the model and Rows in them.
	Prefilled, Cached, Generated, Steps, Rows float64
	// Evicted sequences or slots.
	Evicted float64
	// CellsUsed and Cells of the KV cache; Running and Waiting candidates now.
	CellsUsed, Cells, Running, Waiting float64
	// Phases of a step: seconds spent by name (plan, decode, sample, commit).
	Phases map[string]float64
}

// Kinds of failures.
const (
	Refused   = "refused"   // 429 or 503: the server takes no more work
	TimedOut  = "timeout"   // the harness's own limit
	Cancelled = "cancelled" // the harness left on purpose
	Transport = "transport" // no HTTP answer
	Status    = "status"    // another status
	Contract  = "contract"  // an answer that can't be read
)

// Failure is a turn without an answer.
type Failure struct {
	Kind       string
	Status     int // of HTTP, 0 without
	RetryAfter time.Duration
	Err        error
}

func (f *Failure) Error() string { return f.Kind + ": " + f.Err.Error() }

func (f *Failure) Unwrap() error { return f.Err }
