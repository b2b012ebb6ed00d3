package core

const (
	// MaxSequences is LLAMA_MAX_SEQ: the highest number of sequence ids of a
	// llama.cpp context.
	MaxSequences = 256

	// MinWait is the default of Config.MinWait. Waiting costs at least one step,
	// and a step computes this many more rows for nearly nothing.
	MinWait = 32

	// lookAhead is among how many waiting jobs closest chooses, maxPassed how often one
	// may be passed over.
	lookAhead, maxPassed = 32, 8

	// prefillFloor is the share (1/prefillFloor) of a step's rows kept for
	// prompts when the decode rows alone would fill the step.
	prefillFloor = 8

	// PrefillLeast is the least that the rows of each prompt may cost beside decode
	// rows, in rows that see nothing, when Config.PrefillChunk is 0: with less, what
	// each step costs by itself would be paid too often.
	PrefillLeast = 8

	// oldestShare is the share (1/oldestShare) of what prompts may cost that the
	// oldest of them has for certain.
	oldestShare = 4

	// Overcommit: what candidates usually need is lengthFactor times their mean
	// length, over about lengthMemory of them and known from so many on; one that
	// needs more has leastReserve ahead of it.
	lengthFactor, lengthMemory, leastReserve = 2, 16, 16

	// EvictLeast is the default of Config.EvictLeast: about a step's worth.
	EvictLeast = 32

	// HostBlock and HostLeast are the defaults of Config's: a block is loaded whole, and
	// each takes a few operations.
	HostBlock, HostLeast = 256, 16

	// DraftMost is how many tokens of a candidate are guessed at most in a step, firstDraft
	// how many at first. A guess follows the same draftMatch tokens, or at least
	// draftLeast, among the draftLook last ones. draftRest is for how many steps nothing is
	// guessed at most.
	DraftMost, firstDraft, draftMatch, draftLeast, draftLook, draftRest = 7, 3, 3, 2, 8192, 8

	// Threads. A trial has trialBlocks blocks of trialBlock steps for each count, and
	// another count must be faster by trialMargin; a trial ends early when it has less
	// than trialHopeless of the speed. Between two trials there are
	// trialGap steps, twice as many after each trial that changed nothing, and
	// trialGapMost at most; trialFirst before the first one. A trial needs threads that
	// lost their processor in trialPressure of the steps; below calmPressure the
	// processors count as free, from calmSteps with one count on. pressureSteps is the memory of that average. Counts
	// differ by 1/threadStride, or by one.
	trialBlock, trialBlocks            = 5, 4
	trialMargin, trialHopeless         = 0.05, 0.7
	trialFirst, trialGap, trialGapMost = 128, 256, 1024
	trialPressure, calmPressure        = 0.25, 0.05
	calmSteps                          = 32
	pressureSteps, threadStride        = 64, 4

	// RepeatLeast is what Job.RepeatLeast is where nobody has a reason for another, and
	// repeatTimes how often the n-gram comes. repeatMost bounds the n-grams that are
	// looked for, and so what a token costs.
	RepeatLeast, repeatTimes, repeatMost = 8, 4, 1024

	// firstTokens is how many generated tokens a candidate has room for at first.
	firstTokens = 64
)
