package core

import (
	"errors"
	"fmt"
)

// Token is a vocabulary id.
type Token int32

// JobID names a job; the caller chooses it and never uses one twice at a time.
type JobID uint64

// SeqID is a sequence of the context, 0 <= id < Config.MaxSequences.
type SeqID int32

// Config is what the core must know of the context and the policy.
type Config struct {
	// Cells is the number of KV cells of the context (all sequences together).
	Cells int
	// MaxSequences is the number of sequence ids, running and cached together.
	MaxSequences int
	// MaxOutputs is the most logits rows of one step.
	MaxOutputs int
	// MaxRunning is the most sequences that run at once. It is at most MaxOutputs, since
	// all may need their logits in the same step. 0: MaxOutputs.
	MaxRunning int
	// BatchTokens is the most rows of one step.
	BatchTokens int
	// PrefillChunk is the most prompt rows of a step in which others decode, so
	// that a long prompt can't stall them. 0: for each prompt in prefill or waiting
	// for one as many as cost what the decode rows cost, but at least PrefillLeast. So
	// a single prompt doubles the time of a step, and where many wait and few decode,
	// the many come first.
	PrefillChunk int
	// RowCells is how many cells a row sees when attention costs as much as all else
	// that is computed for the row. 0: all rows cost the same.
	RowCells int
	// Overcommit reserves for a candidate what candidates usually need, once some
	// have ended, instead of what it may need at most: more of them run together.
	// When the cells don't suffice after all, sequences wait for each other, and the
	// youngest is parked if none can go on.
	Overcommit bool
	// MinWait is the least number of tokens that make it worth waiting for
	// another sequence's prefill instead of computing them again. 0: MinWait.
	MinWait int
	// EvictLeast is how many cells at least are evicted at a time, where only the end of
	// a cached sequence goes. 0: EvictLeast.
	EvictLeast int
	// DraftRows is up to how many rows a step is filled with guesses of what candidates
	// say next, see draft: such a step costs little more than one without, and gives
	// some of them several tokens. Where as many decode anyway nothing is guessed. 0:
	// nothing ever. It needs PartialCopy, and that Usable is nil.
	DraftRows int
	// Endings are tokens that end a candidate, which are never guessed.
	Endings []Token
	// NoReuse computes every prompt from its first token on: to measure what the prefix
	// cache is worth, and what it costs. Candidates of one prompt that start
	// together still share it, and the others where it can be cut.
	NoReuse bool
	// HostCells is how many evicted cells are kept in host memory, to be loaded instead
	// of computed again, in blocks of HostBlock (0: HostBlock) cells or less, and up to
	// HostLeast (0: HostLeast) more, since fewer are not worth a block of their own, nor
	// loading. Beside them a block takes 4 bytes for each token up to its end. 0: none. It
	// needs PartialCopy, and that Usable is nil.
	HostCells, HostBlock, HostLeast int
	// PrefixBlock is the grain, in tokens, in which the beginnings of prompts are remembered,
	// to know whether what is cached is worth keeping. 0: PrefixBlock.
	PrefixBlock int
	// PartialCopy says that a prefix of a sequence can be copied and its tail
	// removed. It is false for recurrent and hybrid models, whose state exists
	// only at the end of a sequence.
	PartialCopy bool
	// Usable says whether the first n positions of a sequence can still be
	// continued at position n: cells outside a sliding window may have been
	// given away. nil: always.
	Usable func(s SeqID, n int) bool
	// Check verifies every invariant after every call (tests).
	Check bool
}

func (c *Config) validate() error {
	switch {
	case c.Cells < 2:
		return fmt.Errorf("core: Cells is %d, need at least 2", c.Cells)
	case c.MaxSequences < 1 || c.MaxSequences > MaxSequences:
		return fmt.Errorf("core: MaxSequences is %d, must be 1 to %d", c.MaxSequences, MaxSequences)
	case c.MaxOutputs < 1:
		return fmt.Errorf("core: MaxOutputs is %d, need at least 1", c.MaxOutputs)
	case c.BatchTokens < 1:
		return fmt.Errorf("core: BatchTokens is %d, need at least 1", c.BatchTokens)
	case c.PrefillChunk < 0 || c.PrefillChunk > c.BatchTokens:
		return fmt.Errorf("core: PrefillChunk is %d, must be 0 to BatchTokens (%d)", c.PrefillChunk, c.BatchTokens)
	case c.EvictLeast < 0:
		return fmt.Errorf("core: EvictLeast is %d, must not be negative", c.EvictLeast)
	case c.HostCells < 0 || c.HostBlock < 0 || c.HostLeast < 0:
		return fmt.Errorf("core: HostCells, HostBlock and HostLeast are %d, %d and %d, must not be negative", c.HostCells, c.HostBlock, c.HostLeast)
	case c.HostCells > 0 && (!c.PartialCopy || c.Usable != nil || c.NoReuse):
		return fmt.Errorf("core: HostCells is %d, but cells of this memory can't be kept in parts, or are not to be", c.HostCells)
	case c.MaxRunning < 0 || c.MaxRunning > c.MaxOutputs:
		return fmt.Errorf("core: MaxRunning is %d, must be 0 to MaxOutputs (%d)", c.MaxRunning, c.MaxOutputs)
	case c.PrefixBlock < 0:
		return fmt.Errorf("core: PrefixBlock is %d, must not be negative", c.PrefixBlock)
	case c.DraftRows < 0:
		return fmt.Errorf("core: DraftRows is %d, must not be negative", c.DraftRows)
	case c.DraftRows > 0 && (!c.PartialCopy || c.Usable != nil):
		return fmt.Errorf("core: DraftRows is %d, but cells of this memory can't be taken back", c.DraftRows)
	case c.MinWait < 0:
		return fmt.Errorf("core: MinWait is %d, must not be negative", c.MinWait)
	}
	return nil
}

// Job is one prompt to be completed N times.
type Job struct {
	ID JobID
	// Prompt must not change until the job has ended.
	Prompt []Token
	// Blocks are those of Prompt, of Config.PrefixBlock tokens. nil: they are computed here.
	Blocks []PrefixHash
	// N is the number of candidates, at least 1.
	N int
	// MaxNew is the most tokens of one candidate, at least 1.
	MaxNew int
	// RepeatLeast ends a candidate that says an n-gram of so many tokens or more four
	// times in a row. 0: none.
	RepeatLeast int
	// LastApart computes the last token of the prompt in a later step than the
	// rest, as it is computed when the rest is cached: kernels round differently
	// for one row and for many, and the first token must not depend on that.
	LastApart bool
}

// OverflowError says that a job can never fit into the context.
type OverflowError struct{ Prompt, MaxNew, Limit int }

func (e *OverflowError) Error() string {
	return fmt.Sprintf("context overflow: a prompt of %d tokens and up to %d new ones need %d cells, the context has %d",
		e.Prompt, e.MaxNew, e.Prompt+e.MaxNew, e.Limit)
}

// Errors of Submit.
var (
	ErrDuplicate = errors.New("core: a job with this id is still alive")
	ErrEmpty     = errors.New("core: the prompt is empty")
	ErrCount     = errors.New("core: N and MaxNew must be at least 1")
)

// OpKind is the kind of a memory operation.
type OpKind uint8

// Memory operations.
const (
	// OpCopy makes positions [Pos, End) of Src also those of Seq, which has those before
	// Pos of Src already, and no others.
	OpCopy OpKind = iota + 1
	// OpRemove removes the positions [Pos, end) of Seq; Pos 0 empties it.
	OpRemove
	// OpSave copies what the positions [Pos, End) of Seq hold to host memory, as Block.
	OpSave
	// OpLoad appends the positions [Pos, End) of Block to Seq, which has Pos tokens. It
	// takes as many free cells as were saved, for a moment.
	OpLoad
	// OpDrop forgets Block.
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

// Sample asks for the next tokens of one candidate: one from the logits of a row, and
// more where tokens were guessed. When the first is that of row Draft, the second is
// sampled from the logits of that row, and so on for the Drafts rows from there on.
type Sample struct {
	Row       int
	Job       JobID
	Candidate int
	Draft     int
	Drafts    int
}

// Plan is one step. Its slices are valid until the next call of Plan.
type Plan struct {
	Ops     []Op
	Rows    []Row
	Samples []Sample
	// Started are the jobs whose prompts got a sequence, again if they had to
	// give up one.
	Started []JobID
}

// Verdict is what becomes of a candidate after a sample.
type Verdict uint8

// Verdicts.
const (
	Continue Verdict = iota // the candidate goes on
	Complete                // nothing may follow the tokens: it has ended
	Stop                    // an end-of-generation token followed, which is not part of the completion
	Fail                    // nothing could be sampled behind the tokens: only this candidate ends
	Repeat                  // with the tokens the candidate said again what it said before, and has ended
)

// Choice answers one Sample.
type Choice struct {
	// Tokens are the next ones of the completion: at least one with Continue. What would be
	// more than MaxNew tokens is dropped.
	Tokens []Token
	// Forced are the indexes of those that were not sampled, in order: the grammar admits
	// nothing else there. The candidate decodes them together with the sampled ones, and
	// samples next behind the last one.
	Forced  []int
	Verdict Verdict
	// Spoilt, with Fail: the cells of the sequence may hold what is no number, so that
	// nobody goes on from them.
	Spoilt bool
}

// Result is how the decode of a step went.
type Result uint8

// Results.
const (
	Decoded Result = iota // every row was computed
	NoSlot                // no cells for the rows; the memory is as before
	Broken                // the computation failed; the rows' sequences are undefined
)

// Finish is why a candidate ended.
type Finish uint8

// Finish reasons.
const (
	FinishStop   Finish = iota + 1 // the model ended it, or nothing could follow
	FinishLength                   // MaxNew tokens
	FinishError                    // Verdict Fail
	FinishRepeat                   // see Job.RepeatLeast, or Verdict Repeat
)

// EventKind is the kind of an event.
type EventKind uint8

// Events.
const (
	CandidateFinished EventKind = iota + 1
	// JobFinished follows the CandidateFinished of the last candidate.
	JobFinished
	// JobFailed ends a job whose other candidates can't be computed; Result says why.
	JobFailed
)

// Event is something that Commit made happen.
type Event struct {
	Kind      EventKind
	Job       JobID
	Candidate int
	Finish    Finish
	// Tokens is the completion, without an end-of-generation token.
	Tokens []Token
	// Repeated of them at the end, with FinishRepeat, came several times in a row; 0:
	// Verdict Repeat.
	Repeated int
	// Cached is how many prompt tokens were not computed for this job.
	Cached int
	Result Result
}
