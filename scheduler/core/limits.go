package core

const (
	// lookAhead is the number of waiting requests among which preferCached chooses, maxPassed how
	// often a request may be passed over.
	lookAhead, maxPassed = 32, 8

	// 1/prefillFloor is the share of a step's rows that prompts get when decode rows alone would fill the step.
	prefillFloor = 8

	// MinPrefillCost is the least cost of a prompt's rows beside decode rows when Config.PrefillChunk
	// is 0, for steps whose time is not known yet; a row without visible cells costs 1.
	MinPrefillCost = 8

	// maxScoreRows bounds the rows of prompts with logits in a step, besides one for each sequence. The logits of
	// a large vocabulary take 600 kB.
	maxScoreRows = 64

	// rowGroup is the number of rows that a matrix product computes at once (agentd-columns.h).
	rowGroup = 8

	// 1/oldestShare is the share of the prefill budget that the oldest prompt gets.
	oldestShare = 4

	// Overcommit reserves lengthFactor times the mean length of about the last lengthMemory candidates,
	// once so many have ended. A candidate that is longer always has minReserve cells reserved.
	lengthFactor, lengthMemory, minReserve = 2, 16, 16

	// hostBlockCells is the usual number of cells in a block of the host cache. A block is loaded as a whole,
	// in a few operations. The last block of a sequence may have up to MinHostBlock more, since fewer get
	// no block. A block also takes 4 bytes for each token of its prefix.
	hostBlockCells = 256
	// MinHostBlock is the smallest block.
	MinHostBlock = 16

	// MaxDraftTokens is the limit of speculative tokens for a candidate in a step, initialDraftLen the first draft
	// length. A draft is what followed the last draftNgram tokens, or the last minDraftNgram, before, within the last
	// draftWindow tokens. After rejections a candidate has no drafts for at most maxDraftCooldown steps.
	MaxDraftTokens, initialDraftLen        = 7, 3
	draftNgram, minDraftNgram, draftWindow = 3, 2, 8192
	maxDraftCooldown                       = 8

	// See waits. In each step with active waits, the share of the step that a thread waited for a processor, minus
	// busyShare, is added to a score; at busyScore, waits become brief. Measured on two cores: a share of 0.1 on free
	// processors, 0.5 beside one busy loop, 0.7 beside four. Brief waits last briefFirst steps, then active ones are
	// tried. If these last fewer than activeLasts steps, the next brief ones last twice as long, up to briefMost.
	busyShare, busyScore  = 0.25, 0.4
	briefFirst, briefMost = 64, 512
	activeLasts           = 64

	// See trial. A trial has trialBlocks blocks of trialBlock steps for each of two counts of threads. The other count
	// must be faster by trialMargin; a trial ends early if its speed is below trialHopeless of the present one's. The
	// first trial starts after trialFirst steps with brief waits, and so does the one after a change. Between trials
	// are trialGap steps, twice as many after each trial without a change, up to trialGapMost. A step has a fixed cost
	// of about stepRows rows. The counts differ by 1/threadStride, at least by one.
	trialBlock, trialBlocks            = 5, 4
	trialMargin, trialHopeless         = 0.05, 0.7
	trialFirst, trialGap, trialGapMost = 8, 128, 512
	stepRows, threadStride             = 64, 4

	// repeatTimes is how often an n-gram must occur in a row to count as a repetition. maxRepeat bounds the
	// length of n-grams, and so the cost of the check after each token.
	repeatTimes, maxRepeat = 4, 1024

	// initialTokens is the first capacity of a candidate's generated tokens.
	initialTokens = 64
)

// tuning are limits that tests make smaller.
type tuning struct {
	minShared int // tokens for which a prompt waits for the prefill of another one
	minEvict  int // the least cells that are evicted from the end of a cached sequence
	minRepeat int // the least tokens of an n-gram that ends a candidate with StopRepeats
}

// tuned is used outside of tests. To wait for another prefill takes at least one step, which could compute minShared
// more rows at nearly no cost. A step needs about minEvict cells.
var tuned = tuning{minShared: 32, minEvict: 32, minRepeat: 8}
