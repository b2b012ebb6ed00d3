package core

import "agentd/scheduler/generation"

// Token is a vocabulary id.
type Token = generation.Token

// RequestID names a request. The caller chooses it, unique among live requests.
type RequestID uint64

// SeqID is a sequence of the context, 0 <= id < Config.MaxSequences.
type SeqID int32

// AdapterID names an adapter of the weights; 0: none. Requests of different adapters share no step
// and no cached prefix.
type AdapterID = generation.AdapterID

// Request is one prompt to be completed N times. Of generation.Request the core reads Prompt,
// Adapter, N, MaxTokens, ScoreFrom, StopRepeats, Priority, Client, and whether Temperature is 0.
// With MaxTokens 0 each candidate ends with the choice after the prompt, which has no token.
type Request struct {
	ID RequestID
	generation.Request
	// Since is the second since which it waits, by the clock of Core.Tick.
	Since int
	// Branch is a part of a search: the caller chooses its tokens. It has no speculative
	// tokens, and its length says nothing of other completions.
	Branch bool
	// Fork continues a branch, whose tokens end its Prompt. Its prompt does not count in
	// Stats, and it starts before requests that wait.
	Fork bool
	// Begun has the first tokens of each candidate, fewer than MaxTokens, which continues after them; nil
	// for one that has ended before, but not for all. The slice is nil where all candidates begin.
	Begun [][]Token
	// Forced has the indexes of those tokens that the grammar forced, of each candidate, in order.
	Forced [][]int
}

// isolatesLast reports whether the last prompt token is computed in a step after the rest of the
// prompt, as it is when the rest is cached. Kernels round differently for one row and for many, and
// the first token of greedy decoding must not depend on that.
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

// Row is one token of the step's batch.
type Row struct {
	Token  Token
	Pos    int
	Seq    SeqID
	Output bool
}

// Sample requests the next tokens of one candidate: one from the logits of Row, and more
// with speculative tokens. If the first token equals that of row Draft, the second one is
// sampled from the logits of that row, and so on for Drafts rows.
type Sample struct {
	Row       int
	Request   RequestID
	Candidate int
	Draft     int
	Drafts    int
}

// Score says that the logits of Row report how probable token Index of the request's prompt is, or what follows the prompt.
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
	// Adapter computes the rows.
	Adapter AdapterID
	// Started are the requests whose prompts got a sequence. A preempted prompt starts again.
	Started []RequestID
}

// Verdict is the state of a candidate after a sample.
type Verdict uint8

// Verdicts.
const (
	Continue Verdict = iota
	Complete         // ended: nothing may follow the tokens
	Stop             // ended by an end-of-generation token, which is not among the tokens
	Fail             // ended: sampling failed after the tokens
)

// Choice answers one Sample.
type Choice struct {
	// Tokens are the next ones of the completion, at least one with Continue. Tokens beyond
	// MaxTokens are dropped.
	Tokens []Token
	// Forced holds the indexes of the tokens that the grammar forced, in order. The candidate
	// decodes them together with the sampled ones; its next sample is that of the last one.
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
	// Repeated, with generation.FinishRepeat, is the length of the n-gram at the end that
	// occurs several times in a row.
	Repeated int
	// Cached is the number of prompt tokens that were not computed for this request.
	Cached int
	Status StepStatus
}
