package core

import "agentd/scheduler/generation"

// Token is a vocabulary id.
type Token = generation.Token

// RequestID identifies a request. The caller chooses it; it must be unique among live requests.
type RequestID uint64

// SeqID is a sequence of the context, 0 <= id < Config.MaxSequences.
type SeqID int32

// AdapterID identifies a LoRA adapter; 0 is the model without one. Requests of different adapters share no step and
// no cached prefix.
type AdapterID = generation.AdapterID

// Request is one prompt to be completed N times. Of generation.Request the core reads Prompt,
// Adapter, N, MaxTokens, ScoreFrom, StopRepeats, Priority, Client, and whether Temperature is 0.
// With MaxTokens 0 each candidate ends with the choice after the prompt, which has no token.
type Request struct {
	ID RequestID
	generation.Request
	// Since is the second, by Core.Tick, since which it waits.
	Since int
	// Branch marks a branch of a search, whose tokens the caller chooses. It has no speculative tokens, and
	// its length does not count for Overcommit.
	Branch bool
	// Fork marks the continuation of another branch, whose tokens are at the end of Prompt. Its prompt does not
	// count in Stats, and it starts before waiting requests.
	Fork bool
	// Begun has the first tokens of each candidate, fewer than MaxTokens, after which it continues. An element is nil
	// for a candidate that has ended; not all may be nil. The slice is nil if all candidates start.
	Begun [][]Token
	// Forced has, for each candidate, the ascending indexes of those tokens in Begun that the grammar forced.
	Forced [][]int
}

// isolatesLast reports whether the last prompt token is computed in a separate step, as it is when the rest of the
// prompt is cached. Kernels that are not batch-invariant round differently for one row and for many, and the
// first token of greedy decoding must not depend on that.
func (r *Request) isolatesLast() bool { return r.Temperature <= 0 && !r.Fork && r.MaxTokens > 0 }

// OpKind is the kind of a memory operation.
type OpKind uint8

// Memory operations.
const (
	// OpCopy adds the positions [Pos, End) of Src to Seq. Seq holds exactly the positions of
	// Src before Pos.
	OpCopy OpKind = iota + 1
	// OpRemove removes the positions [Pos, end) of Seq; Pos 0 empties it.
	OpRemove
	// OpSave copies the positions [Pos, End) of Seq to host memory, as Block.
	OpSave
	// OpLoad appends the positions [Pos, End) of Block to Seq, which has Pos tokens. It
	// briefly needs as many free cells as the block has.
	OpLoad
	// OpDrop frees Block.
	OpDrop
)

// Op is one memory operation, to be applied in the plan's order.
type Op struct {
	Kind  OpKind
	Seq   SeqID
	Src   SeqID
	Pos   int
	End   int
	Block BlockID
}

// Row is one token of the step's batch. Output: its logits are needed.
type Row struct {
	Token  Token
	Pos    int
	Seq    SeqID
	Output bool
}

// Sample asks for the next tokens of one candidate: one from the logits of Row, and more with speculative tokens.
// If the first token equals that of row Draft, the second one is sampled from the logits of that row, and so on for
// Drafts rows.
type Sample struct {
	Row       int
	Request   RequestID
	Candidate int
	Draft     int
	Drafts    int
}

// Score asks for the probability of token Index of the request's prompt, by the logits of Row. If Index is the length
// of the prompt, it asks for the tokens that may follow.
type Score struct {
	Row     int
	Request RequestID
	Index   int
}

// Plan is one step. Its slices are valid until the next call of Plan.
type Plan struct {
	Ops     []Op
	Rows    []Row
	Samples []Sample
	Scores  []Score
	// Adapter is that of all rows.
	Adapter AdapterID
	// Started has the requests whose prompts got a sequence, preempted ones again.
	Started []RequestID
}

// Verdict is the state of a candidate after a sample.
type Verdict uint8

// Verdicts.
const (
	Continue Verdict = iota
	Complete         // ended: the grammar allows nothing after the tokens
	Stop             // ended by an end-of-generation token, which is not among the tokens
	Fail             // ended: sampling failed after the tokens
)

// Choice is the answer to one Sample.
type Choice struct {
	// Tokens are the next tokens of the completion, at least one with Continue. Those beyond MaxTokens are dropped.
	Tokens []Token
	// Forced has the ascending indexes of the tokens that the grammar forced. The next step decodes them together
	// with the sampled ones, and samples after the last one.
	Forced  []int
	Verdict Verdict
	// NonFinite, with Fail: the cells of the sequence may hold NaN or Inf. They are not reused.
	NonFinite bool
}

// StepStatus is the outcome of the decode of a step.
type StepStatus uint8

// Step statuses.
const (
	StepDecoded StepStatus = iota // all rows were computed
	StepNoSlot                    // no cells for the rows; the memory is unchanged
	StepFailed                    // the computation failed; the sequences in the step are undefined
)

// EventKind is the kind of an event.
type EventKind uint8

// Events.
const (
	CandidateFinished EventKind = iota + 1
	// RequestFinished follows the CandidateFinished of the last candidate.
	RequestFinished
	// RequestFailed ends a request whose other candidates cannot be computed. Status is the
	// cause.
	RequestFailed
)

// Event is a result of Commit.
type Event struct {
	Kind      EventKind
	Request   RequestID
	Candidate int
	Finish    generation.Finish
	// Tokens is the completion, without an end-of-generation token.
	Tokens []Token
	// Repeated, with generation.FinishRepeat, is the length in tokens of the repeated n-gram at the end.
	Repeated int
	// Cached is the number of prompt tokens that were not computed for this request.
	Cached int
	Status StepStatus
}
