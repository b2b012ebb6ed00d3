package core

const (
	// lookAhead is the number of waiting requests among which preferCached chooses, maxPassed
	// how often one may be passed over.
	lookAhead, maxPassed = 32, 8

	// prefillFloor is the share (1/prefillFloor) of a step's rows kept for prompts when the
	// decode rows alone would fill the step.
	prefillFloor = 8

	// MinPrefillCost is the least cost of a prompt's rows beside decode rows, in rows without
	// visible cells, when Config.PrefillChunk is 0. With less, the fixed cost of steps
	// dominates.
	MinPrefillCost = 8

	// maxScoreRows is the limit of logits rows of prompts in a step, beside one for each sequence. A row of a large
	// vocabulary has 600 kB.
	maxScoreRows = 64

	// rowGroup is the number of rows that the products compute at once (agentd-columns.h).
	rowGroup = 8

	// oldestShare is the share (1/oldestShare) of the prefill budget that the oldest prompt
	// gets.
	oldestShare = 4

	// Overcommit reserves lengthFactor times the mean length of about the last lengthMemory
	// candidates. It starts when so many have ended. A longer candidate has minReserve ahead
	// of it.
	lengthFactor, lengthMemory, minReserve = 2, 16, 16

	// hostBlockCells is the largest number of cells in a block of the host cache. A block is loaded
	// whole, and each one takes a few operations. It may have up to MinHostBlock more: fewer cells get no
	// block of their own and are not loaded. A block also takes 4 bytes for each token of its prefix.
	hostBlockCells = 256
	// MinHostBlock is the smallest block.
	MinHostBlock = 16

	// MaxDraftTokens is the limit of speculative tokens for a candidate in a step,
	// initialDraftLen the first draft length. A draft continues the same n-gram of draftNgram
	// tokens, or at least minDraftNgram, within the last draftWindow tokens. After rejections
	// a candidate pauses for at most maxDraftCooldown steps.
	MaxDraftTokens, initialDraftLen        = 7, 3
	draftNgram, minDraftNgram, draftWindow = 3, 2, 8192
	maxDraftCooldown                       = 8

	// Waits. Steps with active waits whose threads wait longer for a processor than
	// busyShare add up to busyScore, then waits are brief. Measured on two cores: 0.1 of a
	// step on free processors, 0.5 beside one busy loop, 0.7 beside four. Brief waits last
	// briefFirst steps, then active ones are tried again. If these last
	// less than activeLasts steps, the next brief ones last twice as long, briefMost at most.
	busyShare, busyScore  = 0.25, 0.4
	briefFirst, briefMost = 64, 512
	activeLasts           = 64

	// Threads. A trial has trialBlocks blocks of trialBlock steps for each count, and
	// another count must be faster by trialMargin. A trial ends early when it has less
	// than trialHopeless of the speed. The first one starts after trialFirst steps with brief
	// waits, and so does the one after a change. Between two trials there are trialGap steps,
	// twice as many after each trial that changed nothing, and trialGapMost at most. A step
	// has a fixed cost of about stepRows rows. Counts differ by 1/threadStride, or by one.
	trialBlock, trialBlocks            = 5, 4
	trialMargin, trialHopeless         = 0.05, 0.7
	trialFirst, trialGap, trialGapMost = 8, 128, 512
	stepRows, threadStride             = 64, 4

	// repeatTimes is how often the n-gram of a repetition occurs. maxRepeat bounds the length of the
	// n-grams, and so the cost of a token.
	repeatTimes, maxRepeat = 4, 1024

	// initialTokens is the first capacity of a candidate's generated tokens.
	initialTokens = 64
)

// tuning are limits that tests make smaller.
type tuning struct {
	minShared int // tokens for which a prompt waits for the prefill of another one
	minEvict  int // cells to evict when only the end of a cached sequence goes
	minRepeat int // tokens of an n-gram that ends a candidate with StopRepeats
}

// tuned: waiting takes at least one step, and a step computes minShared more rows at nearly no cost. A step
// has about minEvict cells.
var tuned = tuning{minShared: 32, minEvict: 32, minRepeat: 8}
