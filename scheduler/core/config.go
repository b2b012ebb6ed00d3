package core

// Policy holds the options that a caller may set. A zero value selects the default.
type Policy struct {
	// MaxSequences is the number of sequence ids, for running and cached sequences together.
	MaxSequences int
	// MaxRunning is the limit of running sequences. It is at most Config.MaxOutputs, since all may need
	// logits in the same step. 0: MaxOutputs.
	MaxRunning int
	// BatchTokens is the limit of rows in one step, prompt and decode rows together.
	BatchTokens int
	// PrefillChunk is the limit of prompt rows in a step in which other sequences decode, so that a long
	// prompt cannot stall them. A larger value shortens the prefill, a smaller one the time between tokens
	// of the others. With 0, each prompt that is in prefill or waits for one gets rows that take as long
	// as the decode rows alone, by [Core.Observe], at least MinPrefillCost. So one prompt doubles the time of a
	// step, and if many prompts wait while few sequences decode, the prompts get most of it.
	PrefillChunk int
	// DraftRows is the number of rows up to which speculative tokens fill a step. Such a step costs
	// little more than a smaller one, and can give a candidate several tokens. 0: no
	// speculation. It needs Config.PartialCopy and no Config.Usable.
	DraftRows int
	// NoPrefixCache computes each prompt from its first token on, to measure the benefit and the cost of the prefix
	// cache. Candidates of a request still share its prompt: the first wave always, later ones with Config.PartialCopy.
	NoPrefixCache bool
	// HostCells is the most evicted cells that are kept in host memory, to be loaded instead of
	// computed again. 0: no host cache. It needs Config.PartialCopy and no Config.Usable.
	HostCells int
}

// Config describes the context and the policy. New does not check it: package scheduler has checked it.
type Config struct {
	Policy
	// Cells is the number of KV cells of the context, for all sequences together.
	Cells int
	// MaxOutputs is the limit of rows with logits in one step.
	MaxOutputs int
	// RowCells is the number of visible cells at which attention costs as much as the rest of
	// a row's computation. 0: all rows cost the same.
	RowCells int
	// Overcommit reserves the usual number of cells for a candidate instead of the worst case, once some
	// candidates have ended, so that more run together. When cells run out, sequences wait for
	// others to end, and the youngest is preempted if none can continue.
	Overcommit bool
	// EndTokens end a candidate. They are never proposed as speculative tokens.
	EndTokens []Token
	// PartialCopy: a prefix of a sequence can be copied, and its tail can be removed. It is false for
	// recurrent and hybrid models, which have a state at the end of a sequence only.
	PartialCopy bool
	// Usable reports whether the first n positions of a sequence can be continued at position n, which needs
	// the cells of a sliding window before it. nil: always.
	Usable func(s SeqID, n int) bool
	// Check verifies every invariant after every call, for tests.
	Check bool
}
