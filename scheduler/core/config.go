package core

// Policy holds the options that a caller may set. A zero value selects the default.
type Policy struct {
	// MaxSequences is the number of sequence ids, for running and cached sequences together.
	MaxSequences int
	// MaxRunning is the limit of running sequences. It is at most Config.MaxOutputs, since all
	// may need their logits in the same step. 0: MaxOutputs.
	MaxRunning int
	// BatchTokens is the limit of rows in one step, prompt and decode rows together.
	BatchTokens int
	// PrefillChunk is the limit of prompt rows in a step in which others decode, so that a
	// long prompt cannot stall them. A larger value ends prompts sooner. A smaller one gives
	// the others their next token sooner. With 0, each prompt that is in prefill or waits for
	// one gets rows for the cost of the decode rows, but at least MinPrefillCost. So one prompt
	// doubles the time of a step. If many prompts wait and few sequences decode, the prompts
	// come first.
	PrefillChunk int
	// DraftRows is the number of rows up to which a step is filled with speculative tokens.
	// Such a step costs little more than one without, and can give a candidate several
	// tokens. 0: no speculation. It needs Config.PartialCopy and no Config.Usable.
	DraftRows int
	// NoPrefixCache computes each prompt from its first token on, to measure the benefit and
	// the cost of the prefix cache. Candidates that start together still share their prompt.
	// The others do where a sequence can be cut.
	NoPrefixCache bool
	// HostCells is the number of evicted cells that are kept in host memory, to be loaded
	// instead of computed again. 0: no host cache. It needs Config.PartialCopy and no
	// Config.Usable.
	HostCells int
}

// Config describes the context and the policy. New trusts it: package scheduler has checked it against its context.
type Config struct {
	Policy
	// Cells is the number of KV cells of the context, for all sequences together.
	Cells int
	// MaxOutputs is the limit of logits rows in one step.
	MaxOutputs int
	// RowCells is the number of visible cells at which attention costs as much as the rest of
	// a row's computation. 0: all rows cost the same.
	RowCells int
	// Overcommit reserves the usual number of cells for a candidate, once some have ended,
	// instead of the worst case: more of them run together. When cells run out, sequences
	// wait for each other, and the youngest is preempted if none can continue.
	Overcommit bool
	// EndTokens end a candidate. They are never proposed as speculative tokens.
	EndTokens []Token
	// PartialCopy: a prefix of a sequence can be copied, and its tail removed. It is false for
	// recurrent and hybrid models, whose state exists only at the end of a sequence.
	PartialCopy bool
	// Usable reports whether the first n positions of a sequence can be continued at position
	// n. Cells outside a sliding window may be gone. nil: always.
	Usable func(s SeqID, n int) bool
	// Check verifies every invariant after every call, for tests.
	Check bool
}
